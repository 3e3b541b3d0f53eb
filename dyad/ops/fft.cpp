#include "dyad/ops/fft.h"

#include <cmath>
#include <string>
#include <utility>

#include "dyad/ops/arithmetic.h"
#include "dyad/ops/attrs/fft.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/complex.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/fft_support.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/views.h"

namespace dyad {
namespace ops {
namespace {

constexpr DTypeSet kTransformed = set_of({f64, f32});
constexpr ArgInfo kTransformIn[] = {{"x", kTransformed}};

/// The norm that multiplies the opposite direction by the same factor.
std::string opposite(const std::string& norm) {
  return norm == "backward" ? "forward" : norm == "forward" ? "backward" : norm;
}

void require_norm(const InferIn& in, const std::string& norm) {
  if (norm == "backward" || norm == "ortho" || norm == "forward") return;
  fail_value(in, "norm must be \"backward\", \"ortho\" or \"forward\"");
}

void require_pairs(const InferIn& in) {
  const Shape& shape = in[0].shape();
  if (shape.rank() < 2 || !(shape.back() == 2)) {
    fail_shape(in,
               "x must have an axis to transform and then one of size 2, the real and the "
               "imaginary part");
  }
}

/// The axis from the front, when there is something along it. That of the parts, the last of
/// `pairs`, counts but is not transformed.
std::size_t transformed_axis(const InferIn& in, std::int64_t axis, bool pairs) {
  const int rank = in[0].rank(), at = checked_axis(in, axis, rank);
  if (pairs && at == rank - 1) {
    fail_index(in, "axis " + std::to_string(at) + " holds the real and the imaginary parts");
  }
  const Dim n = in[0].shape()[static_cast<std::size_t>(at)];
  if (n.is_number() && n.number() < 1) {
    fail_value(
        in, "there is nothing to transform along axis " + std::to_string(at) + ", whose size is 0");
  }
  return static_cast<std::size_t>(at);
}

Dim half_size(Dim n) { return n / 2 + 1; }

// ONNX's inverse divides by n, its transform does not.

/// A value times n to the power of `power` (-1, -0.5, 0, 0.5 or 1).
std::string times_size(OnnxEmitter& e, std::string value, DType dtype, Dim n, double power) {
  if (power == 0) return value;
  std::string factor;
  if (n.is_number()) {
    factor = e.scalar(std::pow(static_cast<double>(n.number()), power), dtype);
  } else {
    factor = e.cast(e.size(n), dtype);
    if (std::abs(power) == 0.5) factor = e.node("Sqrt", {factor});
    if (power < 0) return e.node("Div", {value, factor});
  }
  return e.node("Mul", {value, factor});
}
double power_of(const std::string& norm, bool inverse) {
  const double wanted = norm == "ortho" ? -0.5 : (norm == "backward") == inverse ? -1 : 0;
  return inverse ? wanted + 1 : wanted;
}

/// The node DFT on a value of this rank, its axis of parts included.
std::string dft(OnnxEmitter& e, const std::string& value, std::int64_t axis, bool inverse,
                bool onesided) {
  OnnxAttrs attrs{{"inverse", std::int64_t{inverse}}, {"onesided", std::int64_t{onesided}}};
  if (e.opset() >= 20) return e.node("DFT", {value, "", e.size(axis)}, std::move(attrs));
  attrs.emplace_back("axis", axis);
  return e.node("DFT", {value}, std::move(attrs));
}

/// Pairs along `axis` of n / 2 + 1 elements, with a factor for those in the middle.
std::string with_middle(OnnxEmitter& e, const std::string& pairs, DType dtype, std::int64_t axis,
                        int rank, Dim n, double factor) {
  const std::string k = e.node("Range", {e.size(0), e.size(half_size(n)), e.size(1)});
  const std::string first = e.node("Equal", {k, e.size(0)});
  const std::string last = e.node("Equal", {e.node("Add", {k, k}), e.size(n)});
  const std::string weights =
      e.node("Where", {e.node("Or", {first, last}), e.scalar(1, dtype), e.scalar(factor, dtype)});
  Shape shape(static_cast<std::size_t>(rank) + 1, 1);
  shape[static_cast<std::size_t>(axis)] = -1;
  return e.node("Mul", {pairs, e.node("Reshape", {weights, e.shape(shape)})});
}

struct Rfft;
struct Irfft;

struct Fft {
  using Attrs = FftAttrs;
  static constexpr Schema schema{
      .name = "fft",
      .inputs = kTransformIn,
      .outputs = kOut,
      .doc =
          "The discrete Fourier transform along an axis, or its inverse, of complex numbers as "
          "pairs along the last axis.",
      .batching = Batching::axes};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    require_pairs(in);
    (void)transformed_axis(in, attrs.axis, true);
    require_norm(in, attrs.norm);
    return {in[0]};
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    g.set(0, apply<Fft>({attrs.axis, !attrs.inverse, opposite(attrs.norm)}, {}, g.grad()));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    const Type& type = e.output_type();
    const int axis = from_front(attrs.axis, type.rank());
    const std::string y = dft(e, e.input(0), axis, attrs.inverse, false);
    e.output(0, times_size(e, y, type.dtype(), type.shape()[static_cast<std::size_t>(axis)],
                           power_of(attrs.norm, attrs.inverse)));
  }
};

constexpr ArgInfo kRealIn[] = {{"x", kTransformed}};

struct Rfft {
  using Attrs = RfftAttrs;
  static constexpr Schema schema{
      .name = "rfft",
      .inputs = kRealIn,
      .outputs = kOut,
      .doc =
          "The first n / 2 + 1 elements of the discrete Fourier transform of n real numbers along "
          "an axis, as pairs along a new last axis.",
      .batching = Batching::axes};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    const std::size_t axis = transformed_axis(in, attrs.axis, false);
    require_norm(in, attrs.norm);
    Shape shape = in[0].shape();
    shape[axis] = half_size(shape[axis]);
    shape.push_back(2);
    return {Type(in[0].dtype(), shape)};
  }
  static void grad(Gradient& g, const Attrs& attrs);
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    const Type& type = e.input_type(0);
    const int axis = from_front(attrs.axis, type.rank());
    const Dim n = type.shape()[static_cast<std::size_t>(axis)];
    const std::int64_t last[] = {-1};
    std::string y =
        dft(e, e.node("Unsqueeze", {e.input(0), e.constant_i64(last)}), axis, false, true);
    y = times_size(e, y, type.dtype(), n, power_of(attrs.norm, false));
    e.output(0, attrs.adjoint ? with_middle(e, y, type.dtype(), axis, type.rank(), n, 2) : y);
  }
};

struct Irfft {
  using Attrs = IrfftAttrs;
  static constexpr Schema schema{
      .name = "irfft",
      .inputs = kTransformIn,
      .outputs = kOut,
      .doc =
          "The n real numbers along an axis whose discrete Fourier transform begins with the "
          "n / 2 + 1 given ones, pairs along the last axis.",
      .batching = Batching::axes};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    require_pairs(in);
    const std::size_t axis = transformed_axis(in, attrs.axis, true);
    require_norm(in, attrs.norm);
    if (attrs.n.is_number() && attrs.n.number() < 1) fail_value(in, "n must be at least 1");
    Shape shape = in[0].shape();
    const Dim given = shape[axis], wanted = half_size(attrs.n);
    if (given.is_number() && wanted.is_number() && !given.same_as(wanted)) {
      fail_shape(in, "axis " + std::to_string(axis) + " has " + to_string(given) +
                         " elements, but n / 2 + 1 = " + to_string(wanted) + " are needed");
    }
    shape[axis] = attrs.n;
    shape.resize(shape.size() - 1);
    return {Type(in[0].dtype(), shape)};
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    g.set(0, apply<Rfft>({attrs.axis, opposite(attrs.norm), !attrs.adjoint}, {}, g.grad()));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    // Runtimes know no real result: the other half of the spectrum is added, and the real part
    // taken.
    const Type& type = e.output_type();
    const DType dtype = type.dtype();
    const std::int64_t axis = from_front(attrs.axis, e.input_type(0).rank());
    const std::int64_t axes[] = {axis}, back[] = {-1}, zero[] = {0};
    std::string half = e.input(0);
    if (attrs.adjoint) half = with_middle(e, half, dtype, axis, type.rank(), attrs.n, 0.5);
    const std::string others =
        e.node("Slice", {half, e.shape({attrs.n - half_size(attrs.n)}), e.constant_i64(zero),
                         e.constant_i64(axes), e.constant_i64(back)});
    const Tensor signs = to(1 - 2 * arange(2), dtype);
    const std::string mirrored = e.node("Mul", {others, e.constant(signs)});
    const std::string whole = e.node("Concat", {half, mirrored}, {{"axis", axis}});
    const std::string y = e.node("Gather", {dft(e, whole, axis, true, false), e.size(0)},
                                 {{"axis", std::int64_t{-1}}});
    e.output(0, times_size(e, y, dtype, attrs.n, power_of(attrs.norm, true)));
  }
};

void Rfft::grad(Gradient& g, const Attrs& attrs) {
  const Shape& x = g.input_shape(0);
  const Dim n = x[static_cast<std::size_t>(from_front(attrs.axis, x.rank()))];
  g.set(0, apply<Irfft>({attrs.axis, n, opposite(attrs.norm), !attrs.adjoint}, {}, g.grad()));
}

/// f32 for all that is not f64.
Tensor widened(const Tensor& x, Loc loc) { return x.dtype() == f64 ? x : to(x, f32, loc); }

/// How messages name a call.
std::string call_of(const char* name, const Tensor& x) {
  return std::string(name) + "(" + type_string(x) + ")";
}

void require_size(const char* name, const Tensor& x, Dim n, Loc loc) {
  const bool fits = is_known(n) ? n.is_symbolic() || n.number() >= 1 : !is_below(n, 1);
  if (fits) return;
  throw ValueError(
      call_of(name, x) + ": n = " + to_string(size_now(n)) + ", but it must be at least 1",
      loc.user());
}

/// The axes of a transform of several, from the front, and the size of each.
struct Plan {
  std::vector<int> axes;
  Shape sizes;
};
Plan plan_of(const char* name, const Tensor& x, const Shape& sizes, const Ints& axes, Loc loc) {
  const auto fail = [&](const std::string& rule) {
    throw ValueError(call_of(name, x) + ": " + rule, loc.user());
  };
  const std::size_t rank = static_cast<std::size_t>(x.rank());
  if (!axes.empty() && !sizes.empty() && axes.size() != sizes.size()) {
    fail(std::to_string(sizes.size()) + " sizes for " + std::to_string(axes.size()) + " axes");
  }
  if (sizes.size() > rank) {
    fail(std::to_string(sizes.size()) + " sizes for " + std::to_string(rank) + " axes");
  }
  Plan plan;
  const std::size_t count = !axes.empty() ? axes.size() : !sizes.empty() ? sizes.size() : rank;
  if (count == 0) fail("a number has no axis to transform");
  for (std::size_t i = 0; i < count; ++i) {
    const int axis = axes.empty() ? static_cast<int>(rank - count + i)
                                  : normalize_axis(axes[i], x.rank(), name, loc);
    for (const int other : plan.axes) {
      if (other == axis) fail("axis " + std::to_string(axis) + " is named twice");
    }
    plan.axes.push_back(axis);
    const bool given = !sizes.empty() && !sizes[i].same_as(-1);
    plan.sizes.push_back(given ? sizes[i] : x.size(axis, loc));
    if (given) require_size(name, x, sizes[i], loc);
  }
  return plan;
}

Tensor transform(const char* name, const Tensor& x, std::optional<Dim> n, std::int64_t axis,
                 bool inverse, std::string_view norm, Loc loc) {
  const LocScope scope(loc);
  const int at = normalize_axis(axis, x.rank(), name, loc);
  const Dim size = n ? *n : x.size(at, loc);
  if (n) require_size(name, x, size, loc);
  const Tensor pairs = resized(pairs_of(x, loc), at, size, loc);
  return view_as_complex(fft_of_pairs(pairs, at, inverse, std::string(norm), loc), loc);
}

Tensor transform_all(const char* name, const Tensor& x, const Shape& sizes, const Ints& axes,
                     bool inverse, std::string_view norm, Loc loc) {
  const LocScope scope(loc);
  const Plan plan = plan_of(name, x, sizes, axes, loc);
  Tensor pairs = pairs_of(x, loc);
  for (std::size_t i = plan.axes.size(); i-- > 0;) {
    pairs = resized(pairs, plan.axes[i], plan.sizes[i], loc);
    pairs = fft_of_pairs(pairs, plan.axes[i], inverse, std::string(norm), loc);
  }
  return view_as_complex(pairs, loc);
}

Tensor to_half(const char* name, const Tensor& x, std::optional<Dim> n, std::int64_t axis,
               std::string_view norm, bool conjugate, Loc loc) {
  const LocScope scope(loc);
  const int at = normalize_axis(axis, x.rank(), name, loc);
  const Dim size = n ? *n : x.size(at, loc);
  if (n) require_size(name, x, size, loc);
  const Tensor signal = resized(real_signal(x, call_of(name, x), loc), at, size, loc);
  const std::string by(norm);
  Tensor pairs = rfft_to_pairs(signal, at, conjugate ? opposite(by) : by, loc);
  if (conjugate) pairs = conjugate_pairs(pairs, loc);
  return view_as_complex(pairs, loc);
}

Tensor from_half(const char* name, const Tensor& x, std::optional<Dim> n, std::int64_t axis,
                 std::string_view norm, bool conjugate, Loc loc) {
  const LocScope scope(loc);
  const int at = normalize_axis(axis, x.rank(), name, loc);
  const Dim size = n ? *n : (x.size(at, loc) - 1) * 2;
  require_size(name, x, size, loc);
  Tensor pairs = resized(pairs_of(x, loc), at, half_size(size), loc);
  if (conjugate) pairs = conjugate_pairs(pairs, loc);
  const std::string by(norm);
  return irfft_of_pairs(pairs, at, size, conjugate ? opposite(by) : by, loc);
}

/// Each axis turned so that element `first(n)` comes first.
template <class First>
Tensor turned(const char* name, const Tensor& x, Ints axes, First first, Loc loc) {
  const LocScope scope(loc);
  if (axes.empty()) {
    for (int axis = 0; axis < x.rank(); ++axis) axes.push_back(axis);
  }
  for (std::int64_t& axis : axes) axis = normalize_axis(axis, x.rank(), name, loc);
  if (is_complex(x) && x.rank() > 0) {
    return view_as_complex(turned(name, view_as_real(x, loc), axes, first, loc), loc);
  }
  Tensor made = x;
  for (const std::int64_t axis : axes) {
    const int at = static_cast<int>(axis);
    const Dim n = made.size(at, loc), middle = first(n);
    made =
        concat({slice(made, at, middle, n, 1, loc), slice(made, at, 0, middle, 1, loc)}, at, loc);
  }
  return made;
}

}  // namespace

std::span<const OpInfo* const> fft_rows() {
  static constexpr const OpInfo* kRows[] = {&op_info<Fft>, &op_info<Rfft>, &op_info<Irfft>};
  return kRows;
}

Tensor pairs_of(const Tensor& x, Loc loc) {
  if (is_complex(x)) return view_as_real(x, loc);
  const Tensor re = unsqueeze(widened(x, loc), -1, loc);
  Shape low(static_cast<std::size_t>(re.rank()), 0), high = low;
  high.back() = 1;
  return pad(re, low, high, 0.0, loc);
}

Tensor real_signal(const Tensor& x, const std::string& call, Loc loc) {
  if (!is_complex(x)) return widened(x, loc);
  throw DTypeError(call + ": a real tensor is needed; fft() takes complex ones", loc.user());
}

Tensor conjugate_pairs(const Tensor& pairs, Loc loc) {
  return mul(pairs, to(1 - 2 * arange(2, i64, loc), pairs.dtype(), loc), loc);
}

Tensor resized(const Tensor& x, int axis, Dim n, Loc loc) {
  const Dim size = x.size(axis, loc);
  if (size.same_as(n)) return x;
  if (size.is_number() && n.is_number() && n.number() < size.number()) {
    return slice(x, axis, 0, n, 1, loc);
  }
  Shape low(static_cast<std::size_t>(x.rank()), 0), high = low;
  high[static_cast<std::size_t>(axis)] = n - size;
  return pad(x, low, high, 0.0, loc);
}

Tensor fft_of_pairs(const Tensor& pairs, int axis, bool inverse, const std::string& norm, Loc loc) {
  return apply<Fft>({.axis = axis, .inverse = inverse, .norm = norm}, loc, pairs);
}
Tensor rfft_to_pairs(const Tensor& x, int axis, const std::string& norm, Loc loc) {
  return apply<Rfft>({.axis = axis, .norm = norm}, loc, x);
}
Tensor irfft_of_pairs(const Tensor& pairs, int axis, Dim n, const std::string& norm, Loc loc) {
  return apply<Irfft>({.axis = axis, .n = n, .norm = norm}, loc, pairs);
}

}  // namespace ops

Tensor fft(const Tensor& x, std::optional<Dim> n, std::int64_t axis, std::string_view norm,
           Loc loc) {
  return ops::transform("fft", x, n, axis, false, norm, loc);
}
Tensor ifft(const Tensor& x, std::optional<Dim> n, std::int64_t axis, std::string_view norm,
            Loc loc) {
  return ops::transform("ifft", x, n, axis, true, norm, loc);
}
Tensor rfft(const Tensor& x, std::optional<Dim> n, std::int64_t axis, std::string_view norm,
            Loc loc) {
  return ops::to_half("rfft", x, n, axis, norm, false, loc);
}
Tensor ihfft(const Tensor& x, std::optional<Dim> n, std::int64_t axis, std::string_view norm,
             Loc loc) {
  return ops::to_half("ihfft", x, n, axis, norm, true, loc);
}
Tensor irfft(const Tensor& x, std::optional<Dim> n, std::int64_t axis, std::string_view norm,
             Loc loc) {
  return ops::from_half("irfft", x, n, axis, norm, false, loc);
}
Tensor hfft(const Tensor& x, std::optional<Dim> n, std::int64_t axis, std::string_view norm,
            Loc loc) {
  return ops::from_half("hfft", x, n, axis, norm, true, loc);
}

Tensor fftn(const Tensor& x, const Shape& sizes, const Ints& axes, std::string_view norm, Loc loc) {
  return ops::transform_all("fftn", x, sizes, axes, false, norm, loc);
}
Tensor ifftn(const Tensor& x, const Shape& sizes, const Ints& axes, std::string_view norm,
             Loc loc) {
  return ops::transform_all("ifftn", x, sizes, axes, true, norm, loc);
}
Tensor fft2(const Tensor& x, const Shape& sizes, const Ints& axes, std::string_view norm, Loc loc) {
  return ops::transform_all("fft2", x, sizes, axes, false, norm, loc);
}
Tensor ifft2(const Tensor& x, const Shape& sizes, const Ints& axes, std::string_view norm,
             Loc loc) {
  return ops::transform_all("ifft2", x, sizes, axes, true, norm, loc);
}

Tensor rfftn(const Tensor& x, const Shape& sizes, const Ints& axes, std::string_view norm,
             Loc loc) {
  const LocScope scope(loc);
  const ops::Plan plan = ops::plan_of("rfftn", x, sizes, axes, loc);
  const std::string by(norm);
  const Tensor signal = ops::real_signal(x, ops::call_of("rfftn", x), loc);
  Tensor pairs = ops::rfft_to_pairs(ops::resized(signal, plan.axes.back(), plan.sizes.back(), loc),
                                    plan.axes.back(), by, loc);
  for (std::size_t i = plan.axes.size() - 1; i-- > 0;) {
    pairs = ops::resized(pairs, plan.axes[i], plan.sizes[i], loc);
    pairs = ops::fft_of_pairs(pairs, plan.axes[i], false, by, loc);
  }
  return view_as_complex(pairs, loc);
}

Tensor irfftn(const Tensor& x, const Shape& sizes, const Ints& axes, std::string_view norm,
              Loc loc) {
  const LocScope scope(loc);
  const ops::Plan plan = ops::plan_of("irfftn", x, sizes, axes, loc);
  const std::string by(norm);
  const int last = plan.axes.back();
  const bool given = !sizes.empty() && !sizes.back().same_as(-1);
  const Dim n = given ? sizes.back() : (x.size(last, loc) - 1) * 2;
  ops::require_size("irfftn", x, n, loc);
  Tensor pairs = ops::resized(ops::pairs_of(x, loc), last, ops::half_size(n), loc);
  for (std::size_t i = 0; i + 1 < plan.axes.size(); ++i) {
    pairs = ops::resized(pairs, plan.axes[i], plan.sizes[i], loc);
    pairs = ops::fft_of_pairs(pairs, plan.axes[i], true, by, loc);
  }
  return ops::irfft_of_pairs(pairs, last, n, by, loc);
}
Tensor rfft2(const Tensor& x, const Shape& sizes, const Ints& axes, std::string_view norm,
             Loc loc) {
  return rfftn(x, sizes, axes, norm, loc);
}
Tensor irfft2(const Tensor& x, const Shape& sizes, const Ints& axes, std::string_view norm,
              Loc loc) {
  return irfftn(x, sizes, axes, norm, loc);
}

Tensor fftshift(const Tensor& x, const Ints& axes, Loc loc) {
  return ops::turned("fftshift", x, axes, [](Dim n) { return n - n / 2; }, loc);
}
Tensor ifftshift(const Tensor& x, const Ints& axes, Loc loc) {
  return ops::turned("ifftshift", x, axes, [](Dim n) { return n / 2; }, loc);
}

Tensor fftfreq(Dim n, double d, DType dtype, Loc loc) {
  const LocScope scope(loc);
  const Tensor k = arange(n, i64, loc);
  const Arg size = ops::size_arg(n, loc);
  const Tensor whole = where(lt(mul(k, 2), size), k, sub(k, size));
  return to(div(to(whole, f64), mul(to(size.tensor(), f64), d)), dtype, loc);
}
Tensor rfftfreq(Dim n, double d, DType dtype, Loc loc) {
  const LocScope scope(loc);
  const Tensor k = arange(ops::half_size(n), f64, loc);
  return to(div(k, mul(to(ops::size_arg(n, loc).tensor(), f64), d)), dtype, loc);
}

}  // namespace dyad
