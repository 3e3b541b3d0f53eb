#include "dyad/ops/normalize.h"

#include <cmath>

#include "dyad/ops/arithmetic.h"
#include "dyad/ops/norm_support.h"
#include "dyad/ops/pooling.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/views.h"
#include "dyad/ops/window_support.h"

namespace dyad {
namespace ops {
namespace {

struct NormalizeAttrs {
  double p = 2;
  std::int64_t axis = 1;
  double eps = 1e-12;
};

struct Normalize {
  using Attrs = NormalizeAttrs;
  static constexpr Schema schema{.name = "normalize",
                                 .inputs = kUnaryFloat,
                                 .outputs = kOut,
                                 .doc = "x / max(p-norm of x along an axis, eps).",
                                 .batching = Batching::axes};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    (void)checked_axis(in, attrs.axis, in[0].rank());
    if (!(attrs.p > 0)) fail_value(in, "p must be above 0");
    return {in[0]};
  }
  static std::vector<Tensor> expand(const Attrs& attrs, TensorRefs given, Loc) {
    return inputs_in_f32(given, [&](TensorRefs in) -> std::vector<Tensor> {
      const Tensor& x = *in[0];
      return {x / maximum(norm(x, attrs), attrs.eps)};
    });
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    // ONNX leaves zeros as they are; only norms below eps differ.
    if ((attrs.p != 1 && attrs.p != 2) || attrs.eps > 1e-12) return e.parts();
    e.output(0, e.node("LpNormalization", {e.input_as(0, kOnnxImage)},
                       {{"axis", attrs.axis}, {"p", static_cast<std::int64_t>(attrs.p)}}));
  }

 private:
  static Tensor norm(const Tensor& x, const Attrs& attrs) {
    const Ints axes{attrs.axis};
    if (std::isinf(attrs.p)) return max(abs(x), axes, true);
    if (attrs.p == 1) return sum(abs(x), axes, true);
    if (attrs.p == 2) return sqrt(sum(square(x), axes, true));
    return pow(sum(pow(abs(x), attrs.p), axes, true), 1 / attrs.p);
  }
};

struct ResponseAttrs {
  std::int64_t size = 1;
  double alpha = 1e-4;
  double beta = 0.75;
  double k = 1;
};

struct LocalResponseNorm {
  using Attrs = ResponseAttrs;
  static constexpr Schema schema{
      .name = "local_response_norm",
      .inputs = kUnaryFloat,
      .outputs = kOut,
      .doc = "x / (k + alpha / size * sum of x^2 over `size` neighbouring channels)^beta."};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    if (in[0].rank() < 3) fail_shape(in, "x must be [n, c, ...] with spatial axes");
    if (attrs.size < 1) fail_value(in, "size must be 1 or more");
    return {in[0]};
  }
  static std::vector<Tensor> expand(const Attrs& attrs, TensorRefs given, Loc loc) {
    return inputs_in_f32(given, [&](TensorRefs in) -> std::vector<Tensor> {
      const Tensor& x = *in[0];
      const Shape sizes = sizes_of(x, loc);
      // The mean over windows of channels is a pool over an image of [channels, positions].
      const Tensor squares = reshape(square(x), {sizes[0], 1, sizes[1], -1});
      const Tensor means =
          avg_pool2d(squares, {attrs.size, 1}, 1, Ints{attrs.size / 2, 0, (attrs.size - 1) / 2, 0},
                     false, true, attrs.size, 1, loc);
      return {x * pow(reshape(means, sizes) * attrs.alpha + attrs.k, -attrs.beta)};
    });
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    // For even sizes ONNX's windows reach further up, not down; ONNX Runtime takes images only.
    if (attrs.size % 2 == 0 || e.input_type(0).rank() != 4) return e.parts();
    e.output(0, e.node("LRN", {e.input_as(0, kOnnxImage)},
                       {{"size", attrs.size},
                        {"alpha", static_cast<float>(attrs.alpha)},
                        {"beta", static_cast<float>(attrs.beta)},
                        {"bias", static_cast<float>(attrs.k)}}));
  }
};

struct MeanVarianceAttrs {
  Ints axes;
};

struct MeanVarianceNormalization {
  using Attrs = MeanVarianceAttrs;
  static constexpr Schema schema{.name = "mean_variance_normalization",
                                 .inputs = kUnaryFloat,
                                 .outputs = kOut,
                                 .doc = "(x - mean) / (sqrt(var) + 1e-9) over the axes.",
                                 .batching = Batching::axes};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    (void)checked_axes(in, attrs.axes, in[0].rank());
    return {in[0]};
  }
  static std::vector<Tensor> expand(const Attrs& attrs, TensorRefs given, Loc) {
    return inputs_in_f32(given, [&](TensorRefs in) -> std::vector<Tensor> {
      const Tensor& x = *in[0];
      const Tensor centered = x - mean(x, attrs.axes, true);
      const Tensor deviation = sqrt(mean(square(centered), attrs.axes, true));
      return {centered / (deviation + 1e-9)};
    });
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    // Its definition adds a number of f32.
    if (e.input_type(0).dtype() != DType::f32) return e.parts();
    e.output(0, e.node("MeanVarianceNormalization", {e.input_as(0, kOnnxImage)},
                       {{"axes", onnx_list(sorted_axes(attrs.axes, e.input_type(0).rank()))}}));
  }
};

}  // namespace

std::span<const OpInfo* const> normalize_rows() {
  static constexpr const OpInfo* kRows[] = {
      &op_info<Normalize>,
      &op_info<LocalResponseNorm>,
      &op_info<MeanVarianceNormalization>,
  };
  return kRows;
}

}  // namespace ops

Tensor normalize(const Tensor& x, double p, std::int64_t axis, double eps, Loc loc) {
  if (ops::is_of_scalar(axis, x)) {
    return ops::as_scalar(normalize(ops::as_vector(x, loc), p, axis, eps, loc), loc);
  }
  return apply<ops::Normalize>({.p = p, .axis = ops::normalized(axis, x), .eps = eps}, loc, x);
}
Tensor local_response_norm(const Tensor& x, std::int64_t size, double alpha, double beta, double k,
                           Loc loc) {
  return apply<ops::LocalResponseNorm>({.size = size, .alpha = alpha, .beta = beta, .k = k}, loc,
                                       x);
}
Tensor mean_variance_normalization(const Tensor& x, Ints axes, Loc loc) {
  const int rank = x.defined() ? x.rank() : 0;
  for (int i = 0; axes.empty() && i < rank; ++i) {
    for (int axis = 0; axis < rank; ++axis) {
      if (axis != 1) axes.push_back(axis);
    }
  }
  return apply<ops::MeanVarianceNormalization>({.axes = axes}, loc, x);
}

}  // namespace dyad
