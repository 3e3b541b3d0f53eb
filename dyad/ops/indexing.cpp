#include "dyad/ops/indexing.h"

#include <algorithm>

#include "dyad/ops/attrs/indexing.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/index_support.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/put_in_place.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/shapes.h"
#include "dyad/ops/statistics.h"
#include "dyad/ops/views.h"

namespace dyad {
namespace ops {
namespace {

constexpr ArgInfo kGatherInputs[] = {{"x", kEverything}, {"index", kIndex}};
constexpr ArgInfo kScatterInputs[] = {
    {"x", kNumber | kComplex}, {"index", kIndex}, {"source", kNumber | kComplex}};
constexpr ArgInfo kConcatInputs[] = {{"tensors", kEverything, false, true}};
constexpr ArgInfo kPadInputs[] = {{"x", kPlain}};
constexpr ArgInfo kOneHotInputs[] = {{"index", kNumber}, {"classes", kNumber}};

std::string axis_sizes(int axis, Dim a, std::string_view of_a, Dim b, std::string_view of_b) {
  return "axis " + std::to_string(axis) + " of " + std::string(of_a) + " has size " + to_string(a) +
         ", of " + std::string(of_b) + " " + to_string(b);
}

/// index must have the rank of x and reach beyond it along no axis but `axis`.
void check_index_shape(const InferIn& in, int axis) {
  const Shape &x = in[0].shape(), &index = in[1].shape();
  if (x.rank() != index.rank()) {
    fail_shape(in, "x has " + std::to_string(x.rank()) + " axes but index has " +
                       std::to_string(index.rank()) +
                       "; they must be equal (index_select takes whole slices)");
  }
  for (int i = 0; i < x.rank(); ++i) {
    const Dim a = x[static_cast<std::size_t>(i)], b = index[static_cast<std::size_t>(i)];
    if (i != axis && a.is_number() && b.is_number() && b > a) {
      fail_shape(in, axis_sizes(i, a, "x", b, "index") + ", which must not be larger");
    }
  }
}

struct GatherOp {
  using Attrs = IndexAttrs;
  static constexpr Schema schema{
      .name = "gather",
      .inputs = kGatherInputs,
      .outputs = kOut,
      .doc = "out[i][j][k] = x[i][index[i][j][k]][k] for axis 1: one element for each index.",
      .saved_inputs = kSecond,
      .checks = kSecond,
      .batching = Batching::axes};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    check_index_shape(in, checked_axis(in, attrs.axis, in[0].rank()));
    return {Type(in[0].dtype(), in[1].shape())};
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    g.set(0, scatter_added(g.input_shape(0), attrs.axis, g.input(1), g.grad()));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    e.output(0, e.node("GatherElements", {e.input(0), e.input(1)}, {{"axis", attrs.axis}}));
  }
};

struct ScatterAdd {
  using Attrs = IndexAttrs;
  static constexpr Schema schema{
      .name = "scatter_add",
      .inputs = kScatterInputs,
      .outputs = kOut,
      .doc = "A copy of x with source[i][j][k] added at [i][index[i][j][k]][k] for axis 1.",
      .saved_inputs = kSecond,
      .checks = kSecond,
      .batching = Batching::axes};
  static Types infer(const InferIn& in, const Attrs& attrs) { return infer_scatter_at(in, attrs); }
  static void grad(Gradient& g, const Attrs& attrs) {
    g.set(0, g.grad());
    if (g.needs(2)) g.set(2, gather(g.grad(), attrs.axis, g.input(1)));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    e.output(0, e.node("ScatterElements", {e.input(0), e.input(1), e.input(2)},
                       {{"axis", attrs.axis}, {"reduction", std::string("add")}}));
  }
};

struct IndexSelect {
  using Attrs = IndexAttrs;
  static constexpr Schema schema{
      .name = "index_select",
      .inputs = kGatherInputs,
      .outputs = kOut,
      .doc =
          "The slices of x along an axis that index names; the axes of index take the place of "
          "the axis.",
      .saved_inputs = kSecond,
      .checks = kSecond,
      .batching = Batching::first};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    const int axis = checked_axis(in, attrs.axis, in[0].rank());
    Shape shape;
    for (int i = 0; i < axis; ++i) shape.push_back(in[0].shape()[static_cast<std::size_t>(i)]);
    for (const Dim d : in[1].shape()) shape.push_back(d);
    for (int i = axis + 1; i < in[0].rank(); ++i) {
      shape.push_back(in[0].shape()[static_cast<std::size_t>(i)]);
    }
    return {Type(in[0].dtype(), shape)};
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    // One axis of indices in the place of the axis, then every element has its index.
    const Shape& shape = g.input_shape(0);
    const int axis = from_front(attrs.axis, shape.rank());
    Shape parts = shape, line(shape.size(), 1);
    parts[static_cast<std::size_t>(axis)] = g.input_shape(1).numel();
    line[static_cast<std::size_t>(axis)] = -1;
    const Tensor index = expand(reshape(g.input(1), line), parts);
    g.set(0, scatter_added(shape, axis, index, reshape(g.grad(), parts)));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    e.output(0, e.node("Gather", {e.input(0), e.input(1)}, {{"axis", attrs.axis}}));
  }
};

struct Concat {
  using Attrs = AxisAttrs;
  static constexpr Schema schema{.name = "concat",
                                 .inputs = kConcatInputs,
                                 .outputs = kOut,
                                 .doc = "Tensors one after the other along an axis.",
                                 .batching = Batching::axes};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    if (in.inputs.empty()) fail_value(in, "at least one tensor is needed");
    const int axis = checked_axis(in, attrs.axis, in[0].rank());
    Shape shape = in[0].shape();
    for (std::size_t t = 1; t < in.inputs.size(); ++t) {
      const std::string name = "tensors[" + std::to_string(t) + "]";
      if (in[t].dtype() != in[0].dtype()) {
        fail_dtype(in, "one dtype is needed, but tensors[0] is " +
                           std::string(name_of(in[0].dtype())) + " and " + name + " is " +
                           std::string(name_of(in[t].dtype())));
      }
      if (in[t].rank() != shape.rank()) {
        fail_shape(in, "tensors[0] has " + std::to_string(shape.rank()) + " axes but " + name +
                           " has " + std::to_string(in[t].rank()));
      }
      for (int i = 0; i < shape.rank(); ++i) {
        const Dim a = in[0].shape()[static_cast<std::size_t>(i)];
        const Dim b = in[t].shape()[static_cast<std::size_t>(i)];
        if (i == axis) {
          shape[static_cast<std::size_t>(i)] += b;
        } else if (!a.same_as(b) && !(a == b)) {
          fail_shape(in, axis_sizes(i, a, "tensors[0]", b, name) + "; only axis " +
                             std::to_string(axis) + " may differ");
        }
      }
    }
    return {Type(in[0].dtype(), shape)};
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    Dim begin = 0;
    for (int i = 0; i < g.input_count(); ++i) {
      const int axis = from_front(attrs.axis, g.input_shape(i).rank());
      const Dim end = begin + g.input_shape(i)[static_cast<std::size_t>(axis)];
      if (g.needs(i)) g.set(i, slice(g.grad(), axis, begin, end));
      begin = end;
    }
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    std::vector<std::string> inputs;
    for (int i = 0; i < e.input_count(); ++i) inputs.push_back(e.input(i));
    e.output(0, e.node("Concat", inputs, {{"axis", attrs.axis}}));
  }
};

struct Pad {
  using Attrs = PadAttrs;
  static constexpr Schema schema{
      .name = "pad",
      .inputs = kPadInputs,
      .outputs = kOut,
      .doc = "low elements of a number before and high after each axis; negative counts crop."};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    const int rank = in[0].rank();
    if (attrs.low.rank() != rank || attrs.high.rank() != rank) {
      fail_shape(in, "low and high need a count for each of the " + std::to_string(rank) +
                         " axes, but have " + std::to_string(attrs.low.rank()) + " and " +
                         std::to_string(attrs.high.rank()));
    }
    Shape shape;
    for (std::size_t i = 0; i < attrs.low.size(); ++i) {
      const Dim size = in[0].shape()[i] + attrs.low[i] + attrs.high[i];
      if (size.is_number() && size.number() < 0) {
        fail_shape(in, "axis " + std::to_string(i) + " of size " + to_string(in[0].shape()[i]) +
                           " cannot be cropped to " + to_string(size));
      }
      shape.push_back(size);
    }
    return {Type(in[0].dtype(), shape)};
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    Shape low, high;
    for (const Dim d : attrs.low) low.push_back(Dim(0) - d);
    for (const Dim d : attrs.high) high.push_back(Dim(0) - d);
    g.set(0, pad(g.grad(), low, high));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    Shape pads = attrs.low;
    for (const Dim d : attrs.high) pads.push_back(d);
    e.output(0, e.node("Pad", {e.input(0), e.shape(pads),
                               e.scalar(attrs.value, e.input_type(0).dtype())}));
  }
};

Tensor concat_all(std::span<const Tensor> tensors, std::int64_t axis, bool as_new_axis, Loc loc) {
  std::vector<Tensor> parts(tensors.begin(), tensors.end());
  if (!parts.empty()) {
    DType dtype = parts[0].dtype();
    for (const Tensor& part : parts) dtype = promote(dtype, part.dtype());
    for (Tensor& part : parts) {
      part = to(part, dtype, loc);
      if (as_new_axis) part = unsqueeze(part, axis, loc);
    }
  }
  std::vector<const Tensor*> refs;
  for (const Tensor& part : parts) refs.push_back(&part);
  if (!parts.empty()) axis = normalized(axis, parts[0]);
  return apply_multi<Concat>({.axis = axis}, loc, refs, 1)[0];
}

struct OneHotAttrs {
  DType dtype = DType::f32;
};

struct OneHot {
  using Attrs = OneHotAttrs;
  static constexpr Schema schema{
      .name = "one_hot",
      .inputs = kOneHotInputs,
      .outputs = kOut,
      .doc = "1 where the index is the class, else 0, in a dtype of one's own.",
      .samples = {.edges = "0 -0 1 -1 2.5 127 inf nan", .differentiable = false},
      .typing = Typing::boolean};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    if (!contains(kAny, attrs.dtype)) {
      fail_dtype(in, "there is no one and zero of dtype " + std::string(name_of(attrs.dtype)));
    }
    return {Type(attrs.dtype, infer_pointwise(in)[0].shape())};
  }
  static Scalar eval(const Attrs& attrs, Scalar index, Scalar of_class) {
    return scalar::cast(index == of_class, attrs.dtype);
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    e.output(0, e.cast(e.node("Equal", {e.operand(0), e.operand(1)}), attrs.dtype));
  }
};

}  // namespace

Types infer_scatter_at(const InferIn& in, const IndexAttrs& attrs) {
  check_index_shape(in, checked_axis(in, attrs.axis, in[0].rank()));
  if (in[2].dtype() != in[0].dtype()) {
    fail_dtype(in, "one dtype is needed, but x is " + std::string(name_of(in[0].dtype())) +
                       " and source is " + std::string(name_of(in[2].dtype())));
  }
  const Shape &index = in[1].shape(), &source = in[2].shape();
  if (index.rank() != source.rank()) {
    fail_shape(in, "index has " + std::to_string(index.rank()) + " axes but source has " +
                       std::to_string(source.rank()));
  }
  for (int i = 0; i < index.rank(); ++i) {
    const Dim a = index[static_cast<std::size_t>(i)], b = source[static_cast<std::size_t>(i)];
    if (!a.same_as(b) && !(a == b)) {
      fail_shape(in, axis_sizes(i, a, "index", b, "source") + "; their shapes must be equal");
    }
  }
  return {in[0]};
}

Tensor repeated_zero(const Shape& shape, DType dtype, Loc loc) {
  return expand(zeros({}, dtype, loc), shape, loc);
}
Tensor scatter_added(const Shape& shape, std::int64_t axis, const Tensor& index,
                     const Tensor& source, Loc loc) {
  return scatter_add(repeated_zero(shape, source.dtype(), loc), axis, index, source, loc);
}

std::span<const OpInfo* const> indexing_rows() {
  static constexpr const OpInfo* kRows[] = {
      &op_info<GatherOp>, &op_info<ScatterAdd>, &op_info<IndexSelect>,
      &op_info<Concat>,   &op_info<Pad>,        &op_info<OneHot>,
  };
  return kRows;
}

Tensor index_select_from_front(const Tensor& x, std::int64_t axis, const Tensor& index,
                               std::string_view of, Loc loc) {
  return apply<IndexSelect>({.axis = axis, .from_end = false, .of = std::string(of)}, loc, x,
                            index);
}

Tensor gather_from_front(const Tensor& x, std::int64_t axis, const Tensor& index,
                         std::string_view of, Loc loc) {
  return apply<GatherOp>({.axis = axis, .from_end = false, .of = std::string(of)}, loc, x, index);
}

}  // namespace ops

Tensor gather(const Tensor& x, std::int64_t axis, const Tensor& index, Loc loc) {
  if (ops::is_of_scalar(axis, x)) {
    const Tensor made = gather(ops::as_vector(x, loc), axis, atleast_1d(index, loc), loc);
    return index.rank() == 0 ? ops::as_scalar(made, loc) : made;
  }
  return apply<ops::GatherOp>({.axis = ops::normalized(axis, x)}, loc, x, index);
}
Tensor scatter_add(const Tensor& x, std::int64_t axis, const Tensor& index, const Tensor& source,
                   Loc loc) {
  if (ops::is_of_scalar(axis, x)) {
    return ops::as_scalar(scatter_add(ops::as_vector(x, loc), axis, atleast_1d(index, loc),
                                      atleast_1d(source, loc), loc),
                          loc);
  }
  return apply<ops::ScatterAdd>({.axis = ops::normalized(axis, x)}, loc, x, index, source);
}
Tensor& ops::scatter_add_in_place(Tensor& target, std::int64_t axis, const Tensor& index,
                                  const Tensor& source, std::string_view name, Loc loc) {
  return put_in_place<ScatterAdd>(target, normalized(axis, target), index, source, name, loc);
}
Tensor& Tensor::scatter_add_(std::int64_t axis, const Tensor& index, const Tensor& source,
                             Loc loc) {
  return ops::is_of_scalar(axis, *this)
             ? ops::overwrite(*this, dyad::scatter_add(*this, axis, index, source, loc),
                              "scatter_add_", loc)
             : ops::scatter_add_in_place(*this, axis, index, source, "scatter_add_", loc);
}
Tensor index_select(const Tensor& x, std::int64_t axis, const Tensor& index, Loc loc) {
  if (ops::is_of_scalar(axis, x)) {
    return ops::as_scalar(index_select(ops::as_vector(x, loc), axis, index, loc), loc);
  }
  return apply<ops::IndexSelect>({.axis = ops::normalized(axis, x)}, loc, x, index);
}
Tensor one_hot(const Tensor& indices, Dim classes, DType dtype, Loc loc) {
  if (is_floating(indices.dtype())) {
    throw DTypeError("one_hot(indices: " + type_string(indices) +
                         "): indices must be integers; convert them, as in to(indices, i64)",
                     loc.user());
  }
  const LocScope scope(loc);
  const ops::OneHotAttrs attrs{.dtype = contains(kAny, dtype) ? dtype : boolean};
  return to(
      apply<ops::OneHot>(attrs, loc, unsqueeze(indices, -1), arange(classes, indices.dtype())),
      dtype);
}
Tensor one_hot(const Tensor& indices, DType dtype, Loc loc) {
  const LocScope called(loc, "one_hot");
  const Tensor counts = bincount(reshape(indices, {-1}, loc), 0, loc);
  return one_hot(indices, counts.size(0, loc), dtype, loc);
}

Tensor concat(std::span<const Tensor> tensors, std::int64_t axis, Loc loc) {
  return ops::concat_all(tensors, axis, false, loc);
}
Tensor concat(std::initializer_list<Tensor> tensors, std::int64_t axis, Loc loc) {
  return ops::concat_all({tensors.begin(), tensors.size()}, axis, false, loc);
}
Tensor stack(std::span<const Tensor> tensors, std::int64_t axis, Loc loc) {
  return ops::concat_all(tensors, axis, true, loc);
}
Tensor stack(std::initializer_list<Tensor> tensors, std::int64_t axis, Loc loc) {
  return ops::concat_all({tensors.begin(), tensors.size()}, axis, true, loc);
}
Tensor pad(const Tensor& x, Shape low, Shape high, double value, Loc loc) {
  return apply<ops::Pad>({.low = std::move(low), .high = std::move(high), .value = value}, loc, x);
}

}  // namespace dyad
