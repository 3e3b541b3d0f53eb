#include "dyad/ops/rearrange.h"

#include "dyad/ops/arithmetic.h"
#include "dyad/ops/checked.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/scatter.h"
#include "dyad/ops/shapes.h"
#include "dyad/ops/views.h"

namespace dyad {
namespace ops {
namespace {

struct UnfoldAttrs {
  std::int64_t axis = 0;
  std::int64_t size = 1;
  std::int64_t step = 1;
};

/// Positions [window, element] along the axis.
Tensor window_positions(Dim windows, const UnfoldAttrs& attrs) {
  return unsqueeze(arange(windows) * attrs.step, 1) + arange(attrs.size);
}

struct Unfold {
  using Attrs = UnfoldAttrs;
  static constexpr Schema schema{
      .name = "unfold",
      .inputs = kMoved,
      .outputs = kOut,
      .doc =
          "Windows of size elements, one every step, along an axis; their elements along a new "
          "last axis."};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    const auto axis = static_cast<std::size_t>(checked_axis(in, attrs.axis, in[0].rank()));
    if (attrs.size < 1 || attrs.step < 1) {
      fail_value(in, "size = " + std::to_string(attrs.size) +
                         " and step = " + std::to_string(attrs.step) + " must both be 1 or more");
    }
    Shape shape = in[0].shape();
    if (shape[axis] < Dim(attrs.size)) {
      fail_shape(in, "axis " + std::to_string(axis) + " has size " + to_string(shape[axis]) +
                         ", which holds no window of " + std::to_string(attrs.size));
    }
    shape[axis] = (shape[axis] - attrs.size) / attrs.step + 1;
    shape.push_back(attrs.size);
    return {Type(in[0].dtype(), shape)};
  }
  static ViewLayout view(const Attrs& attrs, const Shape& in, const Strides& strides,
                         const Shape& out) {
    const auto axis = static_cast<std::size_t>(from_front(attrs.axis, in.rank()));
    ViewLayout layout{.shape = out, .strides = strides};
    layout.strides.push_back(strides[axis]);
    layout.strides[axis] *= attrs.step;
    return layout;
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    const Shape& shape = g.input_shape(0);
    const int axis = from_front(attrs.axis, shape.rank());
    const auto at = static_cast<std::size_t>(axis);
    const Dim windows = g.output_shape()[at];
    Shape joined = shape;
    joined[at] = windows * attrs.size;
    const Tensor parts = reshape(movedim(g.grad(), -1, axis + 1), joined);
    const Tensor positions = reshape(window_positions(windows, attrs), {windows * attrs.size});
    g.set(0, index_add(zeros(shape, g.grad().dtype()), axis, positions, parts));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    const std::int64_t rank = e.input_type(0).rank(),
                       axis = from_front(attrs.axis, e.input_type(0).rank());
    const Dim windows = e.output_type().shape()[static_cast<std::size_t>(axis)];
    const std::string starts =
        e.node("Range", {e.size(0), e.size(windows * attrs.step), e.size(attrs.step)});
    const std::string inside = e.node("Range", {e.size(0), e.size(attrs.size), e.size(1)});
    const std::string column = e.node("Reshape", {starts, e.shape({-1, 1})});
    const std::string positions = e.node("Add", {column, inside});
    const std::string parts = e.node("Gather", {e.input(0), positions}, {{"axis", axis}});
    std::vector<std::int64_t> perm;
    for (std::int64_t i = 0; i <= rank; ++i) {
      if (i != axis + 1) perm.push_back(i);
    }
    perm.push_back(axis + 1);
    e.output(0, e.node("Transpose", {parts}, {{"perm", perm}}));
  }
};

struct DepthToSpaceAttrs {
  std::int64_t block = 1;
  std::string mode = "DCR";
};

/// The four sizes of an image; ShapeError for another rank.
Shape image_shape(const InferIn& in) {
  if (in[0].rank() != 4) {
    fail_shape(
        in, "x must be an image [n, c, h, w], but has " + std::to_string(in[0].rank()) + " axes");
  }
  return in[0].shape();
}
void require_block(const InferIn& in, std::int64_t block) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;  // its square divides the channels
  if (block < 1 || block > kMost) {
    fail_value(in,
               "block = " + std::to_string(block) + " must be from 1 to " + std::to_string(kMost));
  }
}
void require_multiple(const InferIn& in, Dim size, std::int64_t of, std::string_view what) {
  if (!(size / of * of == size)) {
    fail_shape(in, std::string(what) + " = " + to_string(size) + " must be a multiple of " +
                       std::to_string(of));
  }
}

struct DepthToSpace {
  using Attrs = DepthToSpaceAttrs;
  static constexpr Schema schema{
      .name = "depth_to_space",
      .inputs = kMoved,
      .outputs = kOut,
      .doc =
          "x[n, c, h, w] -> [n, c / block^2, h * block, w * block]; channels are read as "
          "[block, block, c'] (DCR) or [c', block, block] (CRD).",
      .batching = Batching::all_samples};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    Shape shape = image_shape(in);
    require_block(in, attrs.block);
    if (attrs.mode != "DCR" && attrs.mode != "CRD") {
      fail_value(in, "mode = \"" + attrs.mode + "\" must be DCR or CRD");
    }
    require_multiple(in, shape[1], attrs.block * attrs.block, "c");
    shape[1] = shape[1] / (attrs.block * attrs.block);
    shape[2] *= attrs.block;
    shape[3] *= attrs.block;
    return {Type(in[0].dtype(), shape)};
  }
  static std::vector<Tensor> expand(const Attrs& attrs, TensorRefs in, Loc) {
    const Tensor& x = *in[0];
    const Shape s = sizes_of(x);
    const std::int64_t b = attrs.block;
    const Dim c = s[1] / (b * b);
    const bool dcr = attrs.mode == "DCR";
    const Tensor parts =
        reshape(x, dcr ? Shape{s[0], b, b, c, s[2], s[3]} : Shape{s[0], c, b, b, s[2], s[3]});
    const Tensor placed = permute(parts, dcr ? Ints{0, 3, 4, 1, 5, 2} : Ints{0, 1, 4, 2, 5, 3});
    return {reshape(placed, {s[0], c, s[2] * b, s[3] * b})};
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    e.output(0, e.node("DepthToSpace", {e.input(0)},
                       {{"blocksize", attrs.block}, {"mode", attrs.mode}}));
  }
};

struct BlockAttrs {
  std::int64_t block = 1;
};

struct SpaceToDepth {
  using Attrs = BlockAttrs;
  static constexpr Schema schema{
      .name = "space_to_depth",
      .inputs = kMoved,
      .outputs = kOut,
      .doc =
          "x[n, c, h, w] -> [n, block^2 * c, h / block, w / block], channels as "
          "[block, block, c].",
      .batching = Batching::all_samples};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    Shape shape = image_shape(in);
    require_block(in, attrs.block);
    require_multiple(in, shape[2], attrs.block, "h");
    require_multiple(in, shape[3], attrs.block, "w");
    shape[1] *= attrs.block * attrs.block;
    shape[2] = shape[2] / attrs.block;
    shape[3] = shape[3] / attrs.block;
    return {Type(in[0].dtype(), shape)};
  }
  static std::vector<Tensor> expand(const Attrs& attrs, TensorRefs in, Loc) {
    const Tensor& x = *in[0];
    const Shape s = sizes_of(x);
    const std::int64_t b = attrs.block;
    const Dim h = s[2] / b, w = s[3] / b;
    const Tensor parts = permute(reshape(x, {s[0], s[1], h, b, w, b}), {0, 3, 5, 1, 2, 4});
    return {reshape(parts, {s[0], s[1] * (b * b), h, w})};
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    e.output(0, e.node("SpaceToDepth", {e.input(0)}, {{"blocksize", attrs.block}}));
  }
};

struct ReverseAttrs {
  std::int64_t time_axis = 0;
  std::int64_t batch_axis = 1;
};
constexpr ArgInfo kXAndLengths[] = {{"x", kEverything}, {"lengths", kIndex}};

struct ReverseSequence {
  using Attrs = ReverseAttrs;
  static constexpr Schema schema{
      .name = "reverse_sequence",
      .inputs = kXAndLengths,
      .outputs = kOut,
      .doc = "The first lengths[b] elements of sequence b backwards, the others as they are.",
      .saved_inputs = kSecond};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    const int rank = in[0].rank();
    const int time = checked_axis(in, attrs.time_axis, rank);
    const int batch = checked_axis(in, attrs.batch_axis, rank);
    if (time == batch) fail_value(in, "time_axis and batch_axis must be two axes");
    const Dim sequences = in[0].shape()[static_cast<std::size_t>(batch)];
    if (in[1].rank() != 1 || !(in[1].shape()[0] == sequences)) {
      fail_shape(in, "lengths must be [" + to_string(sequences) +
                         "], one for each sequence of axis " + std::to_string(batch));
    }
    return {in[0]};
  }
  static std::vector<Tensor> expand(const Attrs& attrs, TensorRefs in, Loc loc) {
    const Tensor& x = *in[0];
    const int rank = x.rank();
    const auto time = static_cast<std::size_t>(from_front(attrs.time_axis, rank));
    const auto batch = static_cast<std::size_t>(from_front(attrs.batch_axis, rank));
    const Shape sizes = sizes_of(x);
    Shape along_time(sizes.size(), 1), along_batch(sizes.size(), 1);
    along_time[time] = sizes[time];
    along_batch[batch] = sizes[batch];
    const Tensor t = reshape(arange(sizes[time]), along_time);
    const Tensor lengths = checked(
        *in[1], {.of = "reverse_sequence", .argument = "lengths", .most = sizes[time]}, loc);
    const Tensor n = reshape(to(lengths, i64), along_batch);
    const Tensor from = where(t < n, n - 1 - t, t);
    return {gather(x, static_cast<std::int64_t>(time), dyad::expand(from, sizes))};
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    g.set(0, reverse_sequence(g.grad(), g.input(1), attrs.time_axis, attrs.batch_axis));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    const int rank = e.input_type(0).rank();
    const std::int64_t time = from_front(attrs.time_axis, rank),
                       batch = from_front(attrs.batch_axis, rank);
    if (time + batch != 1) e.fail("ONNX reverses along the first two axes only");
    const bool narrow = e.input_type(0).dtype() == DType::bf16;
    const std::string x = narrow ? e.cast(e.input(0), DType::f32) : e.input(0);
    e.output(0, e.node("ReverseSequence", {x, e.cast(e.input(1), DType::i64)},
                       {{"time_axis", time}, {"batch_axis", batch}}));
  }
};

/// A quarter turn is a flip and an exchange of axes.
Tensor backwards(const Tensor& x, std::int64_t axis, Loc loc) {
  return slice(x, axis, kEnd, kStart, -1, loc);
}

}  // namespace

std::span<const OpInfo* const> rearrange_rows() {
  static constexpr const OpInfo* kRows[] = {&op_info<Unfold>, &op_info<DepthToSpace>,
                                            &op_info<SpaceToDepth>, &op_info<ReverseSequence>};
  return kRows;
}

}  // namespace ops

Tensor unfold(const Tensor& x, std::int64_t axis, std::int64_t size, std::int64_t step, Loc loc) {
  return apply<ops::Unfold>({.axis = axis, .size = size, .step = step}, loc, x);
}
Tensor depth_to_space(const Tensor& x, std::int64_t block, std::string_view mode, Loc loc) {
  return apply<ops::DepthToSpace>({.block = block, .mode = std::string(mode)}, loc, x);
}
Tensor space_to_depth(const Tensor& x, std::int64_t block, Loc loc) {
  return apply<ops::SpaceToDepth>({.block = block}, loc, x);
}
Tensor reverse_sequence(const Tensor& x, const Tensor& lengths, std::int64_t time_axis,
                        std::int64_t batch_axis, Loc loc) {
  return apply<ops::ReverseSequence>({.time_axis = time_axis, .batch_axis = batch_axis}, loc, x,
                                     lengths);
}

Tensor flip(const Tensor& x, const Ints& axes, Loc loc) {
  if (axes.size() == 1 && ops::is_of_scalar(axes[0], x)) return x;
  Tensor made = x;
  if (axes.empty()) {
    for (int axis = 0; axis < x.rank(); ++axis) made = ops::backwards(made, axis, loc);
  }
  std::vector<bool> seen(static_cast<std::size_t>(x.rank()), false);
  for (const std::int64_t axis : axes) {
    const int at = normalize_axis(axis, x.rank(), "flip", loc);
    if (seen[static_cast<std::size_t>(at)]) {
      throw ValueError(
          "flip(" + type_string(x) + "): axis " + std::to_string(at) + " is named twice",
          loc.user());
    }
    seen[static_cast<std::size_t>(at)] = true;
    made = ops::backwards(made, at, loc);
  }
  return made;
}

Tensor rot90(const Tensor& x, std::int64_t turns, std::int64_t first, std::int64_t second,
             Loc loc) {
  const int a = normalize_axis(first, x.rank(), "rot90", loc);
  const int b = normalize_axis(second, x.rank(), "rot90", loc);
  if (a == b) {
    throw ValueError("rot90(" + type_string(x) + "): a turn needs two different axes", loc.user());
  }
  switch (((turns % 4) + 4) % 4) {
    case 1:
      return transpose(ops::backwards(x, b, loc), a, b, loc);
    case 2:
      return ops::backwards(ops::backwards(x, a, loc), b, loc);
    case 3:
      return ops::backwards(transpose(x, a, b, loc), b, loc);
    default:
      return x;
  }
}

Tensor roll(const Tensor& x, const Ints& shifts, const Ints& axes, Loc loc) {
  if (axes.empty() && shifts.size() == 1) {
    return reshape(roll(reshape(x, {-1}, loc), shifts, {0}, loc), ops::sizes_of(x, loc), loc);
  }
  if (shifts.size() != axes.size()) {
    throw ValueError("roll(" + type_string(x) + "): " + std::to_string(shifts.size()) +
                         " shifts for " + std::to_string(axes.size()) +
                         " axes; each axis needs its shift",
                     loc.user());
  }
  Tensor made = x;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const Dim size = made.size(axes[i], loc);
    if (shifts[i] == 0 || size.same_as(0)) continue;
    // A symbolic size of 0 has no remainder. In parts also where nothing moves: what shares memory
    // must not depend on sizes.
    const Dim shift = Dim(shifts[i]) % (size.is_number() ? size : max(size, 1));
    made = concat({slice(made, axes[i], size - shift, size, 1, loc),
                   slice(made, axes[i], 0, size - shift, 1, loc)},
                  axes[i], loc);
  }
  // Never x itself: whether it moves depends on sizes.
  return made.is_same(x) ? clone(x, loc) : made;
}

Tensor tile(const Tensor& x, const Sizes& counts, Loc loc) {
  const std::size_t rank = std::max(counts.size(), static_cast<std::size_t>(x.rank()));
  const Shape sizes = ops::sizes_of(x, loc);
  Shape apart, spread, joined;
  for (std::size_t i = 0; i < rank; ++i) {
    const std::size_t from_back = rank - 1 - i;
    const Dim size = from_back < sizes.size() ? sizes[sizes.size() - 1 - from_back] : Dim(1);
    const Dim count = from_back < counts.size() ? counts[counts.size() - 1 - from_back] : Dim(1);
    if (ops::is_below(count, 0)) {
      Shape given;
      for (const Dim one : counts) given.push_back(ops::size_now(one));
      throw ValueError(
          "tile(" + type_string(x) + ", counts = " + to_string(given) + "): a count is negative",
          loc.user());
    }
    if (!count.same_as(1)) {
      apart.push_back(1);
      spread.push_back(count);
    }
    apart.push_back(size);
    spread.push_back(size);
    joined.push_back(size * count);
  }
  return reshape(expand(reshape(x, apart, loc), spread, loc), joined, loc);
}
Tensor repeat(const Tensor& x, const Sizes& counts, Loc loc) { return tile(x, counts, loc); }

Tensor repeat_interleave(const Tensor& x, std::int64_t count, std::int64_t axis, Loc loc) {
  if (count < 0) {
    throw ValueError("repeat_interleave(" + type_string(x) + "): count = " + std::to_string(count) +
                         " is negative",
                     loc.user());
  }
  const int at = normalize_axis(axis, x.rank(), "repeat_interleave", loc);
  if (count == 0) return slice(x, at, 0, 0, 1, loc);
  Shape spread = ops::sizes_of(x, loc), joined = spread;
  joined[static_cast<std::size_t>(at)] *= count;
  spread.insert(static_cast<std::size_t>(at) + 1, count);
  // A copy whatever the sizes are: of one slice the repeated view would do, and writes show in it.
  return reshape(clone(expand(unsqueeze(x, at + 1, loc), spread, loc), loc), joined, loc);
}

Tensor as_strided(const Tensor& x, const Shape& shape, const Ints& strides, std::int64_t offset,
                  Loc loc) {
  if (shape.size() != strides.size()) {
    throw ValueError("as_strided(" + type_string(x) + "): " + std::to_string(shape.size()) +
                         " sizes but " + std::to_string(strides.size()) + " strides",
                     loc.user());
  }
  const LocScope scope(loc);
  Dim low = offset, high = offset;
  bool known = true, empty = false;
  Tensor places = full({}, static_cast<double>(offset), i64);
  for (std::size_t i = 0; i < shape.size(); ++i) {
    Shape along(shape.size(), 1);
    along[i] = shape[i];
    places = places + reshape(arange(shape[i]) * strides[i], along);
    known = known && is_known(shape[i]);
    if (!known) continue;
    empty = empty || shape[i] == 0;
    (strides[i] < 0 ? low : high) += (shape[i] - 1) * strides[i];
  }
  if (known && !empty && (low < 0 || ops::is_below(x.numel(), high + 1))) {
    throw ShapeError("as_strided(" + type_string(x) + ", shape = " + size_text(shape) +
                         "): it reaches from element " + size_text(low) + " to " + size_text(high) +
                         ", but x has " + to_string(ops::size_now(x.numel())),
                     loc.user());
  }
  return ops::index_select_from_front(reshape(x, {-1}), 0, expand(places, shape));
}

Tensor pixel_shuffle(const Tensor& x, std::int64_t factor, Loc loc) {
  const int rank = x.rank();
  if (rank < 3 || factor < 1) {
    throw ShapeError("pixel_shuffle(" + type_string(x) + ", factor = " + std::to_string(factor) +
                         "): an image [..., c, h, w] and a factor of 1 or more are needed",
                     loc.user());
  }
  const Shape sizes = ops::sizes_of(x, loc);
  const Shape batch(sizes.begin(), sizes.end() - 3);
  const Dim c = sizes[sizes.size() - 3], h = sizes[sizes.size() - 2], w = sizes.back();
  const Tensor image = reshape(x, {batch.numel(), c, h, w}, loc);
  Shape shape = batch;
  for (const Dim d : {c / (factor * factor), h * factor, w * factor}) shape.push_back(d);
  return reshape(depth_to_space(image, factor, "CRD", loc), shape, loc);
}

Tensor pixel_unshuffle(const Tensor& x, std::int64_t factor, Loc loc) {
  const int rank = x.rank();
  const Shape sizes = ops::sizes_of(x, loc);
  if (rank < 3 || factor < 1 || ops::leaves_rest(sizes[sizes.size() - 2], factor) ||
      ops::leaves_rest(sizes.back(), factor)) {
    throw ShapeError("pixel_unshuffle(" + type_string(x) + ", factor = " + std::to_string(factor) +
                         "): an image [..., c, h, w] whose height and width are multiples of the "
                         "factor is needed",
                     loc.user());
  }
  Shape apart(sizes.begin(), sizes.end() - 3);
  const Dim c = sizes[sizes.size() - 3], h = sizes[sizes.size() - 2], w = sizes.back();
  Shape shape = apart;
  const int n = rank - 3;
  for (const Dim d : {c, h / factor, Dim(factor), w / factor, Dim(factor)}) apart.push_back(d);
  for (const Dim d : {c * (factor * factor), h / factor, w / factor}) shape.push_back(d);
  Ints order;
  for (int i = 0; i < n; ++i) order.push_back(i);
  for (const int i : {0, 2, 4, 1, 3}) order.push_back(n + i);
  return reshape(permute(reshape(x, apart, loc), order, loc), shape, loc);
}

}  // namespace dyad
