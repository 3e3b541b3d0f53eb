#include <limits>

#include "dyad/ops/arithmetic.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/reduce.h"
#include "dyad/ops/reduce_support.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/views.h"

namespace dyad {
namespace ops {
namespace {

using scalar::ScalarType;

template <bool kLargest>
struct Extreme {
  using Attrs = ReduceAttrs;
  static Types infer(const InferIn& in, const Attrs& attrs) {
    require_elements(in, sorted_axes(checked_axes(in, attrs.axes, in[0].rank()), in[0].rank()));
    return infer_reduction(in, attrs, in[0].dtype());
  }
  static Ints reduced_axes(const Attrs& attrs, int rank) { return sorted_axes(attrs.axes, rank); }
  static void reduce(const Attrs&, ReductionBuilder& b) {
    const Scalar x = ordered(b.element());
    b.accumulate(worst(x.type()), x);
    // In this order the next step waits for little: whether x is NaN does not depend on a.
    b.combine([](const Scalars& a, const Scalars& x) -> Scalars { return {better(x[0], a[0])}; });
    b.finish([&](const Scalars& a, Scalar) -> Scalars {
      return {scalar::convert(a[0], scalar::compute_type(b.result_dtype()))};
    });
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    const Shape& shape = g.input_shape(0);
    const Tensor chosen = g.input(0) == with_axes(g.output(), shape, attrs);
    const Tensor weight = to(chosen, g.grad().dtype());
    const Tensor share = with_axes(g.grad(), shape, attrs) / sum(weight, attrs.axes, true);
    g.set(0, weight * share);
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    const std::string x = e.input_as(0, kNumber & ~set_of({DType::i16, DType::u16}));
    write_reduction(e, kLargest ? "ReduceMax" : "ReduceMin", x, attrs);
  }

  // bool is ordered as 0 and 1.
  static Scalar ordered(Scalar x) {
    return x.type() == ScalarType::boolean ? scalar::convert(x, ScalarType::i32) : x;
  }
  static Scalar better(Scalar a, Scalar b) {
    if (!scalar::is_floating(a.type())) return kLargest ? scalar::max(a, b) : scalar::min(a, b);
    return kLargest ? scalar::maximum(a, b) : scalar::minimum(a, b);
  }
  /// What every element beats or equals.
  static Scalar worst(ScalarType type) {
    if (scalar::is_floating(type)) {
      const double infinity = std::numeric_limits<double>::infinity();
      return kLargest ? -infinity : infinity;
    }
    if (type == ScalarType::u64) return kLargest ? 0 : -1;
    if (type == ScalarType::i64) {
      return kLargest ? std::numeric_limits<std::int64_t>::min()
                      : std::numeric_limits<std::int64_t>::max();
    }
    return kLargest ? std::numeric_limits<std::int32_t>::min()
                    : std::numeric_limits<std::int32_t>::max();
  }
};

struct Max : Extreme<true> {
  static constexpr Schema schema = reduction(
      "max", "The largest over axes, NaN if there is one; equal ones share the gradient evenly.",
      kUnary, kFirst, kFirst);
};
struct Min : Extreme<false> {
  static constexpr Schema schema = reduction(
      "min", "The smallest over axes, NaN if there is one; equal ones share the gradient evenly.",
      kUnary, kFirst, kFirst);
};

struct ArgAttrs {
  std::int64_t axis = 0;
  bool keepdim = false;
  bool last = false;
};

template <bool kLargest>
struct ArgExtreme {
  using Attrs = ArgAttrs;
  static Types infer(const InferIn& in, const Attrs& attrs) {
    const Ints axes{checked_axis(in, attrs.axis, in[0].rank())};
    require_elements(in, axes);
    return {Type(DType::i64, reduced_shape(in[0].shape(), axes, attrs.keepdim))};
  }
  static Ints reduced_axes(const Attrs& attrs, int rank) { return {from_front(attrs.axis, rank)}; }
  static void reduce(const Attrs& attrs, ReductionBuilder& b) {
    using E = Extreme<kLargest>;
    const bool last = attrs.last;
    const Scalar x = E::ordered(b.element());
    b.accumulate(E::worst(x.type()), x);
    b.accumulate(last ? std::int64_t{-1} : std::numeric_limits<std::int64_t>::max(), b.index());
    b.combine([last](const Scalars& a, const Scalars& x) -> Scalars {
      // NaN beats all; among equals (NaN and NaN too) the earlier place does, or the later.
      Scalar beats = kLargest ? x[0] > a[0] : x[0] < a[0];
      Scalar equals = x[0] == a[0];
      if (scalar::is_floating(x[0].type())) {
        const Scalar old_nan = scalar::isnan(a[0]), new_nan = scalar::isnan(x[0]);
        beats = beats | (new_nan & !old_nan);
        equals = equals | (new_nan & old_nan);
      }
      const Scalar take = beats | (equals & (last ? x[1] > a[1] : x[1] < a[1]));
      return {scalar::select(take, x[0], a[0]), scalar::select(take, x[1], a[1])};
    });
    b.finish([](const Scalars& a, Scalar) -> Scalars { return {a[1]}; });
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    e.output(0, e.node(kLargest ? "ArgMax" : "ArgMin", {e.input_as(0, kNumber)},
                       {{"axis", attrs.axis},
                        {"keepdims", std::int64_t{attrs.keepdim}},
                        {"select_last_index", std::int64_t{attrs.last}}}));
  }
};

constexpr Schema arg_extreme(std::string_view name, std::string_view doc) {
  return {.name = name,
          .inputs = kUnary,
          .outputs = kIndexOut,
          .doc = doc,
          .samples = {.differentiable = false}};
}

struct ArgMax : ArgExtreme<true> {
  static constexpr Schema schema =
      arg_extreme("argmax", "The position of the first largest element along an axis.");
};
struct ArgMin : ArgExtreme<false> {
  static constexpr Schema schema =
      arg_extreme("argmin", "The position of the first smallest element along an axis.");
};

}  // namespace

std::span<const OpInfo* const> extremes_rows() {
  static constexpr const OpInfo* kRows[] = {&op_info<Max>, &op_info<Min>, &op_info<ArgMax>,
                                            &op_info<ArgMin>};
  return kRows;
}

}  // namespace ops

Tensor max(const Tensor& x, Ints axes, bool keepdim, Loc loc) {
  return apply<ops::Max>({.axes = ops::reduced_of(x, std::move(axes)), .keepdim = keepdim}, loc, x);
}
Tensor min(const Tensor& x, Ints axes, bool keepdim, Loc loc) {
  return apply<ops::Min>({.axes = ops::reduced_of(x, std::move(axes)), .keepdim = keepdim}, loc, x);
}
Tensor argmax(const Tensor& x, std::int64_t axis, bool keepdim, bool last, Loc loc) {
  if (ops::is_of_scalar(axis, x)) {
    return ops::as_scalar(argmax(ops::as_vector(x, loc), axis, keepdim, last, loc), loc);
  }
  return apply<ops::ArgMax>({.axis = axis, .keepdim = keepdim, .last = last}, loc, x);
}
Tensor argmin(const Tensor& x, std::int64_t axis, bool keepdim, bool last, Loc loc) {
  if (ops::is_of_scalar(axis, x)) {
    return ops::as_scalar(argmin(ops::as_vector(x, loc), axis, keepdim, last, loc), loc);
  }
  return apply<ops::ArgMin>({.axis = axis, .keepdim = keepdim, .last = last}, loc, x);
}
Tensor argmax(const Tensor& x, Loc loc) {
  return argmax(reshape(x, {-1}, loc), 0, false, false, loc);
}
Tensor argmin(const Tensor& x, Loc loc) {
  return argmin(reshape(x, {-1}, loc), 0, false, false, loc);
}
}  // namespace dyad
