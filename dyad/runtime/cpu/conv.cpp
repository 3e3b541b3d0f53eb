#include "dyad/runtime/cpu/conv.h"

#include "dyad/core/tensor_impl.h"
#include "dyad/ops/attrs/nn.h"
#include "dyad/runtime/cpu/cast.h"
#include "dyad/runtime/cpu/copy.h"
#include "dyad/runtime/cpu/element.h"
#include "dyad/runtime/cpu/kernels.h"
#include "dyad/runtime/layout.h"

namespace dyad::runtime::cpu {

Tensor channels_last(const Tensor& image) {
  const TensorImpl& t = *image.impl();
  const Strides wanted = channels_last_strides(t.shape.numbers());
  bool matches = true;
  for (std::size_t i = 0; i < 4; ++i) {
    matches = matches && (t.shape[i].number() == 1 || t.strides[i] == wanted[i]);
  }
  if (matches) return image;
  Tensor copy = make_empty_strided(t.dtype, t.shape, wanted);
  copy_tensor(image, copy);
  return copy;
}

namespace {

template <class Attrs>
ConvShape describe(const OpCall& call, DType dtype, std::span<const std::int64_t> x,
                   std::span<const std::int64_t> weight, std::span<const std::int64_t> out) {
  const auto& a = call.attrs_as<Attrs>();
  return {.dtype = dtype,
          .n = x[0],
          .c = x[1],
          .h = x[2],
          .w = x[3],
          .o = out[1],
          .oh = out[2],
          .ow = out[3],
          .kernel = {weight[2], weight[3]},
          .stride = {a.stride[0], a.stride[1]},
          .padding = {a.padding[0], a.padding[1]},
          .dilation = {a.dilation[0], a.dilation[1]},
          .groups = a.groups};
}

std::span<const std::int64_t> sizes_of(const Tensor& t) { return t.impl()->shape.numbers(); }

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

void conv2d(const OpCall& call) {
  const Tensor &x = call.inputs[0], &weight = call.inputs[1], &out = call.outputs[0];
  const Tensor bias = call.inputs[2].defined() ? contiguous_copy(call.inputs[2]) : Tensor();
  static constexpr Passes passes{
      conv_library_forward,
      [](const ConvShape& s, const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& out) {
        conv_loops_forward(s, x, w, b, out);
        return true;
      }};
  run(passes,
      describe<ops::Conv2dAttrs>(call, out.dtype(), sizes_of(x), sizes_of(weight), sizes_of(out)),
      x, contiguous_copy(weight), bias, out);
}

void conv2d_backward_input(const OpCall& call) {
  const Tensor &grad = call.inputs[0], &weight = call.inputs[1], &out = call.outputs[0];
  static constexpr Passes passes{
      [](const ConvShape& s, const Tensor& g, const Tensor& w, const Tensor&, const Tensor& out) {
        return conv_library_backward_input(s, g, w, out);
      },
      [](const ConvShape& s, const Tensor& g, const Tensor& w, const Tensor&, const Tensor& out) {
        conv_loops_backward_input(s, g, w, out);
        return true;
      }};
  run(passes,
      describe<ops::Conv2dBackwardAttrs>(call, out.dtype(), sizes_of(out), sizes_of(weight),
                                         sizes_of(grad)),
      grad, contiguous_copy(weight), {}, out);
}

void conv2d_backward_weight(const OpCall& call) {
  const Tensor &grad = call.inputs[0], &x = call.inputs[1], &out = call.outputs[0];
  static constexpr Passes passes{
      [](const ConvShape& s, const Tensor& g, const Tensor& x, const Tensor&, const Tensor& out) {
        return conv_library_backward_weight(s, g, x, out);
      },
      [](const ConvShape& s, const Tensor& g, const Tensor& x, const Tensor&, const Tensor& out) {
        conv_loops_backward_weight(s, g, x, out);
        return true;
      }};
  run(passes,
      describe<ops::Conv2dBackwardAttrs>(call, out.dtype(), sizes_of(x), sizes_of(out),
                                         sizes_of(grad)),
      grad, x, {}, out);
}

Strides output_layout(const OpInfo&, const void*, std::span<const Tensor>, const Shape& shape,
                      int) {
  return channels_last_strides(shape.numbers());
}

Strides input_gradient_layout(const OpInfo&, const void* attrs, std::span<const Tensor>,
                              const Shape& shape, int) {
  const std::int64_t groups = static_cast<const ops::Conv2dBackwardAttrs*>(attrs)->groups;
  return input_gradient_channels_last(shape[1].number(), groups)
             ? channels_last_strides(shape.numbers())
             : contiguous_strides(shape);
}

}  // namespace

std::span<const NamedKernel> conv_kernels() {
  static constexpr NamedKernel kernels[] = {
      {"conv2d", {conv2d, output_layout}},
      {"conv2d_backward_input", {conv2d_backward_input, input_gradient_layout}},
      {"conv2d_backward_weight", {conv2d_backward_weight}},
  };
  return kernels;
}

}  // namespace dyad::runtime::cpu
