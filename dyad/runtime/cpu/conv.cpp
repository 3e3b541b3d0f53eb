#include "dyad/runtime/cpu/conv.h"

#include "dyad/core/tensor_impl.h"
#include "dyad/ops/attrs/epilogue.h"
#include "dyad/ops/attrs/nn.h"
#include "dyad/runtime/cpu/cast.h"
#include "dyad/runtime/cpu/copy.h"
#include "dyad/runtime/cpu/element.h"
#include "dyad/runtime/cpu/kernels.h"
#include "dyad/runtime/cpu/tensor_data.h"
#include "dyad/runtime/cpu/winograd.h"
#include "dyad/runtime/layout.h"
#include "dyad/runtime/library_calls.h"

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

bool is_channels_last(const Tensor& image) {
  return lies_with(image, channels_last_strides(image.impl()->shape.numbers()));
}

Tensor channels_last(const Tensor& image) {
  if (is_channels_last(image)) return image;
  const TensorImpl& t = *image.impl();
  Tensor copy = make_empty_strided(t.dtype, t.shape, channels_last_strides(t.shape.numbers()));
  copy_tensor(image, copy);
  return copy;
}

bool runs_by_planes(const Tensor& image, std::int64_t channels, std::int64_t groups) {
  const TensorImpl& t = *image.impl();
  return groups > 1 && groups == channels && t.shape.size() <= 4 &&
         is_contiguous(t.shape, t.strides);
}

namespace {

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

/// Runs a pass where the library or the loops have it: f64 in loops, f16 (and bf16 where the CPU
/// has no such products) in f32, rounded at the end. What the pass widen_calls makes of them is the
/// same convolution of the same copies.
template <class Library, class Loops>
void run(const Library& library, const Loops& loops, ConvShape s, const Tensor& a, const Tensor& b,
         const Tensor& bias, const Tensor& out) {
  if (out.impl()->numel() == 0) return;
  if (s.flops() > 0 && library(s, a, b, bias, out)) return;
  if (!is_narrow(s.dtype)) {
    loops(s, a, b, bias, out);
    return;
  }
  const Tensor wide = make_empty_strided(DType::f32, out.impl()->shape, out.impl()->strides);
  s.dtype = DType::f32;
  run(library, loops, s, widened_as_it_lies(a), widened_as_it_lies(b),
      bias.defined() ? widened_as_it_lies(bias) : Tensor(), wide);
  narrow(wide, out);
}

/// The operands of a convolution, with five axes.
struct Operands {
  ContentsHold copied;
  Tensor x, weight, bias, out;
  ConvShape shape;
  bool by_planes;

  template <class Attrs>
  Operands(const OpCall& call, const Attrs& attrs)
      : copied(call.inputs[1].impl()->contiguous ? Ref<Storage>() : call.inputs[1].impl()->storage),
        x(with_three_axes(call.inputs[0])),
        weight(with_three_axes(contiguous_copy(call.inputs[1]))),
        bias(call.inputs[2].defined() ? contiguous_copy(call.inputs[2]) : Tensor()),
        out(with_three_axes(call.outputs[0])),
        shape(describe(attrs, x, weight, out)),
        by_planes(runs_by_planes(call.inputs[0], shape.c, shape.groups)) {}
};

void convolve(const OpCall& call, const Operands& o, const Tensor& out) {
  ContentsHold read;
  if (o.by_planes) {
    read = ContentsHold(o.weight.impl()->storage);
    depthwise_forward(o.shape, o.x, o.weight, o.bias, out);
    return;
  }
  run(
      [&](const ConvShape& s, const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& y) {
        if (!is_pointwise_product(s, x, y) &&
            (conv_winograd(s, x, w, b, {}, y, /*out_is_channels_last=*/true, call, {}) ||
             conv_pixels(s, x, w, b, y, call) || conv_library_forward(s, x, w, b, y, call))) {
          return true;
        }
        read = ContentsHold(o.weight.impl()->storage);
        return conv_pointwise_forward(s, x, w, b, y);
      },
      conv_loops_forward, o.shape, o.x, o.weight, o.bias, out);
}

void conv(const OpCall& call) {
  const Operands operands(call, call.attrs_as<ops::ConvAttrs>());
  convolve(call, operands, operands.out);
}

void conv_epilogue(const OpCall& call) {
  const auto& attrs = call.attrs_as<ops::ConvEpilogueAttrs>();
  const Tensor &residual = call.inputs[3], &out = call.outputs[0];
  const Operands o(call, attrs);
  Epilogue epilogue = epilogue_of(attrs.activation, attrs.alpha, attrs.beta, residual.defined());
  epilogue.adds_last = attrs.exact;
  if (out.impl()->numel() == 0) return;
  if (residual.defined() && residual.impl()->data != out.impl()->data) copy_tensor(residual, out);
  // What eager execution computes by other means is computed so here, too.
  const bool exactly = o.by_planes || (attrs.exact && is_pointwise_product(o.shape, o.x, o.out));
  if (!exactly && o.shape.flops() > 0 &&
      (conv_winograd(o.shape, o.x, o.weight, o.bias, residual.defined() ? o.out : Tensor(), o.out,
                     /*out_is_channels_last=*/true, call, epilogue) ||
       conv_pixels(o.shape, o.x, o.weight, o.bias, o.out, call, epilogue) ||
       conv_library_forward(o.shape, o.x, o.weight, o.bias, o.out, call, epilogue))) {
    return;
  }
  const Tensor sums =
      make_empty_strided(DType::f32, out.impl()->shape, Strides(out.impl()->strides));
  convolve(call, o, with_three_axes(sums));
  apply_epilogue(epilogue, reinterpret_cast<const float*>(sums.impl()->data),
                 reinterpret_cast<float*>(out.impl()->data), out.impl()->numel());
}

/// The gradient of the input as the convolution that it is; `grad` and `out` have five axes.
bool winograd_backward_input(const ConvShape& shape, const Tensor& grad, const Tensor& weight,
                             const Tensor& out) {
  const ConvShape s = turned(shape);
  if (!repays_winograd(s) || !is_channels_last(out)) return false;
  const Tensor rows = channels_last(grad), panels = make_empty(DType::f32, weight.impl()->shape);
  pack_turned_for_winograd(elements_of<float>(weight), shape.o, shape.c,
                           elements_of<float>(panels));
  winograd_forward(s,
                   {.x = elements_of<float>(rows),
                    .weight = elements_of<float>(panels),
                    .bias = nullptr,
                    .residual = nullptr,
                    .out = elements_of<float>(out),
                    .x_is_channels_last = true,
                    .out_is_channels_last = true},
                   {});
  return true;
}

bool winograd_backward_weight(const ConvShape& shape, const Tensor& grad, const Tensor& x,
                              const Tensor& out) {
  if (!repays_winograd_for_weight(shape)) return false;
  winograd_backward_weight(shape, elements_of<float>(channels_last(x)),
                           elements_of<float>(channels_last(grad)), elements_of<float>(out));
  return true;
}

void conv_transpose(const OpCall& call) {
  const Tensor grad = with_three_axes(call.inputs[0]), out = with_three_axes(call.outputs[0]);
  const Tensor weight = with_three_axes(contiguous_copy(call.inputs[1]));
  const ConvShape shape = describe(call.attrs_as<ops::ConvBackwardAttrs>(), out, weight, grad);
  if (runs_by_planes(call.inputs[0], shape.c, shape.groups)) {
    depthwise_backward_input(shape, grad, weight, out);
  } else {
    run(
        [](const ConvShape& s, const Tensor& g, const Tensor& w, const Tensor&, const Tensor& y) {
          return conv_pointwise_backward_input(s, g, w, y) || winograd_backward_input(s, g, w, y) ||
                 conv_library_backward_input(s, g, w, y);
        },
        [](const ConvShape& s, const Tensor& g, const Tensor& w, const Tensor&, const Tensor& y) {
          conv_loops_backward_input(s, g, w, y);
        },
        shape, grad, weight, {}, out);
  }
}

void conv_backward_weight(const OpCall& call) {
  const Tensor grad = with_three_axes(call.inputs[0]), x = with_three_axes(call.inputs[1]);
  const Tensor out = with_three_axes(call.outputs[0]);
  const ConvShape shape = describe(call.attrs_as<ops::ConvBackwardAttrs>(), x, out, grad);
  if (runs_by_planes(call.inputs[1], shape.c, shape.groups)) {
    depthwise_backward_weight(shape, contiguous_copy(grad), x, out);
  } else {
    run(
        [](const ConvShape& s, const Tensor& g, const Tensor& i, const Tensor&, const Tensor& w) {
          return conv_pointwise_backward_weight(s, g, i, w) ||
                 winograd_backward_weight(s, g, i, w) || conv_library_backward_weight(s, g, i, w);
        },
        [](const ConvShape& s, const Tensor& g, const Tensor& i, const Tensor&, const Tensor& w) {
          conv_loops_backward_weight(s, g, i, w);
        },
        shape, grad, x, {}, out);
  }
}

/// Channels-last; what is computed in f32 lies as a cast from there does, also along axes of
/// size 1.
Strides channels_last_layout(DType dtype, const Shape& shape) {
  const Strides strides = channels_last_strides(shape.numbers());
  if (convolves(dtype)) return strides;
  const StridedShape wide[] = {{shape.numbers(), strides}};
  return pointwise_layout(wide, shape.numbers());
}

template <class Attrs>
Strides output_layout(const OpInfo&, const void* attrs, std::span<const Tensor> inputs,
                      const Shape& shape, int) {
  const std::int64_t groups = static_cast<const Attrs*>(attrs)->groups;
  return runs_by_planes(inputs[0], inputs[0].shape()[1].number(), groups)
             ? contiguous_strides(shape)
             : channels_last_layout(inputs[0].dtype(), shape);
}

Strides input_gradient_layout(const OpInfo&, const void* attrs, std::span<const Tensor> inputs,
                              const Shape& shape, int) {
  const std::int64_t groups = static_cast<const ops::ConvBackwardAttrs*>(attrs)->groups;
  const std::int64_t channels = shape[1].number();
  return !runs_by_planes(inputs[0], channels, groups) &&
                 input_gradient_channels_last(channels, groups)
             ? channels_last_layout(inputs[0].dtype(), shape)
             : contiguous_strides(shape);
}

}  // namespace

ConvShape conv_shape(const ops::ConvAttrs& attrs, const Tensor& x, const Tensor& weight,
                     const Tensor& out) {
  return describe(attrs, x, weight, out);
}

std::span<const NamedKernel> conv_kernels() {
  static constexpr NamedKernel kernels[] = {
      {"conv",
       {.run = conv, .layout = output_layout<ops::ConvAttrs>, .packs = 1, .cannot_fail = true}},
      {"conv_epilogue",
       {conv_epilogue, output_layout<ops::ConvEpilogueAttrs>, /*in_place=*/false,
        /*takes_over=*/3, /*packs=*/1}},
      {"conv_transpose",
       {.run = conv_transpose, .layout = input_gradient_layout, .cannot_fail = true}},
      {"conv_backward_weight", {.run = conv_backward_weight, .cannot_fail = true}},
  };
  return kernels;
}

}  // namespace dyad::runtime::cpu
