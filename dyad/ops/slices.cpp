#include <algorithm>

#include "dyad/ops/indexing.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/views.h"

namespace dyad {
namespace ops {
namespace {

struct SliceAttrs {
  std::int64_t axis = 0;
  Dim begin = 0;
  Dim end = kEnd;
  std::int64_t step = 1;
};

struct Range {
  Dim begin;  ///< from 0 to the size
  Dim count;  ///< without the step
};

/// A symbolic bound is taken to be 0 or more; sums stay as simple as they can, so that the sizes of
/// x[1:] and x[:-1] are one expression.
Range clipped(Dim begin, Dim end, Dim size) {
  if (begin.is_number() && end.is_number() && size.is_number()) {
    const std::int64_t n = size.number();
    const auto clip = [n](std::int64_t at) {
      return std::clamp<std::int64_t>(at < 0 ? at + n : at, 0, n);
    };
    const std::int64_t first = clip(begin.number());
    return {first, std::max<std::int64_t>(clip(end.number()) - first, 0)};
  }
  const bool to_end = end.same_as(kEnd) || end.same_as(size);
  const bool end_from_back = end.is_number() && end.number() < 0;
  const Dim last = to_end ? size : end_from_back ? size + end : min(end, size);
  if (begin.is_number() && begin.number() < 0) {
    const Dim first = max(size + begin, 0);
    return {first, to_end ? min(Dim(0) - begin, size) : max(last - first, 0)};
  }
  if (begin.same_as(0)) return {0, end_from_back ? max(last, 0) : last};
  return {min(begin, size), max(last - begin, 0)};
}

/// `g`, the gradient of a part of an axis, back in an axis of `size` with zeros elsewhere.
Tensor placed(Tensor g, int axis, int rank, Dim begin, Dim size, Dim count) {
  Shape low(static_cast<std::size_t>(rank), 0), high(static_cast<std::size_t>(rank), 0);
  low[static_cast<std::size_t>(axis)] = begin;
  high[static_cast<std::size_t>(axis)] = size - begin - count;
  return pad(g, low, high);
}

struct SliceOp {
  using Attrs = SliceAttrs;
  static constexpr Schema schema{.name = "slice",
                                 .inputs = kUnary,
                                 .outputs = kOut,
                                 .doc =
                                     "Every step-th element from begin to before end along an "
                                     "axis; bounds as in Python."};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    const auto axis = static_cast<std::size_t>(checked_axis(in, attrs.axis, in[0].rank()));
    if (attrs.step < 1) {
      fail_value(in, "step = " + std::to_string(attrs.step) + " must be 1 or more");
    }
    Shape shape = in[0].shape();
    const Range range = clipped(attrs.begin, attrs.end, shape[axis]);
    shape[axis] = attrs.step == 1 ? range.count : ceil_div(range.count, attrs.step);
    return {Type(in[0].dtype(), shape)};
  }
  static ViewLayout view(const Attrs& attrs, const Shape& in, const Strides& strides,
                         const Shape& out) {
    const auto axis = static_cast<std::size_t>(from_front(attrs.axis, in.rank()));
    const Range range = clipped(attrs.begin, attrs.end, in[axis]);
    ViewLayout layout{.shape = out, .strides = strides};
    layout.offset = range.count.number() == 0 ? 0 : range.begin.number() * strides[axis];
    layout.strides[axis] *= attrs.step;
    return layout;
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    const Shape& shape = g.input_shape(0);
    const int rank = shape.rank(), axis = from_front(attrs.axis, rank);
    const Dim size = shape[static_cast<std::size_t>(axis)];
    const Range range = clipped(attrs.begin, attrs.end, size);
    Tensor grad = g.grad();
    Dim count = range.count;
    if (attrs.step > 1) {
      // Each element is followed by step - 1 zeros: as an axis of its own, then as one axis.
      Shape spread = g.output_shape();
      count = spread[static_cast<std::size_t>(axis)] * attrs.step;
      spread[static_cast<std::size_t>(axis)] = count;
      grad = placed(unsqueeze(grad, axis + 1), axis + 1, rank + 1, 0, attrs.step, 1);
      grad = reshape(grad, spread);
    }
    g.set(0, placed(grad, axis, rank, range.begin, size, count));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    const std::int64_t axes[] = {attrs.axis}, steps[] = {attrs.step};
    e.output(0, e.node("Slice", {e.input(0), e.shape({attrs.begin}), e.shape({attrs.end}),
                                 e.constant_i64(axes), e.constant_i64(steps)}));
  }
};

struct SelectAttrs {
  std::int64_t axis = 0;
  Dim index = 0;
};

bool in_range(Dim index, Dim size) {
  return !index.is_number() || !size.is_number() ||
         (index.number() >= -size.number() && index.number() < size.number());
}
std::string out_of_range(Dim index, std::int64_t axis, Dim size) {
  return "index " + to_string(index) + " is out of range for axis " + std::to_string(axis) +
         " of size " + to_string(size);
}

struct SelectOp {
  using Attrs = SelectAttrs;
  static constexpr Schema schema{.name = "select",
                                 .inputs = kUnary,
                                 .outputs = kOut,
                                 .doc = "The part at an index along an axis, which vanishes."};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    const int axis = checked_axis(in, attrs.axis, in[0].rank());
    Shape shape = in[0].shape();
    const Dim size = shape[static_cast<std::size_t>(axis)];
    if (!in_range(attrs.index, size)) fail_index(in, out_of_range(attrs.index, axis, size));
    shape.erase(static_cast<std::size_t>(axis));
    return {Type(in[0].dtype(), shape)};
  }
  static ViewLayout view(const Attrs& attrs, const Shape& in, const Strides& strides,
                         const Shape& out) {
    const int axis = from_front(attrs.axis, in.rank());
    const Dim size = in[static_cast<std::size_t>(axis)];
    if (!in_range(attrs.index, size)) {
      throw IndexError("select: " + out_of_range(attrs.index, axis, size));
    }
    const std::int64_t index = attrs.index.number();
    ViewLayout layout{.shape = out, .strides = strides};
    layout.offset =
        (index < 0 ? index + size.number() : index) * strides[static_cast<std::size_t>(axis)];
    layout.strides.erase(static_cast<std::size_t>(axis));
    return layout;
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    const Shape& shape = g.input_shape(0);
    const int rank = shape.rank(), axis = from_front(attrs.axis, rank);
    const Dim size = shape[static_cast<std::size_t>(axis)];
    const bool from_back = attrs.index.is_number() && attrs.index.number() < 0;
    const Dim begin = from_back ? size + attrs.index : attrs.index;
    g.set(0, placed(unsqueeze(g.grad(), axis), axis, rank, begin, size, 1));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    const std::int64_t axis = from_front(attrs.axis, e.input_type(0).rank());
    e.output(0, e.node("Gather", {e.input(0), e.size(attrs.index)}, {{"axis", axis}}));
  }
};

constexpr const OpInfo* kRows[] = {&op_info<SliceOp>, &op_info<SelectOp>};

}  // namespace

std::span<const OpInfo* const> slices_rows() { return kRows; }

}  // namespace ops

Tensor select(const Tensor& x, std::int64_t axis, Dim index, Loc loc) {
  return apply<ops::SelectOp>({.axis = axis, .index = index}, loc, x);
}
Tensor slice(const Tensor& x, std::int64_t axis, Dim begin, Dim end, std::int64_t step, Loc loc) {
  return apply<ops::SliceOp>({.axis = axis, .begin = begin, .end = end, .step = step}, loc, x);
}

std::vector<Tensor> split(const Tensor& x, const Shape& sizes, std::int64_t axis, Loc loc) {
  const Dim size = x.size(axis, loc);
  Dim total = 0;
  for (const Dim part : sizes) total += part;
  if (!(total == size)) {
    throw ShapeError("split(" + type_string(x) + ", sizes = " + to_string(sizes) +
                         "): the sizes add up to " + to_string(total) + " but axis " +
                         std::to_string(axis) + " has size " + to_string(size),
                     loc.user());
  }
  std::vector<Tensor> parts;
  Dim begin = 0;
  for (const Dim part : sizes) {
    parts.push_back(slice(x, axis, begin, begin + part, 1, loc));
    begin += part;
  }
  return parts;
}

std::vector<Tensor> chunk(const Tensor& x, std::int64_t count, std::int64_t axis, Loc loc) {
  const Dim size = x.size(axis, loc);
  if (count < 1) {
    throw ValueError(
        "chunk(" + type_string(x) + "): count = " + std::to_string(count) + " must be 1 or more",
        loc.user());
  }
  const Dim part = ceil_div(size, count);
  std::vector<Tensor> parts;
  Dim begin = 0;
  do {
    parts.push_back(slice(x, axis, begin, begin + part, 1, loc));
    begin += part;
  } while (static_cast<std::int64_t>(parts.size()) < count && begin < size);
  return parts;
}

}  // namespace dyad
