#include "dyad/runtime/cpu/conv.h"

#include "dyad/core/tensor_impl.h"
#include "dyad/ops/attrs/nn.h"
#include "dyad/runtime/cpu/cast.h"
#include "dyad/runtime/cpu/copy.h"
#include "dyad/runtime/cpu/element.h"
#include "dyad/runtime/cpu/kernels.h"
#include "dyad/runtime/layout.h"

namespace dyad::runtime::cpu {

Tensor with_three_axes(const Tensor& image) {
  const TensorImpl& t = *image.impl();
  if (t.shape.size() == 5) return image;
  Shape shape{t.shape[0], t.shape[1]};
  Strides strides{t.strides[0], t.strides[1]};
  for (std::size_t i = t.shape.size(); i < 5; ++i) {
    shape.push_back(1);
    strides.push_back(0);
  }
  for (std::size_t i = 2; i < t.shape.size(); ++i) {
    shape.push_back(t.shape[i]);
    strides.push_back(t.strides[i]);
  }
  return make_view(image, shape, strides, 0);
}

Tensor channels_last(const Tensor& image) {
  const TensorImpl& t = *image.impl();
  const Strides wanted = channels_last_strides(t.shape.numbers());
  bool matches = true;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    matches = matches && (t.shape[i].number() == 1 || t.strides[i] == wanted[i]);
  }
  if (matches) return image;
  Tensor copy = make_empty_strided(t.dtype, t.shape, wanted);
  copy_tensor(image, copy);
  return copy;
}

bool runs_by_planes(const Tensor& image, std::int64_t channels, std::int64_t groups) {
  const TensorImpl& t = *image.impl();
  return groups > 1 && groups == channels && t.shape.size() <= 4 &&
         is_contiguous(t.shape, t.strides);
}

namespace {

std::span<const std::int64_t> sizes_of(const Tensor& t) { return t.impl()->shape.numbers(); }

/// `x`, `weight` and `out` have five axes.
template <class Attrs>
ConvShape describe(const Attrs& a, const Tensor& x, const Tensor& weight, const Tensor& out) {
  const auto xs = sizes_of(x), ws = sizes_of(weight), ys = sizes_of(out);
  ConvShape s{.dtype = out.dtype(), .n = xs[0], .c = xs[1], .o = ws[0], .groups = a.groups};
  const std::size_t skipped = 3 - a.stride.size();
  for (std::size_t i = 0; i < 3; ++i) {
    s.in[i] = xs[i + 2];
    s.out[i] = ys[i + 2];
    s.kernel[i] = ws[i + 2];
    if (i < skipped) continue;
    s.stride[i] = a.stride[i - skipped];
    s.low[i] = a.low[i - skipped].number();
    s.dilation[i] = a.dilation[i - skipped];
  }
  return s;
}

/// Runs `pass(shape, a, b, out)` where the library or the loops have it: f64 in loops, f16 (and
/// bf16 where the CPU has no such products) in f32, rounded at the end.
using Pass = bool (*)(const ConvShape&, const Tensor&, const Tensor&, const Tensor& bias,
                      const Tensor&);
struct Passes {
  Pass library;
  Pass loops;
};

void run(const Passes& passes, ConvShape s, const Tensor& a, const Tensor& b, const Tensor& bias,
         const Tensor& out) {
  if (out.impl()->numel() == 0) return;
  if (s.flops() > 0 && passes.library(s, a, b, bias, out)) return;
  if (s.dtype != DType::f16 && s.dtype != DType::bf16) {
    passes.loops(s, a, b, bias, out);
    return;
  }
  const Tensor wide = make_empty_strided(DType::f32, out.impl()->shape, out.impl()->strides);
  s.dtype = DType::f32;
  run(passes, s, widened(a), widened(b), bias.defined() ? widened(bias) : Tensor(), wide);
  narrow(wide, out);
}

void conv(const OpCall& call) {
  const Tensor x = with_three_axes(call.inputs[0]), out = with_three_axes(call.outputs[0]);
  const Tensor weight = with_three_axes(contiguous_copy(call.inputs[1]));
  const Tensor bias = call.inputs[2].defined() ? contiguous_copy(call.inputs[2]) : Tensor();
  static constexpr Passes passes{
      conv_library_forward,
      [](const ConvShape& s, const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& out) {
        conv_loops_forward(s, x, w, b, out);
        return true;
      }};
  const ConvShape shape = describe(call.attrs_as<ops::ConvAttrs>(), x, weight, out);
  if (runs_by_planes(call.inputs[0], shape.c, shape.groups)) {
    depthwise_forward(shape, x, weight, bias, out);
  } else {
    run(passes, shape, x, weight, bias, out);
  }
}

void conv_transpose(const OpCall& call) {
  const Tensor grad = with_three_axes(call.inputs[0]), out = with_three_axes(call.outputs[0]);
  const Tensor weight = with_three_axes(contiguous_copy(call.inputs[1]));
  static constexpr Passes passes{
      [](const ConvShape& s, const Tensor& g, const Tensor& w, const Tensor&, const Tensor& out) {
        return conv_library_backward_input(s, g, w, out);
      },
      [](const ConvShape& s, const Tensor& g, const Tensor& w, const Tensor&, const Tensor& out) {
        conv_loops_backward_input(s, g, w, out);
        return true;
      }};
  const ConvShape shape = describe(call.attrs_as<ops::ConvBackwardAttrs>(), out, weight, grad);
  if (runs_by_planes(call.inputs[0], shape.c, shape.groups)) {
    depthwise_backward_input(shape, grad, weight, out);
  } else {
    run(passes, shape, grad, weight, {}, out);
  }
}

void conv_backward_weight(const OpCall& call) {
  const Tensor grad = with_three_axes(call.inputs[0]), x = with_three_axes(call.inputs[1]);
  const Tensor out = with_three_axes(call.outputs[0]);
  static constexpr Passes passes{
      [](const ConvShape& s, const Tensor& g, const Tensor& x, const Tensor&, const Tensor& out) {
        return conv_library_backward_weight(s, g, x, out);
      },
      [](const ConvShape& s, const Tensor& g, const Tensor& x, const Tensor&, const Tensor& out) {
        conv_loops_backward_weight(s, g, x, out);
        return true;
      }};
  const ConvShape shape = describe(call.attrs_as<ops::ConvBackwardAttrs>(), x, out, grad);
  if (runs_by_planes(call.inputs[1], shape.c, shape.groups)) {
    depthwise_backward_weight(shape, contiguous_copy(grad), x, out);
  } else {
    run(passes, shape, grad, x, {}, out);
  }
}

Strides output_layout(const OpInfo&, const void* attrs, std::span<const Tensor> inputs,
                      const Shape& shape, int) {
  const std::int64_t groups = static_cast<const ops::ConvAttrs*>(attrs)->groups;
  return runs_by_planes(inputs[0], inputs[0].shape()[1].number(), groups)
             ? contiguous_strides(shape)
             : channels_last_strides(shape.numbers());
}

Strides input_gradient_layout(const OpInfo&, const void* attrs, std::span<const Tensor> inputs,
                              const Shape& shape, int) {
  const std::int64_t groups = static_cast<const ops::ConvBackwardAttrs*>(attrs)->groups;
  const std::int64_t channels = shape[1].number();
  return !runs_by_planes(inputs[0], channels, groups) &&
                 input_gradient_channels_last(channels, groups)
             ? channels_last_strides(shape.numbers())
             : contiguous_strides(shape);
}

}  // namespace

ConvShape conv_shape(const ops::ConvAttrs& attrs, const Tensor& x, const Tensor& weight,
                     const Tensor& out) {
  return describe(attrs, x, weight, out);
}

std::span<const NamedKernel> conv_kernels() {
  static constexpr NamedKernel kernels[] = {
      {"conv", {conv, output_layout}},
      {"conv_transpose", {conv_transpose, input_gradient_layout}},
      {"conv_backward_weight", {conv_backward_weight}},
  };
  return kernels;
}

}  // namespace dyad::runtime::cpu
