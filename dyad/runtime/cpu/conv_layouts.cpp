#include "dyad/runtime/cpu/conv_layouts.h"

#include <algorithm>

#include "dyad/core/tensor_impl.h"
#include "dyad/runtime/layout.h"
#include "dyad/runtime/library_calls.h"

#ifdef DYAD_PLAIN_LOOPS

bool dyad::runtime::prefers_channel_blocks() noexcept { return false; }
bool dyad::runtime::convolves(DType dtype) noexcept {
  return dtype == DType::f32 || dtype == DType::f64;
}

#else

bool dyad::runtime::prefers_channel_blocks() noexcept {
  return cpu::onednn::uses(dnnl_cpu_isa_avx2) && !cpu::onednn::uses(dnnl_cpu_isa_avx512_core);
}
bool dyad::runtime::convolves(DType dtype) noexcept {
  return dtype == DType::f64 || cpu::onednn::takes(dtype);
}

namespace dyad::runtime::cpu {

using dnnl::memory;
using Tag = memory::format_tag;

namespace {

/// Without AVX-512 the library is a quarter faster where channels lie in blocks of eight,
/// [n, c / 8, h, w, 8], than where they come last. To turn images so is worth it where each element
/// meets many weights.
bool turns_images(const ConvShape& s) {
  constexpr std::int64_t kChannels = 32;
  constexpr double kFlops = 4e6;
  return s.dtype == DType::f32 && s.groups == 1 && std::min(s.c, s.o) >= kChannels &&
         s.kernel[0] * s.kernel[1] * s.kernel[2] > 1 && s.flops() > kFlops &&
         prefers_channel_blocks();
}

/// With AVX-512 the library's kernels for channels that come last take a row of the result at a
/// time: at half the speed where it is short, of those for channels in blocks.
bool has_narrow_rows(const ConvShape& s) {
  constexpr std::int64_t kChannels = 64, kWidth = 4;
  return s.dtype == DType::f32 && s.groups == 1 && std::min(s.c, s.o) >= kChannels &&
         s.kernel[1] * s.kernel[2] > 1 && s.flat() && s.out[1] > 1 && s.out[2] <= kWidth &&
         onednn::uses(dnnl_cpu_isa_avx512_core);
}

Tag tag_of(Images images, bool flat) {
  switch (images) {
    case Images::channels_last:
      return flat ? Tag::nhwc : Tag::ndhwc;
    case Images::row_major:
      return flat ? Tag::nchw : Tag::ncdhw;
    case Images::blocks:
      break;
  }
  return Tag::nChw8c;
}

}  // namespace

Layouts::Layouts(const ConvShape& s, Images images)
    : Layouts(s, images, onednn::data_type(s.dtype), onednn::data_type(s.dtype),
              onednn::data_type(s.dtype)) {}

Layouts::Layouts(const ConvShape& s, Images images, memory::data_type x_type,
                 memory::data_type weight_type, memory::data_type out_type) {
  const int skipped = s.flat() ? 1 : 0;
  memory::dims in{s.n, s.c}, result{s.n, s.o}, weights;
  if (s.groups > 1) weights.push_back(s.groups);
  weights.insert(weights.end(), {s.o / s.groups, s.c / s.groups});
  for (int i = skipped; i < 3; ++i) {
    in.push_back(s.in[i]);
    result.push_back(s.out[i]);
    weights.push_back(s.kernel[i]);
    strides.push_back(s.stride[i]);
    dilations.push_back(s.dilation[i] - 1);
    low.push_back(s.low[i]);
    const std::int64_t reach = (s.kernel[i] - 1) * s.dilation[i] + 1;
    high.push_back(
        std::max<std::int64_t>(0, (s.out[i] - 1) * s.stride[i] + reach - s.in[i] - s.low[i]));
  }
  const Tag tag = tag_of(images, s.flat());
  x = {in, x_type, tag};
  out = {result, out_type, tag};
  plain_weights = {weights, weight_type,
                   s.flat() ? (s.groups == 1 ? Tag::oihw : Tag::goihw)
                            : (s.groups == 1 ? Tag::oidhw : Tag::goidhw)};
  any_weights = {weights, weight_type, Tag::any};
  any_x = x;
  any_out = out;
  if (turns_images(s)) leave_images_open();
  bias = {{s.o}, out_type, Tag::x};
}

void Layouts::leave_images_open() {
  any_x = memory::desc(x.dims(), x.data_type(), Tag::any);
  any_out = memory::desc(out.dims(), out.data_type(), Tag::any);
}

Layouts Layouts::forwards(const ConvShape& s) {
  Layouts made(s, Images::channels_last);
  if (has_narrow_rows(s)) made.leave_images_open();
  return made;
}

Layouts Layouts::into_blocks(const ConvShape& s, Images images) {
  Layouts made(s, images);
  const auto in_blocks = [](const memory::desc& layout) {
    return memory::desc(layout.dims(), layout.data_type(), Tag::nChw8c);
  };
  made.any_x = images == Images::channels_last ? in_blocks(made.x) : made.x;
  made.out = made.any_out = in_blocks(made.out);
  return made;
}

onednn::Held make_reorder(const memory::desc& from, const memory::desc& to) {
  const dnnl::reorder::primitive_desc pd(onednn::engine(), from, onednn::engine(), to);
  return {dnnl::reorder(pd), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}};
}

Turned::Turned(const memory::desc& from, const memory::desc& to)
    : bytes_(static_cast<std::int64_t>(std::max(from.get_size(), to.get_size()))) {
  if (from != to) reorder_.emplace(make_reorder(from, to));
}

const void* Turned::taken(const Tensor& images, Tensor& room) {
  if (!reorder_) return images.impl()->data;
  reorder_->run({images.impl()->data, place(images, room)});
  return room.impl()->data;
}

const void* Turned::place(const Tensor& images, Tensor& room) const {
  if (!reorder_) return images.impl()->data;
  room = make_empty(DType::u8, {bytes_});
  return room.impl()->data;
}

void Turned::give(const Tensor& room, const Tensor& images) {
  if (reorder_) reorder_->run({room.impl()->data, images.impl()->data});
}

}  // namespace dyad::runtime::cpu

#endif
