#include "dyad/ops/views.h"

#include <algorithm>

#include "dyad/core/dim_expr.h"
#include "dyad/core/recording_notes.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/ir/graph_evaluator.h"
#include "dyad/ir/view_memory.h"
#include "dyad/ops/complex.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/registry.h"

namespace dyad {
namespace ops {
namespace {

bool is_minus_one(Dim d) { return d.is_number() && d.number() == -1; }

// --- reshape -----------------------------------------------------------------------------------

struct ShapeAttrs {
  Shape shape;
};

/// Strides over the same elements for another shape, or false when only a copy will do: axes that
/// lie without gaps are one run, which the new sizes must divide.
bool reshaped_strides(std::span<const std::int64_t> in, const Strides& strides,
                      std::span<const std::int64_t> out, Strides& result) {
  result.resize(out.size());
  if (std::find(in.begin(), in.end(), 0) != in.end()) {
    result = contiguous_strides(Shape(out));
    return true;
  }
  Ints sizes, steps;  // of the runs
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (in[i] == 1) continue;
    if (!sizes.empty() && steps.back() == in[i] * strides[i]) {
      sizes.back() *= in[i];
      steps.back() = strides[i];
    } else {
      sizes.push_back(in[i]);
      steps.push_back(strides[i]);
    }
  }
  std::size_t to = out.size();
  for (std::size_t run = sizes.size(); run-- > 0;) {
    std::int64_t covered = 1;
    while (to > 0 && covered < sizes[run]) {
      result[--to] = steps[run] * covered;
      covered *= out[to];
    }
    if (covered != sizes[run]) return false;
  }
  while (to > 0) result[--to] = 1;  // sizes of 1
  return true;
}

struct Reshape {
  using Attrs = ShapeAttrs;
  static constexpr Schema schema{
      .name = "reshape",
      .inputs = kMoved,
      .outputs = kOut,
      .doc =
          "The elements in row-major order in another shape; one size may be -1: what the "
          "others leave. Copies when strides do not allow a view.",
      .may_copy = true};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    Shape shape = attrs.shape;
    Dim known = 1;
    int open = -1;
    for (int i = 0; i < shape.rank(); ++i) {
      const Dim d = shape[static_cast<std::size_t>(i)];
      if (is_minus_one(d)) {
        if (open >= 0) fail_value(in, "only one size may be -1");
        open = i;
      } else if (d.is_number() && d.number() < 0) {
        fail_value(in, "size " + to_string(d) + " of axis " + std::to_string(i) +
                           " is negative; only -1 (what the others leave) may be");
      } else {
        known *= d;
      }
    }
    const Dim have = in[0].shape().numel();
    if (open >= 0) {
      if (known.is_number() && known.number() == 0) {
        fail_shape(in, "-1 beside a size of 0 could be anything; give the size");
      }
      shape[static_cast<std::size_t>(open)] = have / known;
      known *= have / known;
    }
    if (!known.same_as(have) && !(known == have)) {
      fail_shape(in, to_string(in[0].shape()) + " has " + to_string(have) + " elements, which " +
                         to_string(attrs.shape) + " does not hold" +
                         (open >= 0 ? "" : " (it takes " + to_string(known) + ")"));
    }
    return {Type(in[0].dtype(), shape)};
  }
  static ViewLayout view(const Attrs&, const Shape& in, const Strides& strides, const Shape& out) {
    ViewLayout layout{.shape = out};
    layout.possible = reshaped_strides(in.numbers(), strides, out.numbers(), layout.strides);
    return layout;
  }
  static Tensor write(const Attrs&, const Tensor& x, const Tensor& value, Loc loc) {
    return reshape(value, sizes_of(x, loc), loc);
  }
  static void grad(Gradient& g, const Attrs&) { g.set(0, reshape(g.grad(), g.input_shape(0))); }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    // To ONNX a 0 is the size that x has there and a -1 what the others leave, so that most shapes
    // need no computed sizes.
    const Shape& from = e.input_type(0).shape();
    Shape shape = attrs.shape;
    OnnxAttrs options;
    const auto is_zero = [](Dim d) { return d.same_as(0); };
    if (std::any_of(shape.begin(), shape.end(), is_zero)) {
      options = {{"allowzero", std::int64_t{1}}};
    } else {
      for (std::size_t i = 0; i < std::min(shape.size(), from.size()); ++i) {
        if (shape[i].is_symbolic() && shape[i].same_as(from[i])) shape[i] = 0;
      }
      const auto open = std::find_if(shape.begin(), shape.end(),
                                     [](Dim d) { return d.is_symbolic() || is_minus_one(d); });
      if (open != shape.end() && std::none_of(open + 1, shape.end(), is_minus_one)) *open = -1;
    }
    e.output(0, e.node("Reshape", {e.input(0), e.shape(shape)}, options));
  }
};

// --- permute, squeeze, unsqueeze, expand -------------------------------------------------------

struct PermuteAttrs {
  Ints axes;
};

struct Permute {
  using Attrs = PermuteAttrs;
  static constexpr Schema schema{.name = "permute",
                                 .inputs = kMoved,
                                 .outputs = kOut,
                                 .doc = "Axis i of the result is axis axes[i] of x."};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    const int rank = in[0].rank();
    if (static_cast<int>(attrs.axes.size()) != rank) {
      fail_shape(in, "axes must name each of the " + std::to_string(rank) + " axes once, but has " +
                         std::to_string(attrs.axes.size()));
    }
    if (rank > 0) (void)checked_axes(in, attrs.axes, rank);
    Shape shape;
    for (const std::int64_t axis : attrs.axes) {
      shape.push_back(in[0].shape()[static_cast<std::size_t>(from_front(axis, rank))]);
    }
    return {Type(in[0].dtype(), shape)};
  }
  static ViewLayout view(const Attrs& attrs, const Shape& in, const Strides& strides,
                         const Shape& out) {
    ViewLayout layout{.shape = out};
    for (const std::int64_t axis : attrs.axes) {
      layout.strides.push_back(strides[static_cast<std::size_t>(from_front(axis, in.rank()))]);
    }
    return layout;
  }
  static Ints inverse(const Attrs& attrs) {
    const int rank = static_cast<int>(attrs.axes.size());
    Ints axes(attrs.axes.size(), 0);
    for (int i = 0; i < rank; ++i) {
      const int axis = from_front(attrs.axes[static_cast<std::size_t>(i)], rank);
      axes[static_cast<std::size_t>(axis)] = i;
    }
    return axes;
  }
  static Tensor write(const Attrs& attrs, const Tensor&, const Tensor& value, Loc loc) {
    return permute(value, inverse(attrs), loc);
  }
  static void grad(Gradient& g, const Attrs& attrs) { g.set(0, permute(g.grad(), inverse(attrs))); }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    std::vector<std::int64_t> perm;
    for (const std::int64_t axis : attrs.axes) {
      perm.push_back(from_front(axis, static_cast<int>(attrs.axes.size())));
    }
    e.output(0, e.node("Transpose", {e.input(0)}, {{"perm", perm}}));
  }
};

struct OneAxisAttrs {
  std::int64_t axis = 0;
};

struct Squeeze {
  using Attrs = OneAxisAttrs;
  static constexpr Schema schema{
      .name = "squeeze", .inputs = kMoved, .outputs = kOut, .doc = "x without an axis of size 1."};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    const auto axis = static_cast<std::size_t>(checked_axis(in, attrs.axis, in[0].rank()));
    Shape shape = in[0].shape();
    if (!(shape[axis] == Dim(1))) {
      fail_shape(in, "axis " + std::to_string(axis) + " has size " + to_string(shape[axis]) +
                         ", only a size of 1 can go; take one part with select()");
    }
    shape.erase(axis);
    return {Type(in[0].dtype(), shape)};
  }
  static ViewLayout view(const Attrs& attrs, const Shape& in, const Strides& strides,
                         const Shape& out) {
    ViewLayout layout{.shape = out, .strides = strides};
    layout.strides.erase(static_cast<std::size_t>(from_front(attrs.axis, in.rank())));
    return layout;
  }
  static Tensor write(const Attrs& attrs, const Tensor&, const Tensor& value, Loc loc) {
    return unsqueeze(value, attrs.axis, loc);
  }
  static void grad(Gradient& g, const Attrs& attrs) { g.set(0, unsqueeze(g.grad(), attrs.axis)); }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    const std::int64_t axes[] = {attrs.axis};
    e.output(0, e.node("Squeeze", {e.input(0), e.constant_i64(axes)}));
  }
};

struct Unsqueeze {
  using Attrs = OneAxisAttrs;
  static constexpr Schema schema{.name = "unsqueeze",
                                 .inputs = kMoved,
                                 .outputs = kOut,
                                 .doc = "x with a new axis of size 1."};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    Shape shape = in[0].shape();
    shape.insert(static_cast<std::size_t>(checked_axis(in, attrs.axis, in[0].rank() + 1)), 1);
    return {Type(in[0].dtype(), shape)};
  }
  static ViewLayout view(const Attrs& attrs, const Shape& in, const Strides& strides,
                         const Shape& out) {
    ViewLayout layout{.shape = out, .strides = strides};
    const auto axis = static_cast<std::size_t>(from_front(attrs.axis, out.rank()));
    const bool last = axis == strides.size();
    layout.strides.insert(axis, last ? 1 : strides[axis] * in.numbers()[axis]);
    return layout;
  }
  static Tensor write(const Attrs& attrs, const Tensor&, const Tensor& value, Loc loc) {
    return squeeze(value, attrs.axis, loc);
  }
  static void grad(Gradient& g, const Attrs& attrs) { g.set(0, squeeze(g.grad(), attrs.axis)); }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    const std::int64_t axes[] = {attrs.axis};
    e.output(0, e.node("Unsqueeze", {e.input(0), e.constant_i64(axes)}));
  }
};

struct Expand {
  using Attrs = ShapeAttrs;
  static constexpr Schema schema{.name = "expand",
                                 .inputs = kMoved,
                                 .outputs = kOut,
                                 .doc = "x broadcast to a shape; -1 keeps a size."};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    Shape shape = attrs.shape;
    const Shape& have = in[0].shape();
    const int added = shape.rank() - have.rank();
    if (added < 0) {
      fail_shape(in, "the shape has " + std::to_string(shape.rank()) + " axes, x has " +
                         std::to_string(have.rank()) + "; broadcasting adds axes and drops none");
    }
    for (int i = 0; i < shape.rank(); ++i) {
      Dim& d = shape[static_cast<std::size_t>(i)];
      if (i < added) {
        if (d.is_number() && d.number() < 0) {
          fail_value(in, "size " + to_string(d) + " of the new axis " + std::to_string(i) +
                             " is negative");
        }
        continue;
      }
      const Dim from = have[static_cast<std::size_t>(i - added)];
      if (is_minus_one(d)) d = from;
      if (from.same_as(1) || from.same_as(d)) continue;
      if (!(from == d) && !(from == 1)) {
        fail_shape(in, "axis " + std::to_string(i - added) + " of x has size " + to_string(from) +
                           ", which does not broadcast to " + to_string(d) +
                           "; only a size of 1 does");
      }
    }
    return {Type(in[0].dtype(), shape)};
  }
  static ViewLayout view(const Attrs&, const Shape& in, const Strides& strides, const Shape& out) {
    ViewLayout layout{.shape = out, .strides = Strides(out.size(), 0)};
    const std::size_t added = out.size() - in.size();
    for (std::size_t i = 0; i < in.size(); ++i) {
      const bool broadcasts = in.numbers()[i] == 1 && out.numbers()[i + added] != 1;
      layout.strides[i + added] = broadcasts ? 0 : strides[i];
    }
    return layout;
  }
  static Tensor write(const Attrs&, const Tensor& x, const Tensor& value, Loc loc) {
    const Shape &from = x.shape(), &to = value.shape();
    const std::size_t added = to.size() - from.size();
    for (std::size_t i = 0; i < to.size(); ++i) {
      const Dim once = i < added ? Dim(1) : from[i - added];
      if (!to[i].same_as(once)) fail_write_to_broadcast(value, loc);
    }
    return reshape(value, sizes_of(x, loc), loc);
  }
  static void grad(Gradient& g, const Attrs&) { g.set(0, g.grad()); }
  static void to_onnx(OnnxEmitter& e, const Attrs&) {
    // To ONNX a 1 is the size that x has there.
    const Shape& from = e.input_type(0).shape();
    Shape shape = e.output_type().shape();
    const std::size_t added = shape.size() - from.size();
    for (std::size_t i = 0; i < from.size(); ++i) {
      if (shape[i + added].same_as(from[i])) shape[i + added] = 1;
    }
    e.output(0, e.node("Expand", {e.input(0), e.shape(shape)}));
  }
};

struct AssumeShape {
  using Attrs = ShapeAttrs;
  static constexpr Schema schema{
      .name = "assume_shape",
      .inputs = kMoved,
      .outputs = kOut,
      .doc = "x, whose sizes are said to be those of a shape; a run checks it."};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    const Shape &have = in[0].shape(), &said = attrs.shape;
    if (have.rank() != said.rank()) {
      fail_shape(in, "the shape has " + std::to_string(said.rank()) + " axes, x has " +
                         std::to_string(have.rank()));
    }
    for (std::size_t i = 0; i < said.size(); ++i) {
      // Not a comparison: that would ask for what is said here.
      const Dim apart = said[i] - have[i];
      const auto low = detail::lower_bound(apart), high = detail::upper_bound(apart);
      if ((low && *low > 0) || (high && *high < 0)) {
        fail_shape(in, "axis " + std::to_string(i) + " of x has size " + to_string(have[i]) +
                           ", but must have " + to_string(said[i]));
      }
    }
    return {Type(in[0].dtype(), said)};
  }
  static ViewLayout view(const Attrs&, const Shape& have, const Strides& strides,
                         const Shape& said) {
    // A pass may have taken it out of the loop whose types the run checks.
    for (std::size_t i = 0; i < said.size(); ++i) {
      const bool known = have[i].is_number() && said[i].is_number();
      if (!known || have[i].number() == said[i].number()) continue;
      throw ShapeError("assume_shape: axis " + std::to_string(i) + " of x has size " +
                       to_string(have[i]) + ", but must have " + to_string(said[i]));
    }
    return {.shape = said, .strides = strides};
  }
  static Tensor write(const Attrs&, const Tensor& x, const Tensor& value, Loc loc) {
    return assume_shape(value, sizes_of(x, loc), loc);
  }
  static void grad(Gradient& g, const Attrs&) {
    g.set(0, assume_shape(g.grad(), g.input_shape(0)));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs&) { e.output(0, e.input(0)); }
};

/// A complex tensor is copied as its parts.
constexpr ArgInfo kCopied[] = {{"x", kEverything & ~kComplex}};

struct Clone {
  using Attrs = NoAttrs;
  static constexpr Schema schema{.name = "clone",
                                 .inputs = kCopied,
                                 .outputs = kOut,
                                 .doc = "A row-major copy.",
                                 .samples = {.edges = "0 -0 1 inf -inf nan"}};
  static Scalar eval(Scalar x) { return x; }
  static void grad(Gradient& g, const Attrs&) { g.set(0, g.grad()); }
  static void to_onnx(OnnxEmitter& e, const Attrs&) { e.output(0, e.input(0)); }
};

/// What contiguous() is where strides may be others when a recording runs again.
struct Contiguous {
  using Attrs = NoAttrs;
  static constexpr Schema schema{
      .name = "contiguous",
      .inputs = kMoved,
      .outputs = kOut,
      .doc = "x itself where it lies row-major without gaps, otherwise a copy that does.",
      .may_copy = true};
  static Types infer(const InferIn& in, const Attrs&) { return {in[0]}; }
  static ViewLayout view(const Attrs&, const Shape& in, const Strides& strides, const Shape&) {
    return {.shape = in, .strides = strides, .possible = is_contiguous(in, strides)};
  }
  static Tensor write(const Attrs&, const Tensor&, const Tensor& value, Loc) { return value; }
  static void grad(Gradient& g, const Attrs&) { g.set(0, g.grad()); }
  static void to_onnx(OnnxEmitter& e, const Attrs&) { e.output(0, e.input(0)); }
};

struct StopGradient {
  using Attrs = NoAttrs;
  static constexpr Schema schema{.name = "stop_gradient",
                                 .inputs = kMoved,
                                 .outputs = kOut,
                                 .doc = "x itself, as a constant to gradients.",
                                 .samples = {.differentiable = false}};
  static Types infer(const InferIn& in, const Attrs&) { return {in[0]}; }
  static ViewLayout view(const Attrs&, const Shape& in, const Strides& strides, const Shape&) {
    return {.shape = in, .strides = strides};
  }
  static Tensor write(const Attrs&, const Tensor&, const Tensor& value, Loc loc) {
    return apply<StopGradient>({}, loc, value);
  }
  static void to_onnx(OnnxEmitter& e, const Attrs&) { e.output(0, e.input(0)); }
};

}  // namespace

std::span<const OpInfo* const> views_rows() {
  static constexpr const OpInfo* kRows[] = {
      &op_info<Reshape>,      &op_info<Permute>, &op_info<Squeeze>,
      &op_info<Unsqueeze>,    &op_info<Expand>,  &op_info<AssumeShape>,
      &op_info<StopGradient>, &op_info<Clone>,   &op_info<Contiguous>,
  };
  return kRows;
}

}  // namespace ops

Tensor reshape(const Tensor& x, Sizes shape, Loc loc) {
  return apply<ops::Reshape>({.shape = std::move(shape)}, loc, x);
}
Tensor flatten(const Tensor& x, std::int64_t first, std::int64_t last, Loc loc) {
  const int rank = x.rank();
  if (rank == 0) return reshape(x, {1}, loc);
  const int begin = normalize_axis(first, rank, "flatten", loc);
  const int end = normalize_axis(last, rank, "flatten", loc);
  if (begin > end) {
    throw ValueError("flatten(" + type_string(x) + "): the first axis " + std::to_string(begin) +
                         " comes after the last axis " + std::to_string(end),
                     loc.user());
  }
  Shape shape;
  Dim joined = 1;
  for (int i = 0; i < rank; ++i) {
    const Dim size = x.size(i, loc);
    if (i < begin || i > end) {
      shape.push_back(size);
    } else {
      joined *= size;
      if (i == end) shape.push_back(joined);
    }
  }
  return reshape(x, shape, loc);
}
Tensor permute(const Tensor& x, Ints axes, Loc loc) {
  return apply<ops::Permute>({.axes = std::move(axes)}, loc, x);
}
Tensor transpose(const Tensor& x, std::int64_t a, std::int64_t b, Loc loc) {
  if (ops::is_of_scalar(a, x) && ops::is_of_scalar(b, x)) return permute(x, {}, loc);
  const int rank = x.rank();
  Ints axes;
  for (int i = 0; i < rank; ++i) axes.push_back(i);
  std::swap(axes[static_cast<std::size_t>(normalize_axis(a, rank, "transpose", loc))],
            axes[static_cast<std::size_t>(normalize_axis(b, rank, "transpose", loc))]);
  return permute(x, axes, loc);
}
Tensor squeeze(const Tensor& x, std::int64_t axis, Loc loc) {
  return apply<ops::Squeeze>({.axis = axis}, loc, x);
}
Tensor unsqueeze(const Tensor& x, std::int64_t axis, Loc loc) {
  return apply<ops::Unsqueeze>({.axis = axis}, loc, x);
}
Tensor expand(const Tensor& x, Sizes shape, Loc loc) {
  return apply<ops::Expand>({.shape = std::move(shape)}, loc, x);
}
Tensor assume_shape(const Tensor& x, Shape shape, Loc loc) {
  return apply<ops::AssumeShape>({.shape = std::move(shape)}, loc, x);
}
Tensor clone(const Tensor& x, Loc loc) {
  if (ops::is_complex(x)) return view_as_complex(clone(view_as_real(x, loc), loc), loc);
  return apply<ops::Clone>({}, loc, x);
}

void ops::ask_for_small_sizes(const Tensor& x, Loc loc) {
  if (Evaluator::is_eager()) return;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const Dim size = x.size(axis, loc);
    std::vector<Dim> symbols;
    collect_symbols(size, symbols);
    const bool computed = !symbols.empty() && !symbols[0].same_as(size);
    if (computed) static_cast<void>(size < 2);
  }
}

Tensor contiguous(const Tensor& x, Loc loc) {
  if (!x.is_concrete())
    return is_taken_for_contiguous(x) ? apply<ops::Contiguous>({}, loc, x) : clone(x, loc);
  const TensorImpl& impl = *x.impl();
  // On the tape too it is x itself or a copy: a node more would add up gradients in another order,
  // and a view that tracks them may not be written to.
  if (!Evaluator::is_eager() && !impl.requires_grad) return apply<ops::Contiguous>({}, loc, x);
  Evaluator::current().note_strides();
  ops::ask_for_small_sizes(x, loc);
  return impl.contiguous ? x : clone(x, loc);
}

Tensor detach(const Tensor& x, Loc loc) {
  // To a graph another tensor of the same memory is the same variable.
  const bool in_graph =
      x.tracks_grad() && dynamic_cast<const GraphEvaluator*>(&Evaluator::current()) != nullptr;
  if (!x.is_concrete() || in_graph) return apply<ops::StopGradient>({}, loc, x);
  auto alias = make_ref<TensorImpl>(*x.impl());
  alias->grad_meta = nullptr;
  alias->requires_grad = false;
  Tensor made(std::move(alias));
  if (!Evaluator::is_eager()) {
    if (auto* const notes = dynamic_cast<RecordingNotes*>(&Evaluator::current()))
      notes->note_detached(x, made);
  }
  return made;
}

}  // namespace dyad
