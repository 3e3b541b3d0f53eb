#include <algorithm>
#include <limits>

#include "dyad/ir/onnx_node.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/norm.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/reduce.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/views.h"

// ONNX's reductions and softmax. Axes were an attribute before they became an input.

namespace dyad::ops {
namespace {

using Reduce = Tensor (*)(const Tensor&, Ints, bool, Loc);

/// Reduces over the axes that the node names; the result has the dtype of x.
template <Reduce reduce>
void over(OnnxNode& n) {
  const Tensor x = n.input(0);
  const Ints axes = n.integers_or_input("axes", 1, {});
  if (axes.empty() && (n.flag("noop_with_empty_axes") || x.rank() == 0)) {
    // Nothing is reduced, but what is done to each element is done.
    const Tensor row = unsqueeze(x, 0, n.loc());
    n.output(0, to(reduce(row, {0}, false, n.loc()), x.dtype(), n.loc()));
    return;
  }
  n.output(0, to(reduce(x, axes, n.flag("keepdims", true), n.loc()), x.dtype(), n.loc()));
}

Tensor sum_square(const Tensor& x, Ints axes, bool keepdim, Loc loc) {
  return sum(mul(x, x, loc), std::move(axes), keepdim, loc);
}
Tensor l1(const Tensor& x, Ints axes, bool keepdim, Loc loc) {
  return sum(abs(x, loc), std::move(axes), keepdim, loc);
}
Tensor l2(const Tensor& x, Ints axes, bool keepdim, Loc loc) {
  return sqrt(sum_square(x, std::move(axes), keepdim, loc), loc);
}
Tensor log_sum(const Tensor& x, Ints axes, bool keepdim, Loc loc) {
  return log(sum(x, std::move(axes), keepdim, loc), loc);
}
Tensor log_sum_exp(const Tensor& x, Ints axes, bool keepdim, Loc loc) {
  const Tensor wide = is_floating(x.dtype()) ? x : to(x, f64, loc);
  // Over no elements the maximum that keeps exp() in range does not exist: log(0).
  bool empty = false;
  for (int i = 0; i < x.rank(); ++i) empty |= x.size(i).is_number() && x.size(i).number() == 0;
  if (empty) return log(sum(exp(wide, loc), std::move(axes), keepdim, loc), loc);
  return logsumexp(wide, std::move(axes), keepdim, loc);
}
/// max and min refuse to reduce no elements; ONNX gives the number that changes no maximum, or
/// minimum.
template <Reduce reduce>
Tensor extreme(const Tensor& x, Ints axes, bool keepdim, Loc loc) {
  bool empty = false;
  Shape kept;
  for (int i = 0; i < x.rank(); ++i) {
    const bool reduced = axes.empty() || std::ranges::any_of(axes, [&](std::int64_t axis) {
                           return from_front(axis, x.rank()) == i;
                         });
    empty = empty || (reduced && x.size(i).is_number() && x.size(i).number() == 0);
    if (!reduced) kept.push_back(x.size(i));
    if (reduced && keepdim) kept.push_back(1);
  }
  if (!empty) return reduce(x, std::move(axes), keepdim, loc);
  // Converted to an integer, an infinity becomes the last number there is.
  const double infinity = std::numeric_limits<double>::infinity();
  const bool largest = reduce == static_cast<Reduce>(max);
  if (x.dtype() == boolean) return full(kept, largest ? 0 : 1, boolean, loc);
  return to(full(kept, largest ? -infinity : infinity, f64, loc), x.dtype(), loc);
}

/// Before version 13 the axes from `axis` on are one.
template <Tensor (*f)(const Tensor&, std::int64_t, Loc)>
void along_the_rest(OnnxNode& n) {
  const Tensor x = n.input(0);
  std::int64_t axis = n.integer("axis", 1);
  if (axis < 0) axis += x.rank();
  if (axis == x.rank() - 1) {
    n.output(0, f(x, -1, n.loc()));
    return;
  }
  Shape flat, whole;
  for (int i = 0; i < x.rank(); ++i) {
    whole.push_back(x.size(i));
    if (i < axis) flat.push_back(x.size(i));
  }
  flat.push_back(-1);
  n.output(0, reshape(f(reshape(x, flat, n.loc()), -1, n.loc()), whole, n.loc()));
}
template <Tensor (*f)(const Tensor&, std::int64_t, Loc)>
void along_axis(OnnxNode& n) {
  n.output(0, f(n.input(0), n.integer("axis", -1), n.loc()));
}

}  // namespace

std::span<const OnnxRule> reduce_onnx_rules() {
  static constexpr OnnxRule kRules[] = {
      {"ReduceSum", 1, over<sum>},
      {"ReduceMean", 1, over<mean>},
      {"ReduceProd", 1, over<prod>},
      {"ReduceMax", 1, over<extreme<max>>},
      {"ReduceMin", 1, over<extreme<min>>},
      {"ReduceSumSquare", 1, over<sum_square>},
      {"ReduceL1", 1, over<l1>},
      {"ReduceL2", 1, over<l2>},
      {"ReduceLogSum", 1, over<log_sum>},
      {"ReduceLogSumExp", 1, over<log_sum_exp>},
      {"Softmax", 1, along_the_rest<softmax>},
      {"Softmax", 13, along_axis<softmax>},
      {"LogSoftmax", 1, along_the_rest<log_softmax>},
      {"LogSoftmax", 13, along_axis<log_softmax>},
  };
  return kRules;
}

}  // namespace dyad::ops
