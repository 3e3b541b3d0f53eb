#include "dyad/ops/sort.h"

#include <utility>

#include "dyad/core/promotion.h"
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

/// The gradient of values taken from x at the indices along the axis.
void grad_of_picked(Gradient& g, std::int64_t axis, const Tensor& indices, const Tensor& grad) {
  g.set(0, scatter_added(g.input_shape(0), axis, indices, grad));
}

/// ONNX: the first k along the axis, the best first.
std::vector<std::string> topk_node(OnnxEmitter& e, Dim k, std::int64_t axis, bool largest) {
  const DTypeSet narrow = set_of(DType::i16) | set_of(DType::i8) | set_of(DType::u8) | kBool;
  const DType dtype = e.input_type(0).dtype();
  std::string x = e.input(0);
  if (contains(narrow, dtype)) x = e.cast(x, DType::i32);
  if (dtype == DType::bf16) x = e.cast(x, DType::f32);
  return e.node_multi(
      "TopK", {x, e.shape({k})},
      {{"axis", axis}, {"largest", std::int64_t{largest}}, {"sorted", std::int64_t{1}}}, 2);
}

struct Sort {
  using Attrs = SortAttrs;
  static constexpr Schema schema{
      .name = "sort",
      .inputs = kUnary,
      .outputs = kValuesAndIndices,
      .doc =
          "The elements along an axis in order, NaN as the greatest, and where they were; equal "
          "ones stay in their order.",
      .saved_outputs = kSecond,
      .batching = Batching::axes};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    (void)checked_axis(in, attrs.axis, in[0].rank());
    return {in[0], Type(DType::i64, in[0].shape())};
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    grad_of_picked(g, attrs.axis, g.output(1), g.grad());
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    const int axis = from_front(attrs.axis, e.input_type(0).rank());
    const Dim size = e.input_type(0).shape()[static_cast<std::size_t>(axis)];
    const auto made = topk_node(e, size, axis, attrs.descending);
    e.output(0, made[0]);
    e.output(1, made[1]);
  }
};

struct TopK {
  using Attrs = TopKAttrs;
  static constexpr Schema schema{
      .name = "topk",
      .inputs = kUnary,
      .outputs = kValuesAndIndices,
      .doc =
          "The k largest or smallest elements along an axis, NaN as the greatest, and where "
          "they are; of equal ones the earlier.",
      .saved_outputs = kSecond,
      .batching = Batching::axes};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    const auto axis = static_cast<std::size_t>(checked_axis(in, attrs.axis, in[0].rank()));
    Shape shape = in[0].shape();
    require_k(in, attrs.k, 0, shape[axis], static_cast<int>(axis));
    shape[axis] = attrs.k;
    return {Type(in[0].dtype(), shape), Type(DType::i64, shape)};
  }
  static void require_k(const InferIn& in, Dim k, std::int64_t least, Dim size, int axis) {
    if (!k.is_number()) return;
    if (k.number() < least || (size.is_number() && k.number() > size.number())) {
      fail_shape(in, "k = " + to_string(k) + " must be from " + std::to_string(least) + " to " +
                         to_string(size) + ", the size of axis " + std::to_string(axis));
    }
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    grad_of_picked(g, attrs.axis, g.output(1), g.grad());
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    const int axis = from_front(attrs.axis, e.input_type(0).rank());
    const auto made = topk_node(e, attrs.k, axis, attrs.largest);
    if (attrs.sorted) {
      e.output(0, made[0]);
      e.output(1, made[1]);
      return;
    }
    // In the order of x: by their indices.
    const auto order = e.node_multi(
        "TopK", {made[1], e.shape({attrs.k})},
        {{"axis", std::int64_t{axis}}, {"largest", std::int64_t{0}}, {"sorted", std::int64_t{1}}},
        2);
    e.output(0, e.node("GatherElements", {e.input(0), order[0]}, {{"axis", std::int64_t{axis}}}));
    e.output(1, order[0]);
  }
};

struct KthValue {
  using Attrs = KthAttrs;
  static constexpr Schema schema{
      .name = "kthvalue",
      .inputs = kUnary,
      .outputs = kValuesAndIndices,
      .doc =
          "The k-th smallest element along an axis, counted from 1, NaN as the greatest, and "
          "where it is.",
      .saved_outputs = kSecond,
      .batching = Batching::axes};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    const int axis = checked_axis(in, attrs.axis, in[0].rank());
    TopK::require_k(in, attrs.k, 1, in[0].shape()[static_cast<std::size_t>(axis)], axis);
    const Shape shape = reduced_shape(in[0].shape(), {axis}, attrs.keepdim);
    return {Type(in[0].dtype(), shape), Type(DType::i64, shape)};
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    const int axis = from_front(attrs.axis, g.input_shape(0).rank());
    const auto kept = [&](const Tensor& t) { return attrs.keepdim ? t : unsqueeze(t, axis); };
    grad_of_picked(g, axis, kept(g.output(1)), kept(g.grad()));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    const std::int64_t axis = from_front(attrs.axis, e.input_type(0).rank());
    const auto sorted = topk_node(e, attrs.k, axis, false);
    for (int i = 0; i < 2; ++i) {
      const std::string at = attrs.keepdim ? e.shape({attrs.k - 1}) : e.size(attrs.k - 1);
      e.output(i, e.node("Gather", {sorted[static_cast<std::size_t>(i)], at}, {{"axis", axis}}));
    }
  }
};

constexpr ArgInfo kUniqueOutputs[] = {{"values"},
                                      {"indices", set_of(DType::i64)},
                                      {"inverse", set_of(DType::i64)},
                                      {"counts", set_of(DType::i64)}};

struct UniqueOp {
  using Attrs = UniqueAttrs;
  static constexpr Schema schema{
      .name = "unique",
      .inputs = kUnary,
      .outputs = kUniqueOutputs,
      .doc =
          "The different elements (or slices along an axis), ascending or as they first appear, "
          "where each is first, each element's place among them, and how often each is there.",
      .samples = {.differentiable = false}};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    Shape values = in[0].shape();
    Dim count = values.numel();
    if (attrs.flat) {
      values = {unknown_size()};
    } else {
      const auto axis = static_cast<std::size_t>(checked_axis(in, attrs.axis, in[0].rank()));
      count = values[axis];
      values[axis] = unknown_size();
    }
    const Shape found{unknown_size()};
    return {Type(in[0].dtype(), values), Type(DType::i64, found), Type(DType::i64, {count}),
            Type(DType::i64, found)};
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    OnnxAttrs options{{"sorted", std::int64_t{attrs.sorted}}};
    if (!attrs.flat) options.emplace_back("axis", attrs.axis);
    const bool narrow = e.input_type(0).dtype() == DType::bf16;
    const std::string x = narrow ? e.cast(e.input(0), DType::f32) : e.input(0);
    const auto made = e.node_multi("Unique", {x}, options, 4);
    for (int i = 0; i < 4; ++i) e.output(i, made[static_cast<std::size_t>(i)]);
  }
};

constexpr ArgInfo kSearchInputs[] = {{"sorted", kAny}, {"values", kAny}};

struct SearchSorted {
  using Attrs = SearchAttrs;
  static constexpr Schema schema{
      .name = "searchsorted",
      .inputs = kSearchInputs,
      .outputs = kIndexOut,
      .doc =
          "How many elements along the last axis of sorted are less than each value; right: or "
          "equal.",
      .samples = {.differentiable = false}};
  static Types infer(const InferIn& in, const Attrs&) {
    require_one_dtype(in);
    const Shape &sorted = in[0].shape(), &values = in[1].shape();
    if (sorted.rank() == 0) fail_shape(in, "sorted must have an axis to search along");
    bool fits = sorted.rank() == 1 || sorted.rank() == values.rank();
    for (std::size_t i = 0; fits && i + 1 < sorted.size(); ++i) fits = sorted[i] == values[i];
    if (!fits) {
      fail_shape(in, "sorted must be a vector, or agree with values in all axes but the last");
    }
    return {Type(DType::i64, values)};
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    // Counted, not searched.
    const bool rows = e.input_type(0).rank() > 1;
    const int rank = e.input_type(1).rank();
    const std::int64_t last[] = {rank}, before[] = {rank - 1};
    std::string sorted = e.input(0), values = e.input(1);
    if (e.input_type(0).dtype() == DType::boolean) {
      sorted = e.cast(sorted, DType::i32);
      values = e.cast(values, DType::i32);
    }
    if (rows) sorted = e.node("Unsqueeze", {sorted, e.constant_i64(before)});
    values = e.node("Unsqueeze", {values, e.constant_i64(last)});
    const std::string less = e.node(attrs.right ? "LessOrEqual" : "Less", {sorted, values});
    e.output(0, e.node("ReduceSum", {e.cast(less, DType::i64), e.constant_i64(last)},
                       {{"keepdims", std::int64_t{0}}}));
  }
};

/// A scalar as a vector and back.
template <Operator Op>
ValuesAndIndices along_axis(const typename Op::Attrs& attrs, const Tensor& x, bool keeps_rank,
                            Loc loc) {
  const bool scalar = x.rank() == 0;
  const Tensor line = scalar ? unsqueeze(x, 0, loc) : x;
  const Tensor* refs[] = {&line};
  std::vector<Tensor> made = apply_multi<Op>(attrs, loc, refs, 2);
  if (scalar && keeps_rank) {
    for (Tensor& t : made) t = squeeze(t, 0, loc);
  }
  return {std::move(made[0]), std::move(made[1])};
}

}  // namespace

std::span<const OpInfo* const> sort_rows() {
  static constexpr const OpInfo* kRows[] = {&op_info<Sort>, &op_info<TopK>, &op_info<KthValue>,
                                            &op_info<UniqueOp>, &op_info<SearchSorted>};
  return kRows;
}

}  // namespace ops

ValuesAndIndices sort(const Tensor& x, std::int64_t axis, bool descending, Loc loc) {
  return ops::along_axis<ops::Sort>({.axis = axis, .descending = descending}, x, true, loc);
}
Tensor argsort(const Tensor& x, std::int64_t axis, bool descending, Loc loc) {
  return sort(x, axis, descending, loc).indices;
}
ValuesAndIndices topk(const Tensor& x, Dim k, std::int64_t axis, bool largest, bool sorted,
                      Loc loc) {
  const ops::TopKAttrs attrs{.k = k, .axis = axis, .largest = largest, .sorted = sorted};
  return ops::along_axis<ops::TopK>(attrs, x, k.same_as(1), loc);
}
ValuesAndIndices kthvalue(const Tensor& x, Dim k, std::int64_t axis, bool keepdim, Loc loc) {
  const ops::KthAttrs attrs{.k = k, .axis = axis, .keepdim = keepdim};
  return ops::along_axis<ops::KthValue>(attrs, x, keepdim, loc);
}

Unique unique(const Tensor& x, bool sorted, std::optional<std::int64_t> axis, Loc loc) {
  const Tensor* refs[] = {&x};
  const ops::UniqueAttrs attrs{
      .sorted = sorted, .flat = !axis, .axis = axis ? ops::normalized(*axis, x) : 0};
  std::vector<Tensor> made = apply_multi<ops::UniqueOp>(attrs, loc, refs, 4);
  Tensor inverse = axis ? std::move(made[2]) : reshape(made[2], ops::sizes_of(x, loc), loc);
  return {std::move(made[0]), std::move(made[1]), std::move(inverse), std::move(made[3])};
}

Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right, Loc loc) {
  return apply<ops::SearchSorted>({.right = right}, loc, sorted, values);
}
Tensor bucketize(const Tensor& values, const Tensor& boundaries, bool right, Loc loc) {
  return searchsorted(boundaries, values, right, loc);
}
Tensor isin(const Tensor& x, const Tensor& among, Loc loc) {
  const LocScope scope(loc);
  const DType dtype = result_type({x, among});
  const Tensor wanted = to(x, dtype);
  const Tensor line = sort(reshape(to(among, dtype), {-1}), 0).values;
  const Tensor place = searchsorted(line, wanted);
  const Dim count = ops::sizes_of(line)[0];
  // What is greater than all looks at one that is added behind them.
  const Tensor found = index_select(pad(line, {0}, {1}), 0, place);
  return logical_and(found == wanted, place < size_tensor(count));
}

}  // namespace dyad
