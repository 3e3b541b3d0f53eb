#include "dyad/ops/cumulative.h"

#include "dyad/ops/arithmetic.h"
#include "dyad/ops/attrs/cumulative.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/index_support.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/views.h"

namespace dyad {
namespace ops {
namespace {

/// Sums and products of integers and bool are i64.
/// x moved by one place along the axis, away from the first element or (`back`) towards it; a 0
/// comes in.
Tensor shifted(const Tensor& x, std::int64_t axis, bool back) {
  const Shape sizes = sizes_of(x);
  const auto at = static_cast<std::size_t>(from_front(axis, x.rank()));
  Shape low(sizes.size(), 0), high(sizes.size(), 0);
  low[at] = back ? -1 : 1;
  high[at] = back ? 1 : -1;
  return sizes[at].same_as(0) ? x : pad(x, low, high);
}

/// Input 0 and its axis, walked in `dtype`.
OnnxWalk walk_over(OnnxEmitter& e, const ScanAttrs& attrs, DType dtype) {
  const Type& x = e.input_type(0);
  OnnxWalk walk;
  walk.axis = from_front(attrs.axis, x.rank());
  walk.reverse = attrs.reverse;
  walk.x = e.cast(e.input(0), dtype);
  Shape sizes;
  for (int i = 0; i < x.rank(); ++i) {
    if (i != walk.axis) sizes.push_back(x.shape()[static_cast<std::size_t>(i)]);
  }
  walk.slice = Type(dtype, sizes);
  return walk;
}

/// A state that is everywhere the same number before the first step.
void add_state(OnnxEmitter& e, OnnxWalk& walk, double first, const Type& type) {
  walk.states.emplace_back(e.node("Expand", {e.scalar(first, type.dtype()), e.shape(type.shape())}),
                           type);
}

struct CumSum {
  using Attrs = ScanAttrs;
  static constexpr Schema schema{
      .name = "cumsum",
      .inputs = kUnary,
      .outputs = kOut,
      .doc =
          "The sum of the elements so far along an axis; exclusive: of those before; reverse: "
          "from the last one on.",
      .batching = Batching::axes};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    (void)checked_axis(in, attrs.axis, in[0].rank());
    return {Type(sum_dtype(in[0].dtype()), in[0].shape())};
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    g.set(0, cumsum(g.grad(), attrs.axis, attrs.exclusive, !attrs.reverse));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    const DType dtype = e.output_type().dtype();
    const DType in = is_narrow(dtype) ? DType::f32 : dtype;
    e.output(
        0, e.node("CumSum",
                  {e.cast(e.input(0), in), e.size(from_front(attrs.axis, e.input_type(0).rank()))},
                  {{"exclusive", std::int64_t{attrs.exclusive}},
                   {"reverse", std::int64_t{attrs.reverse}}}));
  }
};

struct CumProd {
  using Attrs = ScanAttrs;
  static constexpr Schema schema{
      .name = "cumprod",
      .inputs = kUnary,
      .outputs = kOut,
      .doc =
          "The product of the elements so far along an axis; exclusive: of those before; "
          "reverse: from the last one on.",
      .saved_inputs = kFirst,
      .batching = Batching::axes};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    (void)checked_axis(in, attrs.axis, in[0].rank());
    return {Type(sum_dtype(in[0].dtype()), in[0].shape())};
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    // Out of out[k], element i gets grad[k] times the product of those before it (exclusive) times
    // that of those between i and k: a linear recurrence from behind, without any division.
    const Tensor x = widened(g.input(0)), grad = widened(g.grad());
    const bool back = !attrs.reverse;
    const Tensor before = cumprod(x, attrs.axis, true, attrs.reverse);
    const Tensor flows = attrs.exclusive ? shifted(grad, attrs.axis, back) : grad;
    const Tensor after = linear_scan(shifted(x, attrs.axis, back), flows, attrs.axis, back);
    g.set(0, before * after);
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    const DType dtype = is_floating(e.output_type().dtype()) ? DType::f64 : e.output_type().dtype();
    OnnxWalk walk = walk_over(e, attrs, dtype);
    add_state(e, walk, 1, walk.slice);
    walk.results = {walk.slice};
    walk.step = [&](OnnxEmitter& step, std::span<const std::string> states, const std::string& x) {
      const std::string product = step.node("Mul", {states[0], x});
      return std::vector{product, attrs.exclusive ? states[0] : product};
    };
    e.output(0, e.walk(walk)[0]);
  }
};

struct LogCumSumExp {
  using Attrs = ScanAttrs;
  static constexpr Schema schema{
      .name = "logcumsumexp",
      .inputs = kUnaryFloat,
      .outputs = kOut,
      .doc = "log(cumsum(exp(x))) along an axis, without overflow; reverse: from the last one on.",
      .saved_inputs = kFirst,
      .saved_outputs = kFirst,
      .batching = Batching::axes};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    (void)checked_axis(in, attrs.axis, in[0].rank());
    return {in[0]};
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    // The sum over k of grad[k] * exp(x - out[k]), in logarithms, apart for each sign.
    const Tensor x = widened(g.input(0)), out = widened(g.output()), grad = widened(g.grad());
    const auto part = [&](const Tensor& amount, const Tensor& there) {
      const Tensor logs = log(where(there, amount, 1)) - out;
      const Tensor sums = logcumsumexp(where(there, logs, -std::numeric_limits<double>::infinity()),
                                       attrs.axis, !attrs.reverse);
      return exp(sums + x);
    };
    g.set(0, part(grad, grad > 0) - part(-grad, grad < 0));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    OnnxWalk walk = walk_over(e, attrs, DType::f64);
    add_state(e, walk, -kInfinity, walk.slice);
    walk.results = {walk.slice};
    walk.step = [](OnnxEmitter& step, std::span<const std::string> states, const std::string& x) {
      const std::string largest = step.node("Max", {states[0], x});
      const std::string apart = step.node("Abs", {step.node("Sub", {states[0], x})});
      const std::string rest =
          step.node("Log", {step.node("Add", {step.scalar(1, DType::f64),
                                              step.node("Exp", {step.node("Neg", {apart})})})});
      // An infinity less itself is none.
      const std::string sum = step.node(
          "Where", {step.node("IsInf", {largest}), largest, step.node("Add", {largest, rest})});
      return std::vector{sum, sum};
    };
    e.output(0, e.walk(walk)[0]);
  }
};

template <bool kLargest>
struct CumExtreme {
  using Attrs = ScanAttrs;
  static Types infer(const InferIn& in, const Attrs& attrs) {
    (void)checked_axis(in, attrs.axis, in[0].rank());
    return {in[0], Type(DType::i64, in[0].shape())};
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    g.set(0, scatter_added(g.input_shape(0), attrs.axis, g.output(1), g.grad()));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    const DType given = e.input_type(0).dtype();
    const bool is_small = size_of(given) < 4;
    const DType dtype = !is_small ? given : is_floating(given) ? DType::f32 : DType::i32;
    OnnxWalk walk = walk_over(e, attrs, dtype);
    const Type places(DType::i64, walk.slice.shape());
    add_state(e, walk, 0, walk.slice);
    add_state(e, walk, 0, places);
    walk.states.emplace_back(e.scalar(0, DType::i64), Type(DType::i64, {}));  // steps so far
    walk.results = {walk.slice, places};
    walk.step = [&](OnnxEmitter& step, std::span<const std::string> states, const std::string& x) {
      std::string takes =
          step.node("Or", {step.node("Equal", {states[2], step.scalar(0, DType::i64)}),
                           step.node(kLargest ? "GreaterOrEqual" : "LessOrEqual", {x, states[0]})});
      if (is_floating(dtype)) takes = step.node("Or", {takes, step.node("IsNaN", {x})});
      const std::string best = step.node("Where", {takes, x, states[0]});
      const std::string place = step.node("Where", {takes, states[2], states[1]});
      const std::string next = step.node("Add", {states[2], step.scalar(1, DType::i64)});
      return std::vector{best, place, next, best, place};
    };
    const std::vector<std::string> made = e.walk(walk);
    e.output(0, made[0]);
    e.output(1, made[1]);
  }
};
constexpr Schema cum_extreme(std::string_view name, std::string_view doc) {
  return {.name = name,
          .inputs = kUnary,
          .outputs = kValuesAndIndices,
          .doc = doc,
          .saved_outputs = kSecond,
          .batching = Batching::axes};
}
struct CumMax : CumExtreme<true> {
  static constexpr Schema schema = cum_extreme(
      "cummax",
      "The largest element so far along an axis, NaN once there is one, and where it is.");
};
struct CumMin : CumExtreme<false> {
  static constexpr Schema schema = cum_extreme(
      "cummin",
      "The smallest element so far along an axis, NaN once there is one, and where it is.");
};

constexpr ArgInfo kScanInputs[] = {{"a", kFloat}, {"b", kFloat}};

struct LinearScan {
  using Attrs = ScanAttrs;
  static constexpr Schema schema{
      .name = "linear_scan",
      .inputs = kScanInputs,
      .outputs = kOut,
      .doc = "y[i] = a[i] * y[i - 1] + b[i] along an axis, y[-1] = 0; reverse: from the last on.",
      .saved_inputs = kFirst,
      .saved_outputs = kFirst,
      .batching = Batching::axes};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    (void)checked_axis(in, attrs.axis, in[0].rank());
    require_one_dtype(in);
    bool same = in[0].rank() == in[1].rank();
    for (std::size_t i = 0; same && i < in[0].shape().size(); ++i) {
      same = in[0].shape()[i] == in[1].shape()[i];
    }
    if (!same) {
      fail_shape(in, "a is " + to_string(in[0].shape()) + " but b is " + to_string(in[1].shape()) +
                         "; their shapes must be equal");
    }
    if (attrs.exclusive) fail_value(in, "a recurrence has no exclusive form");
    return {in[1]};
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    const Tensor steps = shifted(widened(g.input(0)), attrs.axis, !attrs.reverse);
    const Tensor flow = linear_scan(steps, widened(g.grad()), attrs.axis, !attrs.reverse);
    if (g.needs(0)) g.set(0, flow * shifted(widened(g.output()), attrs.axis, attrs.reverse));
    if (g.needs(1)) g.set(1, flow);
  }
};

template <Operator Op>
ValuesAndIndices values_and_indices(const typename Op::Attrs& attrs, const Tensor& x, Loc loc) {
  const Tensor* refs[] = {&x};
  std::vector<Tensor> made = apply_multi<Op>(attrs, loc, refs, 2);
  return {std::move(made[0]), std::move(made[1])};
}

}  // namespace

std::span<const OpInfo* const> cumulative_rows() {
  static constexpr const OpInfo* kRows[] = {&op_info<CumSum>,       &op_info<CumProd>,
                                            &op_info<LogCumSumExp>, &op_info<CumMax>,
                                            &op_info<CumMin>,       &op_info<LinearScan>};
  return kRows;
}

}  // namespace ops

Tensor cumsum(const Tensor& x, std::int64_t axis, bool exclusive, bool reverse, Loc loc) {
  if (ops::is_of_scalar(axis, x)) {
    return ops::as_scalar(cumsum(ops::as_vector(x, loc), axis, exclusive, reverse, loc), loc);
  }
  return apply<ops::CumSum>({.axis = axis, .exclusive = exclusive, .reverse = reverse}, loc, x);
}
Tensor cumprod(const Tensor& x, std::int64_t axis, bool exclusive, bool reverse, Loc loc) {
  if (ops::is_of_scalar(axis, x)) {
    return ops::as_scalar(cumprod(ops::as_vector(x, loc), axis, exclusive, reverse, loc), loc);
  }
  return apply<ops::CumProd>({.axis = axis, .exclusive = exclusive, .reverse = reverse}, loc, x);
}
Tensor logcumsumexp(const Tensor& x, std::int64_t axis, bool reverse, Loc loc) {
  if (ops::is_of_scalar(axis, x)) {
    return ops::as_scalar(logcumsumexp(ops::as_vector(x, loc), axis, reverse, loc), loc);
  }
  return apply<ops::LogCumSumExp>({.axis = axis, .reverse = reverse}, loc, x);
}
ValuesAndIndices cummax(const Tensor& x, std::int64_t axis, Loc loc) {
  if (ops::is_of_scalar(axis, x)) {
    return ops::as_scalar(cummax(ops::as_vector(x, loc), axis, loc), loc);
  }
  return ops::values_and_indices<ops::CumMax>({.axis = axis}, x, loc);
}
ValuesAndIndices cummin(const Tensor& x, std::int64_t axis, Loc loc) {
  if (ops::is_of_scalar(axis, x)) {
    return ops::as_scalar(cummin(ops::as_vector(x, loc), axis, loc), loc);
  }
  return ops::values_and_indices<ops::CumMin>({.axis = axis}, x, loc);
}
Tensor linear_scan(const Tensor& a, const Tensor& b, std::int64_t axis, bool reverse, Loc loc) {
  return apply<ops::LinearScan>({.axis = axis, .reverse = reverse}, loc, a, b);
}

Tensor cumsum(const Tensor& x, std::int64_t axis, DType dtype, Loc loc) {
  const LocScope called(loc, "cumsum");
  return to(cumsum(to(x, dtype, loc), axis, false, false, loc), dtype, loc);
}
Tensor cumprod(const Tensor& x, std::int64_t axis, DType dtype, Loc loc) {
  const LocScope called(loc, "cumprod");
  return to(cumprod(to(x, dtype, loc), axis, false, false, loc), dtype, loc);
}

}  // namespace dyad
