#include "dyad/core/tensor_impl.h"
#include "dyad/ops/attrs/epilogue.h"
#include "dyad/runtime/cpu/conv.h"
#include "dyad/runtime/cpu/copy.h"
#include "dyad/runtime/cpu/kernels.h"
#include "dyad/runtime/cpu/tensor_data.h"
#include "dyad/runtime/layout.h"

namespace dyad::runtime::cpu {
namespace {

using ops::kChannelBlock;

ConvShape shape_of(const ops::ConvEpilogueAttrs& attrs, const Tensor& x, const Tensor& weight,
                   const Tensor& out) {
  const auto xs = sizes_of(x), ws = sizes_of(weight), ys = sizes_of(out);
  ConvShape s{.dtype = DType::f32,
              .n = xs[0],
              .c = xs.size() == 5 ? xs[1] * kChannelBlock : xs[1],
              .o = ws[0],
              .groups = attrs.groups};
  for (std::size_t i = 0; i < 2; ++i) {
    s.in[i + 1] = xs[i + 2];
    s.out[i + 1] = ys[i + 2];
    s.kernel[i + 1] = ws[i + 2];
    s.stride[i + 1] = attrs.stride[i];
    s.low[i + 1] = attrs.low[i].number();
    s.dilation[i + 1] = attrs.dilation[i];
  }
  return s;
}

/// An image whose channels come last.
Tensor make_image(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
  const Shape shape{n, c, h, w};
  return make_empty_strided(DType::f32, shape, channels_last_strides(shape.numbers()));
}

/// Such an image seen as [n, c / 8, h, w, 8].
Tensor as_blocks(const Tensor& image) {
  const auto s = sizes_of(image);
  const std::int64_t row = s[3] * s[1];
  return make_view(image, {s[0], s[1] / kChannelBlock, s[2], s[3], kChannelBlock},
                   {s[2] * row, kChannelBlock, row, s[1], 1}, 0);
}

/// The image as the convolutions read it: see conv_library_blocks.
Tensor readable(const Tensor& x) {
  return x.rank() == 4 && sizes_of(x)[1] % kChannelBlock == 0 ? channels_last(x)
                                                              : contiguous_copy(x);
}

/// The convolution in loops, which go by rows of an image.
void convolve_plainly(const ConvShape& s, const Tensor& x, const Tensor& weight, const Tensor& bias,
                      const Tensor& out) {
  Tensor image = x;
  if (x.rank() == 5) {
    image = make_image(s.n, s.c, s.in[1], s.in[2]);
    copy_tensor(x, as_blocks(image));
  }
  const Tensor sums = make_image(s.n, s.o, s.out[1], s.out[2]);
  const ContentsHold read(weight.impl()->storage);
  conv_loops_forward(s, with_three_axes(image), with_three_axes(weight), bias,
                     with_three_axes(sums));
  copy_tensor(as_blocks(sums), out);
}

void conv_blocks(const OpCall& call) {
  const auto& attrs = call.attrs_as<ops::ConvEpilogueAttrs>();
  const Tensor &residual = call.inputs[3], &out = call.outputs[0];
  if (out.impl()->numel() == 0) return;
  const ContentsHold copied(call.inputs[1].impl()->contiguous ? Ref<Storage>()
                                                              : call.inputs[1].impl()->storage);
  const Tensor x = readable(call.inputs[0]), weight = contiguous_copy(call.inputs[1]);
  const Tensor bias = call.inputs[2].defined() ? contiguous_copy(call.inputs[2]) : Tensor();
  const ConvShape shape = shape_of(attrs, x, weight, out);
  const Epilogue epilogue =
      epilogue_of(attrs.activation, attrs.alpha, attrs.beta, residual.defined());
  const Tensor added = residual.defined() ? contiguous_copy(residual) : Tensor();
  if (conv_winograd(shape, x, weight, bias, added, out, /*out_is_channels_last=*/false, call,
                    epilogue)) {
    return;
  }
  if (residual.defined() && residual.impl()->data != out.impl()->data) copy_tensor(residual, out);
  if (shape.flops() > 0 && conv_library_blocks(shape, x, weight, bias, out, call, epilogue)) return;
  const Tensor sums = make_empty(DType::f32, out.impl()->shape);
  convolve_plainly(shape, x, weight, bias, sums);
  apply_epilogue(epilogue, reinterpret_cast<const float*>(sums.impl()->data),
                 reinterpret_cast<float*>(out.impl()->data), out.impl()->numel());
}

}  // namespace

std::span<const NamedKernel> conv_blocks_kernels() {
  static constexpr NamedKernel kernels[] = {
      {"conv_blocks", {conv_blocks, nullptr, /*in_place=*/false, /*takes_over=*/3, /*packs=*/1}}};
  return kernels;
}

}  // namespace dyad::runtime::cpu
