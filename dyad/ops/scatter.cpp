#include "dyad/ops/scatter.h"

#include <limits>

#include "dyad/core/tensor_impl.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/attrs/indexing.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/division.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/put_in_place.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/shapes.h"
#include "dyad/ops/views.h"

namespace dyad {
namespace ops {
namespace {

constexpr ArgInfo kReduceInputs[] = {{"x", kPlain}, {"index", kIndex}, {"source", kPlain}};
constexpr ArgInfo kJoinInputs[] = {{"x", kNumber}, {"index", kIndex}, {"source", kNumber}};
constexpr ArgInfo kIndices[] = {{"indices", kIndex, false, true}};
constexpr ArgInfo kXAndIndex[] = {{"x", kEverything}, {"index", kIndex}};

void scatter_node(OnnxEmitter& e, std::int64_t axis, std::string_view reduction) {
  OnnxAttrs attrs{{"axis", axis}};
  if (reduction != "none") attrs.emplace_back("reduction", std::string(reduction));
  e.output(0, e.node("ScatterElements", {e.input(0), e.input(1), e.input(2)}, attrs));
}

struct Scatter {
  using Attrs = IndexAttrs;
  static constexpr Schema schema{
      .name = "scatter",
      .inputs = kReduceInputs,
      .outputs = kOut,
      .doc =
          "A copy of x with source[i][j][k] put at [i][index[i][j][k]][k] for axis 1; the last "
          "of several stays.",
      .saved_inputs = kSecond,
      .checks = kSecond,
      .batching = Batching::axes};
  static Types infer(const InferIn& in, const Attrs& attrs) { return infer_scatter_at(in, attrs); }
  static void grad(Gradient& g, const Attrs& attrs) {
    const Tensor& index = g.input(1);
    if (g.needs(0)) {
      g.set(0,
            apply<Scatter>(attrs, {}, g.grad(), index, zeros(g.input_shape(2), g.grad().dtype())));
    }
    if (!g.needs(2)) return;
    // Elements write their numbers: those that find their own again are the ones that stayed.
    const Tensor numbers = reshape(arange(g.input_shape(2).numel()), g.input_shape(2));
    const Tensor places = full(g.input_shape(0), -1, DType::i64);
    const Tensor stayed = apply<Scatter>(attrs, {}, places, index, numbers);
    const Tensor won = gather(stayed, attrs.axis, index) == numbers;
    g.set(2, where(won, gather(g.grad(), attrs.axis, index), 0));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) { scatter_node(e, attrs.axis, "none"); }
};

struct ScatterMul {
  using Attrs = IndexAttrs;
  static constexpr Schema schema{
      .name = "scatter_mul",
      .inputs = kJoinInputs,
      .outputs = kOut,
      .doc = "A copy of x multiplied by source[i][j][k] at [i][index[i][j][k]][k] for axis 1.",
      .saved_inputs = kFirst | kSecond | kThird,
      .saved_outputs = kFirst,
      .checks = kSecond,
      .batching = Batching::axes};
  static Types infer(const InferIn& in, const Attrs& attrs) { return infer_scatter_at(in, attrs); }
  static void grad(Gradient& g, const Attrs& attrs) {
    const Tensor &index = g.input(1), grad = widened(g.grad());
    const Tensor x = widened(g.input(0)), source = widened(g.input(2));
    const auto at = [&](const Tensor& t) { return gather(t, attrs.axis, index); };
    const auto times = [&](const Tensor& a, const Tensor& b) {
      return apply<ScatterMul>(attrs, {}, a, index, b);
    };
    // The product of the others: of all without x; without an element by division, or, where that
    // one is the only 0, with a 1 in its place.
    if (g.needs(0)) g.set(0, grad * times(ones(g.input_shape(0), x.dtype()), source));
    if (!g.needs(2)) return;
    const Tensor zero = source == 0;
    const Tensor zeros_at = at(apply_scatter_add(zeros(g.input_shape(0), x.dtype()), attrs.axis,
                                                 index, to(zero, x.dtype())));
    const Tensor only = logical_and(zero, zeros_at == 1);
    const Tensor without = at(times(x, where(only, 1, source)));
    const Tensor divided = at(widened(g.output())) / where(zero, 1, source);
    const Tensor others = where(only, without, where(zero, 0, divided));
    g.set(2, at(grad) * others);
  }
  static Tensor apply_scatter_add(const Tensor& x, std::int64_t axis, const Tensor& index,
                                  const Tensor& source) {
    return scatter_add(x, axis, index, source);
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) { scatter_node(e, attrs.axis, "mul"); }
};

template <bool kLargest>
struct ScatterExtreme {
  using Attrs = IndexAttrs;
  static Types infer(const InferIn& in, const Attrs& attrs) { return infer_scatter_at(in, attrs); }
  static void grad(Gradient& g, const Attrs& attrs) {
    const Tensor &x = g.input(0), &index = g.input(1), &source = g.input(2);
    const auto at = [&](const Tensor& t) { return gather(t, attrs.axis, index); };
    const DType dtype = g.grad().dtype();
    const Tensor kept = to(x == g.output(), dtype), taken = to(source == at(g.output()), dtype);
    const Tensor share = g.grad() / scatter_add(kept, attrs.axis, index, taken);
    if (g.needs(0)) g.set(0, kept * share);
    if (g.needs(2)) g.set(2, taken * at(share));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    scatter_node(e, attrs.axis, kLargest ? "max" : "min");
  }
};
constexpr Schema scatter_extreme(std::string_view name, std::string_view doc) {
  return {.name = name,
          .inputs = kJoinInputs,
          .outputs = kOut,
          .doc = doc,
          .saved_inputs = kFirst | kSecond | kThird,
          .saved_outputs = kFirst,
          .checks = kSecond,
          .batching = Batching::axes};
}
struct ScatterMax : ScatterExtreme<true> {
  static constexpr Schema schema = scatter_extreme(
      "scatter_max",
      "The larger of x and source[i][j][k] at [i][index[i][j][k]][k] for axis 1, NaN if one is; "
      "equal ones share the gradient.");
};
struct ScatterMin : ScatterExtreme<false> {
  static constexpr Schema schema = scatter_extreme(
      "scatter_min",
      "The smaller of x and source[i][j][k] at [i][index[i][j][k]][k] for axis 1, NaN if one is; "
      "equal ones share the gradient.");
};

// --- places in several axes --------------------------------------------------------------------

struct RavelMultiIndex {
  using Attrs = RavelAttrs;
  static constexpr Schema schema{
      .name = "ravel_multi_index",
      .inputs = kIndices,
      .outputs = kIndexOut,
      .doc =
          "The number in row-major order of the element at [indices[0], indices[1], ...] of an "
          "array of that shape.",
      .samples = {.differentiable = false},
      .checks = ~0u};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    if (in.inputs.size() != attrs.shape.size() || in.inputs.empty()) {
      fail_shape(in, "an index for each of the " + std::to_string(attrs.shape.size()) +
                         " axes is needed, but there are " + std::to_string(in.inputs.size()));
    }
    Shape shape = in[0].shape();
    for (std::size_t i = 1; i < in.inputs.size(); ++i) {
      const Shape before = shape;
      if (!broadcast(before, in[i].shape(), shape)) {
        fail_shape(in, "indices[" + std::to_string(i) + "] of shape " + to_string(in[i].shape()) +
                           " does not broadcast with " + to_string(before));
      }
    }
    return {Type(DType::i64, shape)};
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    std::string total;
    for (int i = 0; i < e.input_count(); ++i) {
      const Dim size = attrs.shape[static_cast<std::size_t>(i)];
      const std::string index = e.cast(e.input(i), DType::i64);
      const std::string from_end = e.node("Less", {index, e.scalar(0, DType::i64)});
      const std::string place =
          e.node("Where", {from_end, e.node("Add", {index, e.size(size)}), index});
      total = i == 0 ? place : e.node("Add", {e.node("Mul", {total, e.size(size)}), place});
    }
    e.output(0, total);
  }
};

Tensor ravelled(std::span<const Tensor> indices, const Shape& shape, Loc loc) {
  std::vector<const Tensor*> refs;
  for (const Tensor& index : indices) refs.push_back(&index);
  return apply_multi<RavelMultiIndex>({.shape = shape}, loc, refs, 1)[0];
}

/// The columns of index as tensors of their own.
std::vector<Tensor> columns(const Tensor& index) {
  std::vector<Tensor> made;
  const std::int64_t count = index.size(-1).value();
  for (std::int64_t i = 0; i < count; ++i) made.push_back(select(index, -1, i));
  return made;
}
/// How many axes the last axis of index names; ShapeError when that is open or too many.
std::int64_t named_axes(const InferIn& in, int available) {
  const Type& index = in[1];
  if (index.rank() == 0) fail_shape(in, "index needs an axis of places, but is a scalar");
  const Dim count = index.shape()[index.shape().size() - 1];
  const std::int64_t named = count.value(in.loc);
  if (named > available || named < 1) {
    fail_shape(in, "the last axis of index has size " + to_string(count) + ", but from 1 to " +
                       std::to_string(available) + " axes of x can be named");
  }
  return named;
}
Shape part(const Shape& shape, std::size_t begin, std::size_t end) {
  return Shape(shape.begin() + static_cast<std::ptrdiff_t>(begin),
               shape.begin() + static_cast<std::ptrdiff_t>(end));
}
Shape joined(const Shape& a, const Shape& b) {
  Shape shape = a;
  for (const Dim d : b) shape.push_back(d);
  return shape;
}

struct GatherNdAttrs {
  std::int64_t batch_dims = 0;
};

struct GatherNd {
  using Attrs = GatherNdAttrs;
  static constexpr Schema schema{
      .name = "gather_nd",
      .inputs = kXAndIndex,
      .outputs = kOut,
      .doc =
          "out[i..., :] = x[b..., index[i..., 0], index[i..., 1], ..., :], after batch_dims "
          "axes that both have."};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    const Shape &x = in[0].shape(), &index = in[1].shape();
    const auto batch = static_cast<std::size_t>(attrs.batch_dims);
    if (attrs.batch_dims < 0 || batch >= x.size() || batch >= index.size()) {
      fail_value(in, "batch_dims = " + std::to_string(attrs.batch_dims) +
                         " must be 0 or more and less than the axes of x and of index");
    }
    const auto named =
        static_cast<std::size_t>(named_axes(in, in[0].rank() - static_cast<int>(batch)));
    for (std::size_t i = 0; i < batch; ++i) {
      if (!(x[i] == index[i])) {
        fail_shape(in, "axis " + std::to_string(i) + " of x has size " + to_string(x[i]) +
                           ", of index " + to_string(index[i]) + "; both are a batch");
      }
    }
    return {Type(in[0].dtype(),
                 joined(part(index, 0, index.size() - 1), part(x, batch + named, x.size())))};
  }
  static std::vector<Tensor> expand(const Attrs& attrs, TensorRefs in, Loc loc) {
    const Tensor &x = *in[0], &index = *in[1];
    const Shape sizes = sizes_of(x);
    const auto batch = static_cast<std::size_t>(attrs.batch_dims);
    std::vector<Tensor> places = columns(index);
    for (std::size_t i = batch; i-- > 0;) {
      Shape along(index.shape().size() - 1, 1);
      along[i] = sizes[i];
      places.insert(places.begin(), reshape(arange(sizes[i]), along));
    }
    const std::size_t taken = places.size();
    const Shape outer = part(sizes, 0, taken);
    const Tensor flat = reshape(x, joined({outer.numel()}, part(sizes, taken, sizes.size())));
    return {index_select_from_front(flat, 0, ravelled(places, outer, loc))};
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    e.output(0, e.node("GatherND", {e.input(0), e.cast(e.input(1), DType::i64)},
                       {{"batch_dims", attrs.batch_dims}}));
  }
};

struct ScatterNdAttrs {
  std::string reduction = "none";
};

struct ScatterNd {
  using Attrs = ScatterNdAttrs;
  static constexpr Schema schema{
      .name = "scatter_nd",
      .inputs = kReduceInputs,
      .outputs = kOut,
      .doc =
          "A copy of x with source[i..., :] at [index[i..., 0], index[i..., 1], ..., :], joined "
          "by a reduction: none, add, mul, max, min."};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    const std::string& r = attrs.reduction;
    if (r != "none" && r != "add" && r != "mul" && r != "max" && r != "min") {
      fail_value(in, "reduction must be one of none add mul max min");
    }
    if (in[2].dtype() != in[0].dtype()) {
      fail_dtype(in, "one dtype is needed, but x is " + std::string(name_of(in[0].dtype())) +
                         " and source is " + std::string(name_of(in[2].dtype())));
    }
    if (r != "none" && in[0].dtype() == DType::boolean) {
      fail_dtype(in, "bool elements can only replace one another (reduction none)");
    }
    const Shape &x = in[0].shape(), &index = in[1].shape();
    const auto named = static_cast<std::size_t>(named_axes(in, in[0].rank()));
    const Shape want = joined(part(index, 0, index.size() - 1), part(x, named, x.size()));
    bool fits = want.size() == in[2].shape().size();
    for (std::size_t i = 0; fits && i < want.size(); ++i) fits = want[i] == in[2].shape()[i];
    if (!fits) {
      fail_shape(in, "source must be " + to_string(want) + ", a part of x for each place, but is " +
                         to_string(in[2].shape()));
    }
    return {in[0]};
  }
  static std::vector<Tensor> expand(const Attrs& attrs, TensorRefs in, Loc loc) {
    const Tensor &x = *in[0], &index = *in[1], &source = *in[2];
    const Shape sizes = sizes_of(x);
    const std::vector<Tensor> places = columns(index);
    const Shape outer = part(sizes, 0, places.size());
    const Dim inner = part(sizes, places.size(), sizes.size()).numel();
    const Tensor line = reshape(ravelled(places, outer, loc), {-1, 1});
    const Dim count = part(sizes_of(index), 0, index.shape().size() - 1).numel();
    const Tensor at = dyad::expand(line, {count, inner});
    const Tensor flat = reshape(x, {outer.numel(), inner}), parts = reshape(source, {count, inner});
    const Tensor made = attrs.reduction == "none"
                            ? scatter(flat, 0, at, parts)
                            : scatter_reduce(flat, 0, at, parts, attrs.reduction);
    return {reshape(made, sizes)};
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    OnnxAttrs options;
    if (attrs.reduction != "none") options.emplace_back("reduction", attrs.reduction);
    e.output(
        0, e.node("ScatterND", {e.input(0), e.cast(e.input(1), DType::i64), e.input(2)}, options));
  }
};

/// A vector of places as an index of the shape of `like`: the same for every column.
Tensor spread_index(const Tensor& index, int axis, const Tensor& like, Loc loc) {
  if (index.rank() > 1) {
    throw ShapeError("index must be a vector, but is " + type_string(index), loc.user());
  }
  Shape along(static_cast<std::size_t>(like.rank()), 1);
  along[static_cast<std::size_t>(axis)] = -1;
  Shape shape = sizes_of(like, loc);
  shape[static_cast<std::size_t>(axis)] = index.numel();
  return dyad::expand(reshape(index, along, loc), shape, loc);
}

/// What joins with every element without changing it.
double neutral(std::string_view reduction) {
  if (reduction == "sum" || reduction == "add" || reduction == "mean") return 0;
  if (reduction == "prod" || reduction == "mul") return 1;
  const bool largest = reduction == "amax" || reduction == "max";
  // Converting saturates: the least or greatest number of an integer dtype.
  const double infinity = std::numeric_limits<double>::infinity();
  return largest ? -infinity : infinity;
}

/// The shapes to which x and index broadcast along all axes but one.
struct Along {
  std::int64_t axis;
  Shape of_x, of_index;

  Along(std::string_view name, const Tensor& x, const Tensor& index, std::int64_t given, Loc loc) {
    const auto fail = [&](const std::string& rule) {
      throw ShapeError(std::string(name) + "(" + type_string(x) + ", index: " + type_string(index) +
                           "): " + rule,
                       loc.user());
    };
    if (index.rank() != x.rank()) fail("x and index must have equally many axes");
    axis = normalize_axis(given, x.rank(), name, loc);
    of_x = sizes_of(x, loc);
    of_index = sizes_of(index, loc);
    for (std::size_t i = 0; i < of_x.size(); ++i) {
      if (i == static_cast<std::size_t>(axis)) continue;
      Shape both;
      if (!broadcast(Shape{of_x[i]}, Shape{of_index[i]}, both)) {
        fail("axis " + std::to_string(i) + " does not broadcast");
      }
      of_x[i] = of_index[i] = both[0];
    }
  }
};

}  // namespace

std::span<const OpInfo* const> scatter_rows() {
  static constexpr const OpInfo* kRows[] = {
      &op_info<Scatter>,         &op_info<ScatterMul>, &op_info<ScatterMax>, &op_info<ScatterMin>,
      &op_info<RavelMultiIndex>, &op_info<GatherNd>,   &op_info<ScatterNd>,
  };
  return kRows;
}

}  // namespace ops

namespace ops {
namespace {

/// The elements that go to x: a number goes to every place.
Tensor elements_for(const Tensor& x, const Tensor& index, const Arg& source, Loc loc) {
  const Tensor& from = source.tensor();
  return from.defined() && from.impl()->is_number
             ? dyad::expand(as_dtype(source, x.dtype(), loc), sizes_of(index, loc), loc)
             : from;
}

}  // namespace
}  // namespace ops

Tensor scatter(const Tensor& x, std::int64_t axis, const Tensor& index, const Arg& source,
               Loc loc) {
  const LocScope scope(loc);
  const Tensor from = ops::elements_for(x, index, source, loc);
  if (ops::is_of_scalar(axis, x)) {
    return ops::as_scalar(
        scatter(ops::as_vector(x, loc), axis, atleast_1d(index, loc), atleast_1d(from, loc), loc),
        loc);
  }
  return apply<ops::Scatter>({.axis = ops::normalized(axis, x)}, loc, x, index, from);
}
Tensor& Tensor::scatter_(std::int64_t axis, const Tensor& index, const Arg& source, Loc loc) {
  const LocScope scope(loc);
  if (ops::is_of_scalar(axis, *this))
    return ops::overwrite(*this, dyad::scatter(*this, axis, index, source, loc), "scatter_", loc);
  return ops::put_in_place<ops::Scatter>(*this, ops::normalized(axis, *this), index,
                                         ops::elements_for(*this, index, source, loc), "scatter_",
                                         loc);
}

Tensor scatter_reduce(const Tensor& x, std::int64_t axis, const Tensor& index, const Tensor& source,
                      std::string_view reduction, bool include_self, Loc loc) {
  const LocScope scope(loc);
  if (ops::is_of_scalar(axis, x)) {
    return ops::as_scalar(scatter_reduce(ops::as_vector(x, loc), axis, atleast_1d(index, loc),
                                         atleast_1d(source, loc), reduction, include_self, loc),
                          loc);
  }
  axis = ops::normalized(axis, x);
  const auto is = [&](std::string_view a, std::string_view b) {
    return reduction == a || reduction == b;
  };
  const bool known = is("sum", "add") || is("prod", "mul") || is("amax", "max") ||
                     is("amin", "min") || reduction == "mean";
  if (!known) {
    throw ValueError("scatter_reduce(" + type_string(x) + ", reduction = \"" +
                         std::string(reduction) +
                         "\"): the reduction must be one of sum prod amax amin mean",
                     loc.user());
  }
  if (reduction == "mean" && is_narrow(x.dtype()) && source.dtype() == x.dtype()) {
    return ops::in_f32(
        [&](const Tensor& wide, const Tensor& from) {
          return scatter_reduce(wide, axis, index, from, reduction, include_self, loc);
        },
        x, source);
  }
  const Tensor base = include_self ? x : scatter(x, axis, index, ops::neutral(reduction), loc);
  const ops::IndexAttrs attrs{.axis = axis};
  if (is("prod", "mul")) return apply<ops::ScatterMul>(attrs, loc, base, index, source);
  if (is("amax", "max")) return apply<ops::ScatterMax>(attrs, loc, base, index, source);
  if (is("amin", "min")) return apply<ops::ScatterMin>(attrs, loc, base, index, source);
  Tensor total = scatter_add(base, axis, index, source, loc);
  if (reduction != "mean") return total;
  const Tensor one = full({}, 1, x.dtype()), start = full({}, include_self ? 1 : 0, x.dtype());
  const Tensor count = scatter_add(expand(start, ops::sizes_of(x, loc), loc), axis, index,
                                   expand(one, ops::sizes_of(index, loc), loc), loc);
  const Tensor parts = maximum(count, 1);
  return is_integer(x.dtype()) ? floor_divide(total, parts, loc) : total / parts;
}

Tensor index_add(const Tensor& x, std::int64_t axis, const Tensor& index, const Tensor& source,
                 Loc loc) {
  const LocScope called(loc, "index_add");
  if (ops::is_of_scalar(axis, x)) {
    return ops::as_scalar(
        index_add(ops::as_vector(x, loc), axis, index, atleast_1d(source, loc), loc), loc);
  }
  const int at = normalize_axis(axis, x.rank(), "index_add", loc);
  return scatter_add(x, at, ops::spread_index(index, at, source, loc), source, loc);
}
Tensor index_add(const Tensor& x, std::int64_t axis, const Tensor& index, const Tensor& source,
                 const Arg& alpha, Loc loc) {
  const LocScope called(loc, "index_add");
  return index_add(x, axis, index, mul(source, alpha, loc), loc);
}
Tensor index_copy(const Tensor& x, std::int64_t axis, const Tensor& index, const Tensor& source,
                  Loc loc) {
  const LocScope called(loc, "index_copy");
  if (ops::is_of_scalar(axis, x)) {
    return ops::as_scalar(
        index_copy(ops::as_vector(x, loc), axis, index, atleast_1d(source, loc), loc), loc);
  }
  const int at = normalize_axis(axis, x.rank(), "index_copy", loc);
  return scatter(x, at, ops::spread_index(index, at, source, loc), source, loc);
}
Tensor& Tensor::index_add_(std::int64_t axis, const Tensor& index, const Tensor& source, Loc loc) {
  const LocScope called(loc, "index_add");
  if (ops::is_of_scalar(axis, *this))
    return ops::overwrite(*this, dyad::index_add(*this, axis, index, source, loc), "index_add_",
                          loc);
  const int at = normalize_axis(axis, rank(), "index_add", loc);
  return ops::scatter_add_in_place(*this, at, ops::spread_index(index, at, source, loc), source,
                                   "index_add_", loc);
}
Tensor& Tensor::index_copy_(std::int64_t axis, const Tensor& index, const Tensor& source, Loc loc) {
  const LocScope called(loc, "index_copy");
  if (ops::is_of_scalar(axis, *this))
    return ops::overwrite(*this, dyad::index_copy(*this, axis, index, source, loc), "index_copy_",
                          loc);
  const int at = normalize_axis(axis, rank(), "index_copy", loc);
  return ops::put_in_place<ops::Scatter>(*this, at, ops::spread_index(index, at, source, loc),
                                         source, "index_copy_", loc);
}
Tensor& Tensor::index_fill_(std::int64_t axis, const Tensor& index, const Arg& value, Loc loc) {
  const LocScope called(loc, "index_fill");
  if (ops::is_of_scalar(axis, *this))
    return ops::overwrite(*this, dyad::index_fill(*this, axis, index, value, loc), "index_fill_",
                          loc);
  const int at = normalize_axis(axis, rank(), "index_fill", loc);
  const Tensor places = ops::spread_index(index, at, *this, loc);
  return ops::put_in_place<ops::Scatter>(
      *this, at, places,
      dyad::expand(ops::as_dtype(value, dtype(), loc), ops::sizes_of(places, loc), loc),
      "index_fill_", loc);
}
Tensor index_fill(const Tensor& x, std::int64_t axis, const Tensor& index, const Arg& value,
                  Loc loc) {
  const LocScope called(loc, "index_fill");
  if (ops::is_of_scalar(axis, x)) {
    return ops::as_scalar(index_fill(ops::as_vector(x, loc), axis, index, value, loc), loc);
  }
  const int at = normalize_axis(axis, x.rank(), "index_fill", loc);
  const Tensor places = ops::spread_index(index, at, x, loc);
  const Tensor one = ops::as_dtype(value, x.dtype(), loc);
  return scatter(x, at, places, expand(one, ops::sizes_of(places, loc), loc), loc);
}

Tensor gather_nd(const Tensor& x, const Tensor& index, std::int64_t batch_dims, Loc loc) {
  const LocScope called(loc, "gather_nd");
  return apply<ops::GatherNd>({.batch_dims = batch_dims}, loc, x, index);
}
Tensor scatter_nd(const Tensor& x, const Tensor& index, const Tensor& source,
                  std::string_view reduction, Loc loc) {
  const LocScope called(loc, "scatter_nd");
  return apply<ops::ScatterNd>({.reduction = std::string(reduction)}, loc, x, index, source);
}
Tensor ravel_multi_index(std::span<const Tensor> indices, const Shape& shape, Loc loc) {
  return ops::ravelled(indices, shape, loc);
}
Tensor ravel_multi_index(std::initializer_list<Tensor> indices, const Shape& shape, Loc loc) {
  return ops::ravelled({indices.begin(), indices.size()}, shape, loc);
}
Tensor take(const Tensor& x, const Tensor& index, Loc loc) {
  const LocScope called(loc, "take");
  return index_select(reshape(x, {-1}, loc), 0, index, loc);
}
Tensor take(const Tensor& x, const Tensor& index, std::int64_t axis, Loc loc) {
  const LocScope called(loc, "take");
  return index_select(x, axis, index, loc);
}
Tensor take_along_axis(const Tensor& x, const Tensor& index, std::int64_t axis, Loc loc) {
  const LocScope called(loc, "take_along_axis");
  const ops::Along along("take_along_axis", x, index, axis, loc);
  return gather(expand(x, along.of_x, loc), along.axis, expand(index, along.of_index, loc), loc);
}
Tensor put_along_axis(const Tensor& x, const Tensor& index, const Arg& values, std::int64_t axis,
                      Loc loc) {
  const LocScope called(loc, "put_along_axis");
  const ops::Along along("put_along_axis", x, index, axis, loc);
  const Tensor places = expand(index, along.of_index, loc);
  const Tensor source = expand(ops::as_dtype(values, x.dtype(), loc), along.of_index, loc);
  return scatter(x, along.axis, places, source, loc);
}

}  // namespace dyad
