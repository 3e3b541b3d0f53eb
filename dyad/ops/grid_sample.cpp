#include "dyad/ops/grid_sample.h"

#include "dyad/ops/arithmetic.h"
#include "dyad/ops/attrs/resample.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/linalg.h"
#include "dyad/ops/reduce.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/views.h"
#include "dyad/ops/window_support.h"

namespace dyad {
namespace ops {
namespace {

constexpr ArgInfo kXAndGrid[] = {{"x", kFloat}, {"grid", kFloat}};
constexpr ArgInfo kGradAndGrid[] = {{"grad", kFloat}, {"grid", kFloat}};
constexpr ArgInfo kGradXAndGrid[] = {{"grad", kFloat}, {"x", kFloat}, {"grid", kFloat}};

GridSampleTransposeAttrs transpose_attrs(const GridSampleAttrs& a, const Shape& shape) {
  return {a.mode, a.padding, a.align_corners, a.derivative, shape};
}
GridSampleAttrs sample_attrs(const GridSampleTransposeAttrs& a) {
  return {a.mode, a.padding, a.align_corners, a.derivative};
}

/// Checks the attributes and the operands (an image of that shape, and the grid), and gives the
/// shape of the samples.
template <class A>
Shape sampled_shape(const InferIn& in, const Shape& image, const Shape& grid, const A& attrs) {
  require_one_dtype(in);
  if (image.rank() != 4 && image.rank() != 5) {
    fail_shape(in, "x must be [n, c, h, w] or [n, c, d, h, w] but has " +
                       std::to_string(image.rank()) + " axes");
  }
  const int axes = image.rank() - 2;
  if (grid.rank() != image.rank() || !(grid.back() == Dim(axes))) {
    fail_shape(in, "grid must have " + std::to_string(image.rank()) + " axes, the last of size " +
                       std::to_string(axes) + ", but is " + to_string(grid));
  }
  if (!(grid[0] == image[0])) {
    fail_shape(in, "x has " + to_string(image[0]) + " samples but grid " + to_string(grid[0]));
  }
  if (attrs.mode != "bilinear" && attrs.mode != "nearest" && attrs.mode != "bicubic") {
    fail_value(in, "mode must be \"bilinear\", \"nearest\" or \"bicubic\"");
  }
  if (attrs.mode == "bicubic" && axes == 3) {
    fail_value(in, "mode \"bicubic\" is for images of 2 spatial axes; \"bilinear\" takes 3");
  }
  if (attrs.padding != "zeros" && attrs.padding != "border" && attrs.padding != "reflection") {
    fail_value(in, "padding must be \"zeros\", \"border\" or \"reflection\"");
  }
  for (const std::int64_t order : attrs.derivative) {
    if (order < 0 || attrs.derivative.size() != static_cast<std::size_t>(axes)) {
      fail_value(in, "derivative must have one order from 0 for each spatial axis");
    }
  }
  for (std::size_t i = 2; i < image.size(); ++i) {
    if (image[i].is_number() && image[i].number() == 0) {
      fail_shape(in, "x is empty along axis " + std::to_string(i));
    }
  }
  Shape shape{image[0], image[1]};
  for (std::size_t i = 1; i + 1 < grid.size(); ++i) shape.push_back(grid[i]);
  return shape;
}

struct GridSample {
  using Attrs = GridSampleAttrs;
  static constexpr Schema schema{
      .name = "grid_sample",
      .inputs = kXAndGrid,
      .outputs = kOut,
      .doc = "x[n, c, ...] between its elements, at the positions that grid gives.",
      .saved_inputs = kFirst | kSecond,
      .batching = Batching::all_samples};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    return {Type(in[0].dtype(), sampled_shape(in, in[0].shape(), in[1].shape(), attrs))};
  }
  static void grad(Gradient& g, const Attrs& attrs);
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    if (!attrs.derivative.empty()) e.fail("ONNX has no derivatives of GridSample");
    const bool volume = e.input_type(0).rank() == 5;
    if (volume && e.opset() < 20) e.fail("GridSample takes 3 spatial axes from opset 20 on");
    const std::string mode = e.opset() >= 20 && attrs.mode == "bilinear"  ? "linear"
                             : e.opset() >= 20 && attrs.mode == "bicubic" ? "cubic"
                                                                          : attrs.mode;
    e.output(0, e.node("GridSample", {e.input_as(0, kOnnxImage), e.input_as(1, kOnnxImage)},
                       {{"mode", mode},
                        {"padding_mode", attrs.padding},
                        {"align_corners", std::int64_t{attrs.align_corners}}}));
  }
};

struct GridSampleTranspose {
  using Attrs = GridSampleTransposeAttrs;
  static constexpr Schema schema{.name = "grid_sample_transpose",
                                 .inputs = kGradAndGrid,
                                 .outputs = kOut,
                                 .doc = "The gradient of grid_sample with regard to x.",
                                 .saved_inputs = kFirst | kSecond};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    require_shape(in, sampled_shape(in, attrs.shape, in[1].shape(), attrs));
    return {Type(in[0].dtype(), attrs.shape)};
  }
  static void grad(Gradient& g, const Attrs& attrs);
};

struct GridSampleGridBackward {
  using Attrs = GridSampleAttrs;
  static constexpr Schema schema{.name = "grid_sample_grid_backward",
                                 .inputs = kGradXAndGrid,
                                 .outputs = kOut,
                                 .doc = "The gradient of grid_sample with regard to grid.",
                                 .saved_inputs = kFirst | kSecond | kThird,
                                 .batching = Batching::all_samples};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    require_shape(in, sampled_shape(in, in[1].shape(), in[2].shape(), attrs));
    return {Type(in[0].dtype(), in[2].shape())};
  }
  static void grad(Gradient& g, const Attrs& attrs);
};

/// The gradient of sum(weight * grid_sample(x, grid)) by grid.
Tensor grid_grad(const Tensor& weight, const Tensor& x, const Tensor& grid,
                 const GridSampleAttrs& attrs) {
  return apply<GridSampleGridBackward>(attrs, {}, weight, x, grid);
}

void GridSample::grad(Gradient& g, const Attrs& attrs) {
  if (g.needs(0)) {
    g.set(0, apply<GridSampleTranspose>(transpose_attrs(attrs, g.input_shape(0)), {}, g.grad(),
                                        g.input(1)));
  }
  if (g.needs(1) && attrs.mode != "nearest") {
    g.set(1, grid_grad(g.grad(), g.input(0), g.input(1), attrs));
  }
}

// sum(grad' * transpose(grad)) = sum(grad * sample(grad')).
void GridSampleTranspose::grad(Gradient& g, const Attrs& attrs) {
  if (g.needs(0)) g.set(0, apply<GridSample>(sample_attrs(attrs), {}, g.grad(), g.input(1)));
  if (g.needs(1) && attrs.mode != "nearest") {
    g.set(1, grid_grad(g.input(0), g.grad(), g.input(1), sample_attrs(attrs)));
  }
}

// For each coordinate: grad times the derivative of the samples by it, times what comes back for
// it.
void GridSampleGridBackward::grad(Gradient& g, const Attrs& attrs) {
  const Tensor upper = widened(g.grad()), grad = widened(g.input(0));
  const Tensor x = widened(g.input(1)), grid = widened(g.input(2));
  Tensor of_grad, of_x, of_grid;
  const auto add = [](Tensor& sum, const Tensor& part) { sum = sum.defined() ? sum + part : part; };
  const int axes = g.input_shape(1).rank() - 2;
  for (int i = 0; i < axes; ++i) {
    GridSampleAttrs along = attrs;
    along.derivative.resize(static_cast<std::size_t>(axes), 0);
    ++along.derivative[static_cast<std::size_t>(i)];
    const Tensor part = unsqueeze(select(upper, -1, i), 1);
    if (g.needs(0)) add(of_grad, part * apply<GridSample>(along, {}, x, grid));
    if (!g.needs(1) && !g.needs(2)) continue;
    const Tensor weight = grad * part;
    if (g.needs(1)) {
      add(of_x,
          apply<GridSampleTranspose>(transpose_attrs(along, g.input_shape(1)), {}, weight, grid));
    }
    if (g.needs(2)) add(of_grid, grid_grad(weight, x, grid, along));
  }
  if (g.needs(0)) g.set(0, of_grad);
  if (g.needs(1)) g.set(1, of_x);
  if (g.needs(2)) g.set(2, of_grid);
}

// --- affine --------------------------------------------------------------------------------------

constexpr ArgInfo kTheta[] = {{"theta", kFloat}};

struct AffineGridAttrs {
  Shape size;
  bool align_corners = false;
};

struct AffineGrid {
  using Attrs = AffineGridAttrs;
  static constexpr Schema schema{.name = "affine_grid",
                                 .inputs = kTheta,
                                 .outputs = kOut,
                                 .doc = "Where theta maps the positions of an image of `size` to."};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    const Shape& theta = in[0].shape();
    const int axes = attrs.size.rank() - 2;
    if (axes != 2 && axes != 3) fail_value(in, "size must be [n, c, h, w] or [n, c, d, h, w]");
    if (theta.rank() != 3 || !(theta[0] == attrs.size[0]) || !(theta[1] == Dim(axes)) ||
        !(theta[2] == Dim(axes + 1))) {
      fail_shape(in, "theta must be [" + to_string(attrs.size[0]) + ", " + std::to_string(axes) +
                         ", " + std::to_string(axes + 1) + "] but is " + to_string(theta));
    }
    Shape shape{attrs.size[0]};
    for (std::size_t i = 2; i < attrs.size.size(); ++i) shape.push_back(attrs.size[i]);
    shape.push_back(axes);
    return {Type(in[0].dtype(), shape)};
  }
  static std::vector<Tensor> expand(const Attrs& attrs, TensorRefs given, Loc loc) {
    return inputs_in_f32(given, [&](TensorRefs in) -> std::vector<Tensor> {
      const Tensor& theta = *in[0];
      const std::size_t axes = attrs.size.size() - 2;
      Shape image;
      for (std::size_t i = 0; i < axes; ++i) image.push_back(attrs.size[i + 2]);
      std::vector<Tensor> columns;  // x, y(, z), 1 for each position
      for (std::size_t i = axes; i-- > 0;) {
        Shape line(axes, 1);
        line[i] = image[i];
        const Tensor along =
            reshape(positions(image[i], attrs.align_corners, theta.dtype(), loc), line);
        columns.push_back(dyad::expand(along, image));
      }
      columns.push_back(ones(image, theta.dtype(), loc));
      const Tensor base = reshape(stack(columns, -1), {-1, static_cast<std::int64_t>(axes) + 1});
      Shape shape{attrs.size[0]};
      for (const Dim side : image) shape.push_back(side);
      shape.push_back(static_cast<std::int64_t>(axes));
      return {reshape(matmul(base, transpose(theta, 1, 2)), shape)};
    });
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    // The one position of a side of size 1 is its middle, in ONNX its begin.
    bool single = e.opset() < 20;
    for (std::size_t i = 2; attrs.align_corners && i < attrs.size.size(); ++i) {
      single = single || attrs.size[i].is_symbolic() || attrs.size[i].number() == 1;
    }
    if (single) return e.parts();
    e.output(0, e.node("AffineGrid", {e.input_as(0, kOnnxImage), e.shape(attrs.size)},
                       {{"align_corners", std::int64_t{attrs.align_corners}}}));
  }

 private:
  /// The middles of n elements between -1 and 1.
  static Tensor positions(Dim n, bool align_corners, DType dtype, Loc loc) {
    const Tensor i = arange(n, dtype, loc);
    const Arg count = size_arg(n, loc);
    if (!align_corners) return (i * 2 + 1) / count - 1;
    return (i * 2 - size_arg(n - 1, loc)) / size_arg(max(n - 1, 1), loc);
  }
};

}  // namespace

std::span<const OpInfo* const> grid_sample_rows() {
  static constexpr const OpInfo* kRows[] = {&op_info<GridSample>, &op_info<GridSampleTranspose>,
                                            &op_info<GridSampleGridBackward>, &op_info<AffineGrid>};
  return kRows;
}

}  // namespace ops

Tensor grid_sample(const Tensor& x, const Tensor& grid, const std::string& mode,
                   const std::string& padding, bool align_corners, Loc loc) {
  ops::GridSampleAttrs attrs;
  attrs.mode = mode;
  attrs.padding = padding;
  attrs.align_corners = align_corners;
  return apply<ops::GridSample>(attrs, loc, x, grid);
}
Tensor affine_grid(const Tensor& theta, const Shape& size, bool align_corners, Loc loc) {
  return apply<ops::AffineGrid>({.size = size, .align_corners = align_corners}, loc, theta);
}

}  // namespace dyad
