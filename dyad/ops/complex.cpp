#include "dyad/ops/complex.h"

#include <numbers>
#include <string>

#include "dyad/core/promotion.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/complex_support.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/linalg.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/reduce.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/trigonometry.h"
#include "dyad/ops/views.h"

namespace dyad {
namespace ops {
namespace {

constexpr ArgInfo kComplexIn[] = {{"x", kComplex}};
constexpr ArgInfo kPairsIn[] = {{"x", set_of({f64, f32})}};

struct ViewAsReal {
  using Attrs = NoAttrs;
  static constexpr Schema schema{
      .name = "view_as_real",
      .inputs = kComplexIn,
      .outputs = kOut,
      .doc = "The real and imaginary parts of complex numbers along a last axis of size 2."};
  static Types infer(const InferIn& in, const Attrs&) {
    Shape shape = in[0].shape();
    shape.push_back(2);
    return {Type(real_dtype(in[0].dtype()), shape)};
  }
  static ViewLayout view(const Attrs&, const Shape&, const Strides& strides, const Shape& out) {
    ViewLayout layout{.shape = out};
    for (const std::int64_t stride : strides) layout.strides.push_back(2 * stride);
    layout.strides.push_back(1);
    return layout;
  }
  static Tensor write(const Attrs&, const Tensor&, const Tensor& value, Loc loc) {
    return view_as_complex(value, loc);
  }
  static void grad(Gradient& g, const Attrs&) { g.set(0, view_as_complex(g.grad())); }
  // A complex value of a graph is written as its parts.
  static void to_onnx(OnnxEmitter& e, const Attrs&) { e.output(0, e.input(0)); }
};

struct ViewAsComplex {
  using Attrs = NoAttrs;
  static constexpr Schema schema{
      .name = "view_as_complex",
      .inputs = kPairsIn,
      .outputs = kOut,
      .doc =
          "Pairs along the last axis as complex numbers: real part, imaginary part. Copies when "
          "they do not lie together.",
      .may_copy = true};
  static Types infer(const InferIn& in, const Attrs&) {
    Shape shape = in[0].shape();
    if (shape.empty() || !(shape.back() == 2)) {
      fail_shape(in, "the last axis must have size 2, the real and the imaginary part");
    }
    shape.resize(shape.size() - 1);
    return {Type(complex_dtype(in[0].dtype()), shape)};
  }
  static ViewLayout view(const Attrs&, const Shape& in, const Strides& strides, const Shape& out) {
    ViewLayout layout{.shape = out};
    layout.possible = strides.back() == 1;
    for (std::size_t i = 0; i + 1 < strides.size(); ++i) {
      const bool moves = in[i].number() > 1;
      layout.possible = layout.possible && (!moves || strides[i] % 2 == 0);
      layout.strides.push_back(strides[i] / 2);
    }
    return layout;
  }
  static Tensor write(const Attrs&, const Tensor&, const Tensor& value, Loc loc) {
    return view_as_real(value, loc);
  }
  static void grad(Gradient& g, const Attrs&) { g.set(0, view_as_real(g.grad())); }
  static void to_onnx(OnnxEmitter& e, const Attrs&) { e.output(0, e.input(0)); }
};

/// The real dtype that two operands, one of them complex, are computed in.
DType part_dtype(const Tensor& a, const Tensor& b) { return real_dtype(result_type({a, b})); }

/// Pairs of `dtype`; a real operand gets zeros.
Tensor pairs(const Tensor& x, DType dtype, Loc loc) {
  if (is_complex(x)) return to(view_as_real(x, loc), dtype, loc);
  const Tensor re = as_dtype(x, dtype, loc);
  return view_as_real(complex(re, zeros_like(re, loc), loc), loc);
}

Tensor part(const Tensor& x, int i, DType dtype, Loc loc) {
  return to(select(view_as_real(x, loc), -1, i, loc), dtype, loc);
}

/// A real operand beside pairs: with an axis for them to repeat along.
Tensor beside_pairs(const Tensor& x, DType dtype, Loc loc) {
  return unsqueeze(as_dtype(x, dtype, loc), -1, loc);
}

}  // namespace

std::span<const OpInfo* const> complex_rows() {
  static constexpr const OpInfo* kRows[] = {&op_info<ViewAsReal>, &op_info<ViewAsComplex>};
  return kRows;
}

Tensor complex_add(const Tensor& a, const Tensor& b, Loc loc) {
  const LocScope scope(loc);
  const DType dtype = part_dtype(a, b);
  return view_as_complex(pairs(a, dtype, loc) + pairs(b, dtype, loc), loc);
}

Tensor complex_sub(const Tensor& a, const Tensor& b, Loc loc) {
  const LocScope scope(loc);
  const DType dtype = part_dtype(a, b);
  return view_as_complex(pairs(a, dtype, loc) - pairs(b, dtype, loc), loc);
}

Tensor complex_mul(const Tensor& a, const Tensor& b, Loc loc) {
  const LocScope scope(loc);
  const DType dtype = part_dtype(a, b);
  if (!is_complex(a)) {
    return view_as_complex(beside_pairs(a, dtype, loc) * pairs(b, dtype, loc), loc);
  }
  if (!is_complex(b)) {
    return view_as_complex(pairs(a, dtype, loc) * beside_pairs(b, dtype, loc), loc);
  }
  const Tensor p = part(a, 0, dtype, loc), q = part(a, 1, dtype, loc);
  const Tensor r = part(b, 0, dtype, loc), s = part(b, 1, dtype, loc);
  return complex(p * r - q * s, p * s + q * r, loc);
}

Tensor complex_div(const Tensor& a, const Tensor& b, Loc loc) {
  const LocScope scope(loc);
  const DType dtype = part_dtype(a, b);
  if (!is_complex(b)) {
    return view_as_complex(pairs(a, dtype, loc) / beside_pairs(b, dtype, loc), loc);
  }
  // By the larger part of b first, so that no square overflows; as a constant it changes no
  // derivative, because it cancels.
  const Tensor whole = to(view_as_real(b, loc), dtype, loc);
  const Tensor largest = max(abs(detach(whole)), {-1});
  const Tensor scale = where(largest == 0, 1, largest);
  const Tensor r = select(whole, -1, 0) / scale, s = select(whole, -1, 1) / scale;
  const Tensor norm = (r * r + s * s) * scale;
  if (!is_complex(a)) {
    const Tensor factor = as_dtype(a, dtype, loc) / norm;
    return complex(factor * r, -(factor * s), loc);
  }
  const Tensor p = part(a, 0, dtype, loc), q = part(a, 1, dtype, loc);
  return complex((p * r + q * s) / norm, (q * r - p * s) / norm, loc);
}

Tensor complex_eq(const Tensor& a, const Tensor& b, Loc loc) {
  const LocScope scope(loc);
  const DType dtype = part_dtype(a, b);
  return all(pairs(a, dtype, loc) == pairs(b, dtype, loc), {-1});
}

Tensor complex_where(const Tensor& condition, const Tensor& a, const Tensor& b, Loc loc) {
  const LocScope scope(loc);
  const DType dtype = part_dtype(a, b);
  return view_as_complex(
      where(unsqueeze(condition, -1), pairs(a, dtype, loc), pairs(b, dtype, loc)), loc);
}

Tensor complex_matmul(const Tensor& a, const Tensor& b, Loc loc) {
  const LocScope scope(loc);
  const DType dtype = part_dtype(a, b);
  if (!is_complex(a)) {
    const Tensor x = to(a, dtype, loc);
    return complex(matmul(x, part(b, 0, dtype, loc)), matmul(x, part(b, 1, dtype, loc)), loc);
  }
  if (!is_complex(b)) {
    const Tensor x = to(b, dtype, loc);
    return complex(matmul(part(a, 0, dtype, loc), x), matmul(part(a, 1, dtype, loc), x), loc);
  }
  const Tensor p = part(a, 0, dtype, loc), q = part(a, 1, dtype, loc);
  const Tensor r = part(b, 0, dtype, loc), s = part(b, 1, dtype, loc);
  return complex(matmul(p, r) - matmul(q, s), matmul(p, s) + matmul(q, r), loc);
}

Tensor complex_log(const Tensor& x, Loc loc) {
  const LocScope scope(loc);
  return complex(log(abs(x)), angle(x), loc);
}

Tensor complex_exp(const Tensor& x, Loc loc) {
  const LocScope scope(loc);
  return polar(exp(real(x)), imag(x), loc);
}

Tensor complex_abs(const Tensor& x, Loc loc) {
  const LocScope scope(loc);
  const Tensor whole = view_as_real(x);
  // As in complex_div; at 0 the derivative is 0.
  const Tensor largest = max(abs(detach(whole)), {-1});
  const Tensor is_zero = largest == 0;
  const Tensor scale = where(is_zero, 1, largest);
  const Tensor squares = sum(square(whole / unsqueeze(scale, -1)), {-1});
  return where(is_zero, 0, sqrt(where(is_zero, 1, squares)) * scale);
}

Tensor complex_to(const Tensor& x, DType dtype, Loc loc) {
  const LocScope scope(loc);
  if (!is_complex(x)) {
    const Tensor re = to(x, real_dtype(dtype), loc);
    return complex(re, zeros_like(re, loc), loc);
  }
  if (!dyad::is_complex(dtype)) {
    if (dtype == boolean) return any(view_as_real(x) != 0, {-1});
    return to(real(x), dtype, loc);
  }
  return view_as_complex(to(view_as_real(x), real_dtype(dtype)), loc);
}

Tensor complex_reduce(Reduce reduce, const Tensor& x, Ints axes, bool keepdim, Loc loc) {
  const LocScope scope(loc);
  const int rank = x.rank();
  if (rank == 0 && axes.empty()) return x;
  if (axes.empty()) {
    for (int i = 0; i < rank; ++i) axes.push_back(i);
  }
  for (std::int64_t& axis : axes) axis = normalize_axis(axis, rank, "reduction", loc);
  return view_as_complex(reduce(view_as_real(x), axes, keepdim, loc), loc);
}

}  // namespace ops

Tensor view_as_real(const Tensor& x, Loc loc) { return apply<ops::ViewAsReal>({}, loc, x); }
Tensor view_as_complex(const Tensor& x, Loc loc) { return apply<ops::ViewAsComplex>({}, loc, x); }

Tensor complex(const Tensor& re, const Tensor& im, Loc loc) {
  const LocScope scope(loc);
  for (const Tensor* x : {&re, &im}) {
    if (is_complex(x->dtype()) || !contains(kAny, x->dtype())) {
      throw DTypeError("complex(" + type_string(re) + ", " + type_string(im) +
                           "): the parts must be real numbers",
                       loc.user());
    }
  }
  const DType dtype = real_dtype(complex_dtype(result_type({re, im})));
  Shape shape;
  if (!broadcast(ops::sizes_of(re, loc), ops::sizes_of(im, loc), shape)) {
    throw ShapeError("complex(" + type_string(re) + ", " + type_string(im) +
                         "): the shapes do not broadcast; sizes must be equal or one of them 1",
                     loc.user());
  }
  return view_as_complex(stack({expand(to(re, dtype), shape), expand(to(im, dtype), shape)}, -1),
                         loc);
}

Tensor polar(const Tensor& abs, const Tensor& angle, Loc loc) {
  const LocScope scope(loc);
  return ops::in_f32(
      [&](const Tensor& abs, const Tensor& angle) {
        return complex(abs * cos(angle), abs * sin(angle), loc);
      },
      abs, angle);
}

Tensor real(const Tensor& x, Loc loc) {
  return ops::is_complex(x) ? select(view_as_real(x, loc), -1, 0, loc) : x;
}

Tensor imag(const Tensor& x, Loc loc) {
  if (x.defined() && !ops::is_complex(x)) {
    throw DTypeError("imag(" + type_string(x) + "): real numbers have no imaginary part",
                     loc.user());
  }
  return select(view_as_real(x, loc), -1, 1, loc);
}

Tensor angle(const Tensor& x, Loc loc) {
  const LocScope scope(loc);
  if (ops::is_complex(x)) return atan2(imag(x), real(x), loc);
  const Tensor wide = is_floating(x.dtype()) ? x : to(x, f32);
  return where(isnan(wide), wide, to(wide < 0, wide.dtype()) * std::numbers::pi);
}

Tensor conj(const Tensor& x, Loc loc) {
  if (!ops::is_complex(x)) return x;
  const LocScope scope(loc);
  return complex(real(x), -imag(x), loc);
}

}  // namespace dyad
