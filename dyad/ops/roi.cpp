#include "dyad/ops/roi.h"

#include "dyad/ops/attrs/resample.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/views.h"
#include "dyad/ops/window_support.h"

namespace dyad {
namespace ops {
namespace {

constexpr ArgInfo kRegionInputs[] = {{"x", kFloat}, {"rois", kFloat}, {"batch_indices", kIndex}};
constexpr ArgInfo kPoolInputs[] = {{"x", kFloat}, {"rois", kFloat}};
constexpr ArgInfo kTakeInputs[] = {
    {"values", kFloat}, {"x", kFloat}, {"rois", kFloat}, {"batch_indices", kIndex}};
constexpr ArgInfo kTakeBackwardInputs[] = {
    {"grad", kFloat}, {"x", kFloat}, {"rois", kFloat}, {"batch_indices", kIndex}};

/// Checks x, rois and indices, which begin at input `i`, and gives the shape of the regions.
Shape regions_shape(const InferIn& in, std::size_t i, const RoiAttrs& attrs) {
  require_image(in, i, 2);
  const Shape &rois = in[i + 1].shape(), &index = in[i + 2].shape();
  if (rois.rank() != 2 || !(rois[1] == Dim(4))) {
    fail_shape(in, "rois must be [k, 4] but is " + to_string(rois));
  }
  if (index.rank() != 1 || !(index[0] == rois[0])) {
    fail_shape(in, "batch_indices must be [" + to_string(rois[0]) +
                       "], one for each of rois, but is " + to_string(index));
  }
  if (attrs.height < 1 || attrs.width < 1) fail_value(in, "height and width must be 1 or more");
  if (attrs.sampling_ratio < 0) fail_value(in, "sampling_ratio must be 0 or more");
  if (attrs.mode != "avg" && attrs.mode != "max" && attrs.mode != "bins") {
    fail_value(in, "mode must be \"avg\", \"max\" or \"bins\"");
  }
  return {rois[0], in[i].shape()[1], attrs.height, attrs.width};
}

void require_same_dtype(const InferIn& in) {
  if (in[0].dtype() == in[1].dtype()) return;
  fail_dtype(in,
             std::string(in.op.inputs[0].name) + " must have the dtype of x; convert it with to()");
}

struct RoiTake {
  using Attrs = RoiAttrs;
  static constexpr Schema schema{
      .name = "roi_take",
      .inputs = kTakeInputs,
      .outputs = kOut,
      .doc = "Regions of values; where the mode takes a largest element, it is that of x.",
      .saved_inputs = kSecond | kThird | kFourth,
      .checks = kThird | kFourth};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    require_same_dtype(in);
    require_image(in, 0, 2);
    require_shape(in, in[1].shape());
    return {Type(in[0].dtype(), regions_shape(in, 1, attrs))};
  }
  static void grad(Gradient& g, const Attrs& attrs);
};

struct RoiTakeBackward {
  using Attrs = RoiAttrs;
  static constexpr Schema schema{.name = "roi_take_backward",
                                 .inputs = kTakeBackwardInputs,
                                 .outputs = kOut,
                                 .doc = "The gradient of roi_take with regard to values.",
                                 .saved_inputs = kSecond | kThird | kFourth};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    require_same_dtype(in);
    require_shape(in, regions_shape(in, 1, attrs));
    return {in[1]};
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    g.set(0, apply<RoiTake>(attrs, {}, g.grad(), g.input(1), g.input(2), g.input(3)));
  }
};

void RoiTake::grad(Gradient& g, const Attrs& attrs) {
  if (!g.needs(0)) return;
  g.set(0, apply<RoiTakeBackward>(attrs, {}, g.grad(), g.input(1), g.input(2), g.input(3)));
}

struct RoiAlign {
  using Attrs = RoiAttrs;
  static constexpr Schema schema{
      .name = "roi_align",
      .inputs = kRegionInputs,
      .outputs = kOut,
      .doc = "Regions of images x[n, c, h, w] as images of one size, read between the elements."};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    return {Type(in[0].dtype(), regions_shape(in, 0, attrs))};
  }
  static std::vector<Tensor> expand(const Attrs& attrs, TensorRefs in, Loc loc) {
    return {apply<RoiTake>(attrs, loc, *in[0], *in[0], *in[1], *in[2])};
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    const std::string x = e.input_as(0, kOnnxImage);
    const DType dtype =
        e.input_type(0).dtype() == DType::bf16 ? DType::f32 : e.input_type(0).dtype();
    e.output(0, e.node("RoiAlign", {x, e.cast(e.input(1), dtype), e.cast(e.input(2), DType::i64)},
                       {{"mode", attrs.mode},
                        {"output_height", attrs.height},
                        {"output_width", attrs.width},
                        {"sampling_ratio", attrs.sampling_ratio},
                        {"spatial_scale", static_cast<float>(attrs.spatial_scale)},
                        {"coordinate_transformation_mode",
                         std::string(attrs.half_pixel ? "half_pixel" : "output_half_pixel")}}));
  }
};

struct MaxRoiPoolAttrs {
  std::int64_t height = 1;
  std::int64_t width = 1;
  double spatial_scale = 1;
};

struct MaxRoiPool {
  using Attrs = MaxRoiPoolAttrs;
  static constexpr Schema schema{
      .name = "max_roi_pool",
      .inputs = kPoolInputs,
      .outputs = kOut,
      .doc = "The largest element of each bin of regions of images x[n, c, h, w]."};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    require_image(in, 0, 2);
    const Shape& rois = in[1].shape();
    if (rois.rank() != 2 || !(rois[1] == Dim(5))) {
      fail_shape(in, "rois must be [k, 5] but is " + to_string(rois));
    }
    if (attrs.height < 1 || attrs.width < 1) fail_value(in, "height and width must be 1 or more");
    return {Type(in[0].dtype(), {rois[0], in[0].shape()[1], attrs.height, attrs.width})};
  }
  static std::vector<Tensor> expand(const Attrs& a, TensorRefs in, Loc loc) {
    const Tensor &x = *in[0], &rois = *in[1];
    const RoiAttrs attrs{
        .mode = "bins", .height = a.height, .width = a.width, .spatial_scale = a.spatial_scale};
    return {apply<RoiTake>(attrs, loc, x, x, slice(rois, 1, 1), to(select(rois, 1, 0), i64))};
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    const std::string x = e.input_as(0, kOnnxImage);
    const DType dtype =
        e.input_type(0).dtype() == DType::bf16 ? DType::f32 : e.input_type(0).dtype();
    e.output(0, e.node("MaxRoiPool", {x, e.cast(e.input(1), dtype)},
                       {{"pooled_shape", std::vector<std::int64_t>{attrs.height, attrs.width}},
                        {"spatial_scale", static_cast<float>(attrs.spatial_scale)}}));
  }
};

constexpr ArgInfo kBoxesAndScores[] = {{"boxes", kFloat}, {"scores", kFloat}};

struct NonMaxSuppression {
  using Attrs = NmsAttrs;
  static constexpr Schema schema{
      .name = "non_max_suppression",
      .inputs = kBoxesAndScores,
      .outputs = kIndexOut,
      .doc =
          "Which boxes stay, best score first, when none may overlap one taken before by more "
          "than a threshold: image, class and box of each.",
      .samples = {.differentiable = false}};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    require_one_dtype(in);
    const Shape &boxes = in[0].shape(), &scores = in[1].shape();
    if (boxes.rank() != 3 || !(boxes[2] == Dim(4))) {
      fail_shape(in, "boxes must be [n, boxes, 4] but is " + to_string(boxes));
    }
    if (scores.rank() != 3 || !(scores[0] == boxes[0]) || !(scores[2] == boxes[1])) {
      fail_shape(in, "scores must be [" + to_string(boxes[0]) + ", classes, " +
                         to_string(boxes[1]) + "] but is " + to_string(scores));
    }
    if (!(attrs.iou_threshold >= 0 && attrs.iou_threshold <= 1)) {
      fail_value(in, "iou_threshold must be from 0 to 1");
    }
    return {Type(DType::i64, {unknown_size(), 3})};
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    const std::int64_t most[] = {attrs.max_per_class};
    std::vector<std::string> inputs{e.cast(e.input(0), DType::f32), e.cast(e.input(1), DType::f32),
                                    e.constant_i64(most),
                                    e.scalar(attrs.iou_threshold, DType::f32)};
    if (attrs.score_threshold > -std::numeric_limits<double>::infinity()) {
      inputs.push_back(e.scalar(attrs.score_threshold, DType::f32));
    }
    e.output(0, e.node_multi("NonMaxSuppression", inputs,
                             {{"center_point_box", std::int64_t{attrs.center_point}}}, 1)[0]);
  }
};

}  // namespace

std::span<const OpInfo* const> roi_rows() {
  static constexpr const OpInfo* kRows[] = {&op_info<RoiAlign>, &op_info<MaxRoiPool>,
                                            &op_info<RoiTake>, &op_info<RoiTakeBackward>,
                                            &op_info<NonMaxSuppression>};
  return kRows;
}

}  // namespace ops

Tensor roi_align(const Tensor& x, const Tensor& rois, const Tensor& batch_indices,
                 std::int64_t height, std::int64_t width, const RoiAlignOptions& options, Loc loc) {
  const LocScope called(loc, "roi_align");
  return apply<ops::RoiAlign>({.mode = options.max ? "max" : "avg",
                               .height = height,
                               .width = width,
                               .sampling_ratio = options.sampling_ratio,
                               .spatial_scale = options.spatial_scale,
                               .half_pixel = options.half_pixel},
                              loc, x, rois, batch_indices);
}
Tensor max_roi_pool(const Tensor& x, const Tensor& rois, std::int64_t height, std::int64_t width,
                    double spatial_scale, Loc loc) {
  return apply<ops::MaxRoiPool>({height, width, spatial_scale}, loc, x, rois);
}
Tensor non_max_suppression(const Tensor& boxes, const Tensor& scores, const NmsOptions& options,
                           Loc loc) {
  return apply<ops::NonMaxSuppression>({.max_per_class = options.max_per_class,
                                        .iou_threshold = options.iou_threshold,
                                        .score_threshold = options.score_threshold,
                                        .center_point = options.center_point},
                                       loc, boxes, scores);
}

Tensor center_crop_pad(const Tensor& x, const Shape& sizes, Ints axes, Loc loc) {
  const int rank = x.defined() ? x.rank() : 0;
  for (int i = 0; axes.empty() && i < rank; ++i) axes = ops::sorted_axes({}, rank);
  if (axes.size() != sizes.size()) {
    throw ValueError("center_crop_pad: sizes must have one number for each of the " +
                         std::to_string(axes.size()) + " axes, not " + std::to_string(sizes.size()),
                     loc.user());
  }
  Shape low(static_cast<std::size_t>(rank), 0), high = low;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis =
        static_cast<std::size_t>(normalize_axis(axes[i], rank, "center_crop_pad", loc));
    const Dim from = x.size(static_cast<std::int64_t>(axis), loc), more = sizes[i] - from;
    low[axis] = max(more, 0) / 2 - max(-more, 0) / 2;
    high[axis] = more - low[axis];
  }
  return pad(x, low, high, 0, loc);
}

}  // namespace dyad
