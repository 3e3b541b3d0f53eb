#include "dyad/ops/network_onnx.h"

#include <algorithm>
#include <string>

#include "dyad/ir/onnx_node.h"
#include "dyad/ops/activation.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/conv.h"
#include "dyad/ops/conv_support.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/division.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/linalg.h"
#include "dyad/ops/norm.h"
#include "dyad/ops/normalize.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/pooling.h"
#include "dyad/ops/reduce.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/views.h"
#include "dyad/ops/window_support.h"

// What ONNX's operators of networks mean.

namespace dyad::ops {

Tensor read_gemm(OnnxNode& n) {
  Tensor a = n.input(0), b = n.input(1);
  if (n.flag("transA")) a = transpose(a, 0, 1, n.loc());
  if (n.flag("transB")) b = transpose(b, 0, 1, n.loc());
  const double alpha = n.number("alpha", 1), beta = n.number("beta", 1);
  Tensor product = matmul(a, b, n.loc());
  if (alpha != 1) product = mul(product, alpha, n.loc());
  if (n.has(2)) {
    const Tensor c = n.input(2);
    product = add(product, beta == 1 ? c : mul(c, beta, n.loc()), n.loc());
  }
  return product;
}

Tensor read_conv(OnnxNode& n) {
  const Tensor x = n.input(0), weight = n.input(1), bias = n.input(2);
  using Conv = Tensor (*)(const Tensor&, const Tensor&, const Tensor&, const PerAxis&,
                          const Padding&, const PerAxis&, std::int64_t, Loc);
  constexpr Conv kConvs[] = {conv1d, conv2d, conv3d};
  const int axes = x.rank() - 2;
  if (axes < 1 || axes > 3) n.fail("it has " + std::to_string(axes) + " spatial axes, not 1 to 3");
  return kConvs[axes - 1](x, weight, bias, n.integers("strides", {1}), padding_of(n),
                          n.integers("dilations", {1}), n.integer("group", 1), n.loc());
}

void read_layer_norm(OnnxNode& n, const Tensor& x, const Shape& sizes, const Tensor& weight,
                     const Tensor& bias, double eps) {
  const auto whole = [&](const Tensor& t) {
    return t.defined() ? expand(t, sizes, n.loc()) : Tensor();
  };
  n.output(0, layer_norm(x, whole(weight), whole(bias), eps, n.loc()));
  if (!n.wants(1) && !n.wants(2)) return;
  Ints axes;
  for (int i = x.rank() - sizes.rank(); i < x.rank(); ++i) axes.push_back(i);
  const Tensor wide = to(x, x.dtype() == f64 ? f64 : f32, n.loc());
  const Tensor average = mean(wide, axes, true, n.loc());
  if (n.wants(1)) n.output(1, average);
  if (n.wants(2)) {
    n.output(2, rsqrt(add(mean(square(sub(wide, average)), axes, true, n.loc()), eps), n.loc()));
  }
}

Shape normalized_sizes(OnnxNode& n, const Tensor& x) {
  Shape sizes;
  for (int i = from_front(n.integer("axis", -1), x.rank()); i < x.rank(); ++i) {
    sizes.push_back(x.size(i));
  }
  return sizes;
}

namespace {

/// What is cropped so that the result has the sizes that the node names; what is missing is added
/// to `extra`.
Ints pads_for(OnnxNode& n, const Tensor& x, const Tensor& weight, const Ints& sizes,
              const Ints& stride, const Ints& dilation, Ints& extra) {
  const std::size_t axes = sizes.size();
  const bool upper = n.text("auto_pad", "NOTSET") != "SAME_LOWER";
  Ints pads(2 * axes, 0);
  for (std::size_t i = 0; i < axes; ++i) {
    const auto at = static_cast<int>(i) + 2;
    const std::int64_t kernel = weight.size(at).value();
    const std::int64_t whole =
        stride[i] * (x.size(at).value() - 1) + extra[i] + (kernel - 1) * dilation[i] + 1;
    const std::int64_t total = std::max<std::int64_t>(0, whole - sizes[i]);
    extra[i] += std::max<std::int64_t>(0, sizes[i] - whole);
    pads[i] = upper ? total / 2 : total - total / 2;
    pads[axes + i] = total - pads[i];
  }
  return pads;
}

/// A convolution of each channel over itself and what came before: in `past`, or zeros.
void causal_conv(OnnxNode& n) {
  const Tensor x = n.input(0), weight = n.input(1);
  const std::string activation = n.text("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish") {
    n.fail("its activation is '" + activation + "'");
  }
  const Dim before = weight.size(2) - 1;
  const Tensor all = n.has(3) ? concat({n.input(3), x}, 2, n.loc())
                              : pad(x, {0, 0, before}, {0, 0, 0}, 0, n.loc());
  Tensor y = conv1d(all, weight, n.input(2), 1, 0, 1, x.size(1).value(n.loc()), n.loc());
  if (activation != "none") y = mul(y, sigmoid(y, n.loc()), n.loc());
  n.output(0, y);
  if (n.wants(1)) n.output(1, slice(all, 2, x.size(2), kEnd, 1, n.loc()));
}

void conv_transpose(OnnxNode& n) {
  const Tensor x = n.input(0), weight = n.input(1), bias = n.input(2);
  using Conv = Tensor (*)(const Tensor&, const Tensor&, const Tensor&, const PerAxis&,
                          const Padding&, const PerAxis&, std::int64_t, const PerAxis&, Loc);
  constexpr Conv kConvs[] = {conv_transpose1d, conv_transpose2d, conv_transpose3d};
  const int axes = x.rank() - 2;
  if (axes < 1 || axes > 3) n.fail("it has " + std::to_string(axes) + " spatial axes, not 1 to 3");
  const Ints ones(static_cast<std::size_t>(axes), 1), none(static_cast<std::size_t>(axes), 0);
  const Ints stride = n.integers("strides", ones), dilation = n.integers("dilations", ones);
  Ints extra = n.integers("output_padding", none);
  Padding padding = padding_of(n);
  if (n.has_attribute("output_shape")) {
    Ints sizes = n.integers("output_shape", {});
    while (sizes.size() > ones.size()) sizes.erase(0);
    for (const Ints& numbers : {sizes, stride, dilation, extra}) {
      if (numbers.size() == ones.size()) continue;
      n.fail("output_shape, strides, dilations and output_padding must fit the " +
             std::to_string(axes) + " spatial axes of its input");
    }
    padding = pads_for(n, x, weight, sizes, stride, dilation, extra);
  }
  n.output(0, kConvs[axes - 1](x, weight, bias, stride, padding, extra, n.integer("group", 1),
                               dilation, n.loc()));
}

/// Positions in a plane of x, which count row by row, counted with the first axis as the fastest.
Tensor column_by_column(const Tensor& x, Tensor positions, Loc loc) {
  Dim stride = 1;
  Shape strides;
  for (int i = 2; i < x.rank(); ++i) {
    strides.push_back(stride);
    stride = stride * x.size(i);
  }
  Tensor moved;
  for (int i = x.rank() - 1; i >= 2; --i) {
    const Arg size = size_arg(x.size(i), loc);
    const Tensor term = mul(remainder(positions, size, loc),
                            size_arg(strides[static_cast<std::size_t>(i - 2)], loc), loc);
    moved = moved.defined() ? add(moved, term, loc) : term;
    positions = floor_divide(positions, size, loc);
  }
  return moved;
}

void max_pool(OnnxNode& n) {
  const Tensor x = n.input(0);
  const auto [values, positions] = max_pool_with_indices(
      x, n.integers("kernel_shape", {}), n.integers("strides", {1}), padding_of(n),
      n.integers("dilations", {1}), n.flag("ceil_mode"), n.loc());
  n.output(0, values);
  if (!n.wants(1)) return;
  // ONNX numbers positions over the whole tensor.
  Dim plane = 1;
  for (int i = 2; i < x.rank(); ++i) plane = plane * x.size(i);
  const Tensor in_plane =
      n.flag("storage_order") ? column_by_column(x, positions, n.loc()) : positions;
  Shape planes{x.size(0), x.size(1)};
  for (int i = 2; i < x.rank(); ++i) planes.push_back(1);
  const Tensor before = mul(arange(x.size(0) * x.size(1), i64, n.loc()), size_tensor(plane));
  n.output(1, add(in_plane, reshape(before, planes, n.loc()), n.loc()));
}

void average_pool(OnnxNode& n) {
  const Tensor x = n.input(0);
  using Pool = Tensor (*)(const Tensor&, const PerAxis&, const PerAxis&, const Padding&, bool, bool,
                          std::int64_t, const PerAxis&, Loc);
  constexpr Pool kPools[] = {avg_pool1d, avg_pool2d, avg_pool3d};
  const int axes = x.rank() - 2;
  if (axes < 1 || axes > 3) n.fail("it has " + std::to_string(axes) + " spatial axes, not 1 to 3");
  n.output(0, kPools[axes - 1](x, n.integers("kernel_shape", {}), n.integers("strides", {1}),
                               padding_of(n), n.flag("ceil_mode"), n.flag("count_include_pad"), 0,
                               n.integers("dilations", {1}), n.loc()));
}

void lp_pooling(OnnxNode& n) {
  const Tensor x = n.input(0);
  const auto p = static_cast<double>(n.integer("p", 2));
  n.output(0, lp_pool(x, p, n.integers("kernel_shape", {}), n.integers("strides", {1}),
                      padding_of(n), n.flag("ceil_mode"), n.integers("dilations", {1}), n.loc()));
}

void layer_normalization(OnnxNode& n) {
  const Tensor x = n.input(0);
  read_layer_norm(n, x, normalized_sizes(n, x), n.input(1), n.input(2), n.number("epsilon", 1e-5));
}

void rms_normalization(OnnxNode& n) {
  const Tensor x = n.input(0);
  n.output(0, rms_norm(x, expand(n.input(1), normalized_sizes(n, x), n.loc()),
                       n.number("epsilon", 1e-5), n.loc()));
}

/// Scale and bias of version 18 are for each group, those of version 21 for each channel.
void group_normalization(OnnxNode& n, bool of_groups) {
  const Tensor x = n.input(0);
  const std::int64_t groups = n.integer("num_groups", 1);
  const auto of_channels = [&](const Tensor& t) {
    if (!of_groups) return t;
    const Dim each = x.size(1) / groups;
    return reshape(expand(unsqueeze(t, 1), {groups, each}), {x.size(1)}, n.loc());
  };
  n.output(0, group_norm(x, groups, of_channels(n.input(1)), of_channels(n.input(2)),
                         n.number("epsilon", 1e-5), n.loc()));
}

void lp_normalization(OnnxNode& n) {
  n.output(0, normalize(n.input(0), static_cast<double>(n.integer("p", 2)), n.integer("axis", -1),
                        1e-30, n.loc()));
}

void response_normalization(OnnxNode& n) {
  n.output(0, local_response_norm(n.input(0), n.integer("size", 1), n.number("alpha", 1e-4),
                                  n.number("beta", 0.75), n.number("bias", 1), n.loc()));
}

void batch_normalization(OnnxNode& n) {
  if (n.flag("training_mode")) {
    const Tensor mean = n.input(3), var = n.input(4);
    const double momentum = n.number("momentum", 0.9);
    const auto [y, batch_mean, batch_var] =
        batch_norm_train(n.input(0), n.input(1), n.input(2), n.number("epsilon", 1e-5), n.loc());
    n.output(0, y);
    const auto moved = [&](const Tensor& running, const Tensor& batch) {
      const Tensor rest = mul(to(running, batch.dtype()), momentum);
      return to(add(rest, mul(batch, 1 - momentum)), running.dtype());
    };
    if (n.wants(1)) n.output(1, moved(mean, batch_mean));
    if (n.wants(2)) n.output(2, moved(var, batch_var));
    return;
  }
  n.output(0, batch_norm(n.input(0), n.input(1), n.input(2), n.input(3), n.input(4),
                         n.number("epsilon", 1e-5), n.loc()));
}

/// Before version 9 statistics may be for each element; before 7 a flag tells inference.
void batch_normalization_by_flags(OnnxNode& n) {
  if (!n.flag("spatial", true)) n.fail("its statistics are for each element of a channel");
  if (n.version() < 7 && !n.flag("is_test")) n.fail("it trains; models are run as in inference");
  batch_normalization(n);
}

}  // namespace

std::span<const OnnxRule> network_onnx_rules() {
  static constexpr OnnxRule kRules[] = {
      {"MatMul", 1, [](OnnxNode& n) { n.output(0, matmul(n.input(0), n.input(1), n.loc())); }},
      {"Gemm", 1, [](OnnxNode& n) { n.output(0, read_gemm(n)); }},
      {"BatchNormalization", 1, batch_normalization_by_flags},
      {"BatchNormalization", 9, batch_normalization},
      {"Conv", 1, [](OnnxNode& n) { n.output(0, read_conv(n)); }},
      {"CausalConvWithState", 27, causal_conv},
      {"ConvTranspose", 1, conv_transpose},
      {"MaxPool", 1, max_pool},
      {"AveragePool", 1, average_pool},
      {"LpPool", 2, lp_pooling},
      {"GlobalAveragePool", 1, onnx_unary<global_avg_pool>},
      {"GlobalMaxPool", 1, onnx_unary<global_max_pool>},
      {"GlobalLpPool", 2,
       [](OnnxNode& n) {
         n.output(0, global_lp_pool(n.input(0), static_cast<double>(n.integer("p", 2)), n.loc()));
       }},
      // ONNX Runtime writes it into models of earlier versions too.
      {"LayerNormalization", 1, layer_normalization},
      {"RMSNormalization", 23, rms_normalization},
      {"GroupNormalization", 18, [](OnnxNode& n) { group_normalization(n, true); }},
      {"GroupNormalization", 21, [](OnnxNode& n) { group_normalization(n, false); }},
      {"InstanceNormalization", 6,
       [](OnnxNode& n) {
         n.output(0, instance_norm(n.input(0), n.input(1), n.input(2), n.number("epsilon", 1e-5),
                                   n.loc()));
       }},
      {"LpNormalization", 1, lp_normalization},
      {"LRN", 1, response_normalization},
      {"MeanVarianceNormalization", 9,
       [](OnnxNode& n) {
         n.output(0,
                  mean_variance_normalization(n.input(0), n.integers("axes", {0, 2, 3}), n.loc()));
       }},
  };
  return kRules;
}

Padding padding_of(OnnxNode& n) {
  const std::string by_name = n.text("auto_pad", "NOTSET");
  if (by_name == "SAME_UPPER") return "same_upper";
  if (by_name == "SAME_LOWER") return "same_lower";
  if (by_name == "VALID") return "valid";
  return n.integers("pads", {0});
}

}  // namespace dyad::ops
