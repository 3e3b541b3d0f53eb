#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <vector>

#include "dyad/core/tensor_impl.h"
#include "dyad/ops/attrs/nn.h"
#include "dyad/runtime/cpu/conv.h"
#include "dyad/runtime/cpu/copy.h"
#include "dyad/runtime/cpu/integer_gemm.h"
#include "dyad/runtime/cpu/integer_windows.h"
#include "dyad/runtime/cpu/integer_words.h"
#include "dyad/runtime/cpu/kernels.h"
#include "dyad/runtime/cpu/rows.h"
#include "dyad/runtime/cpu/vector_clones.h"
#include "dyad/runtime/layout.h"
#include "dyad/runtime/threads.h"

// The products of matmul_integer and conv_integer: bytes in, i32 out.

namespace dyad::runtime::cpu {
namespace {

// The library multiplies u8 by i8; it has i8 by i8 too, but sums in between in f32. So the left
// operand is moved to u8 and the right one to i8, by 128, and their zero points with them.
constexpr std::int32_t kMove = 128;

DYAD_VECTOR_CLONES void turn_top_bit(const std::uint8_t* from, std::int64_t count,
                                     std::uint8_t* to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = from[i] ^ 0x80;
}

/// The elements of a tensor of bytes as `dtype`, moved by 128 if it is another; the tensor itself
/// when it has that dtype.
Tensor moved_bytes(const Tensor& tensor, DType dtype) {
  if (tensor.dtype() == dtype) return tensor;
  const Tensor dense = contiguous_copy(tensor);
  const Tensor made = make_empty(dtype, dense.impl()->shape);
  const auto* const from = reinterpret_cast<const std::uint8_t*>(dense.impl()->data);
  auto* const to = reinterpret_cast<std::uint8_t*>(made.impl()->data);
  const std::int64_t count = made.impl()->numel();
  parallel_for(0, count, grain_for({.bytes = 2}, count), [&](std::int64_t lo, std::int64_t hi) {
    turn_top_bit(from + lo, hi - lo, to + lo);
  });
  return made;
}

/// How far a tensor's numbers are moved to become `dtype`.
std::int32_t move_of(const Tensor& tensor, DType dtype) {
  if (tensor.dtype() == dtype) return 0;
  return dtype == DType::u8 ? kMove : -kMove;
}

/// Zero points as i32 in row-major order, moved with their operand; none when all are 0.
std::vector<std::int32_t> zero_points(const Tensor& tensor, std::int32_t move) {
  if (!tensor.defined()) {
    return move != 0 ? std::vector<std::int32_t>{move} : std::vector<std::int32_t>();
  }
  const Tensor dense = contiguous_copy(tensor);
  std::vector<std::int32_t> values(static_cast<std::size_t>(dense.impl()->numel()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::byte byte = dense.impl()->data[i];
    values[i] = (dense.dtype() == DType::i8 ? std::int32_t{static_cast<std::int8_t>(byte)}
                                            : std::int32_t{static_cast<std::uint8_t>(byte)}) +
                move;
  }
  return values;
}

/// Strides of zero points along the batch axes and along rows or columns (axis `at` from the end).
Ints zero_strides(const Tensor& zero, std::span<const std::int64_t> batch, std::size_t at) {
  Ints strides(batch.size() + 1, 0);
  if (!zero.defined()) return strides;
  const auto sizes = zero.impl()->shape.numbers();
  if (sizes.size() == 1) {
    strides.back() = sizes[0] == 1 ? 0 : 1;
  } else if (sizes.size() > 1) {
    const Strides own = contiguous_strides(zero.impl()->shape);
    const std::size_t outer = sizes.size() - 2;
    const auto of_batch =
        broadcast_strides(sizes.first(outer), std::span(own.data(), outer), batch);
    std::copy(of_batch.begin(), of_batch.end(), strides.begin());
    strides.back() = sizes[sizes.size() - at] == 1 ? 0 : own[sizes.size() - at];
  }
  return strides;
}

void matmul_integer(const OpCall& call) {
  const Tensor& out = call.outputs[0];
  if (out.impl()->numel() == 0) return;
  const Tensor a = contiguous_copy(moved_bytes(call.inputs[0], DType::u8));
  // A transposed matrix is read as it lies.
  const TensorImpl& given = *call.inputs[1].impl();
  const bool turned = given.shape.size() == 2 && given.dtype == DType::i8 &&
                      given.strides[0] == 1 && given.strides[1] >= given.shape[0].number() &&
                      given.shape[1].number() > 1;
  const Tensor b =
      turned ? call.inputs[1] : contiguous_copy(moved_bytes(call.inputs[1], DType::i8));
  const TensorImpl &left = *a.impl(), &right = *b.impl(), &c = *out.impl();
  const std::size_t ra = left.shape.size(), rc = c.shape.size();

  IntegerGemm g;
  g.m = c.shape[rc - 2].number();
  g.n = g.c_row = c.shape[rc - 1].number();
  g.k = g.a_row = left.shape[ra - 1].number();
  g.b_row = turned ? 1 : g.n;
  g.b_column = turned ? given.strides[1] : 1;

  const auto batch = c.shape.numbers().first(rc - 2);
  const auto za = zero_points(call.inputs[2], move_of(call.inputs[0], DType::u8));
  const auto zb = zero_points(call.inputs[3], move_of(call.inputs[1], DType::i8));
  const Ints za_strides = zero_strides(call.inputs[2], batch, 2),
             zb_strides = zero_strides(call.inputs[3], batch, 1);
  const auto outer_strides = [&](const TensorImpl& t) {
    const auto sizes = t.shape.numbers().first(t.shape.size() - 2);
    const auto strides = broadcast_strides(sizes, std::span(t.strides.data(), sizes.size()), batch);
    return Ints(strides.begin(), strides.end());
  };
  const auto without_last = [](const Ints& strides) {
    return Ints(strides.begin(), strides.end() - 1);
  };
  std::array<Ints, 5> strides{outer_strides(left), outer_strides(right), outer_strides(c),
                              without_last(za_strides), without_last(zb_strides)};
  const bool one_b = std::ranges::all_of(strides[1], [](std::int64_t s) { return s == 0; });
  const bool one_zero = za.size() <= 1 && zb.size() <= static_cast<std::size_t>(g.n) &&
                        std::ranges::all_of(strides[4], [](std::int64_t s) { return s == 0; });
  const bool whole_a = left.numel() == product(batch) * g.m * g.k;
  std::span<const std::int64_t> walked = batch;
  if (one_b && one_zero && whole_a) {  // rows of all matrices are one matrix's
    g.m *= product(batch);
    walked = {};
    for (Ints& list : strides) list.clear();
  }
  RowWalk<5> at(walked, strides, 0);
  for (std::int64_t item = 0, items = product(walked); item < items; ++item, at.next()) {
    const ZeroPoints zero{.a = za.empty() ? nullptr : za.data() + at[3],
                          .a_stride = za_strides.back(),
                          .b = zb.empty() ? nullptr : zb.data() + at[4],
                          .b_stride = zb_strides.back()};
    integer_gemm(g, zero, reinterpret_cast<const std::uint8_t*>(left.data) + at[0],
                 reinterpret_cast<const std::int8_t*>(right.data) + at[1],
                 reinterpret_cast<std::int32_t*>(c.data) + at[2]);
  }
}

/// A few bytes, without a call for those that vectors hold.
[[gnu::always_inline]] inline void copy_bytes(const std::uint8_t* from, std::int64_t count,
                                              std::uint8_t* to) {
  std::int64_t i = 0;
  for (; i + 16 <= count; i += 16) std::memcpy(to + i, from + i, 16);
  for (; i < count; ++i) to[i] = from[i];
}

/// A convolution of one image after the other, channels last.
struct Convolution {
  ConvShape s;
  std::uint8_t padding = 0;
  std::int64_t in_group = 0, out_group = 0, taps = 0;

  /// Calls `visit(tap, offset of the element of channel 0, or -1 in the padding)` for an output
  /// position.
  template <class Visit>
  void for_taps(std::int64_t position, Visit visit) const {
    const std::int64_t out[3] = {position / (s.out[1] * s.out[2]), position / s.out[2] % s.out[1],
                                 position % s.out[2]};
    std::int64_t tap = 0, in[3];
    for (std::int64_t d = 0; d < s.kernel[0]; ++d) {
      in[0] = out[0] * s.stride[0] - s.low[0] + d * s.dilation[0];
      for (std::int64_t h = 0; h < s.kernel[1]; ++h) {
        in[1] = out[1] * s.stride[1] - s.low[1] + h * s.dilation[1];
        const bool row = in[0] >= 0 && in[0] < s.in[0] && in[1] >= 0 && in[1] < s.in[1];
        const std::int64_t begin = (in[0] * s.in[1] + in[1]) * s.in[2];
        for (std::int64_t w = 0; w < s.kernel[2]; ++w, ++tap) {
          in[2] = out[2] * s.stride[2] - s.low[2] + w * s.dilation[2];
          visit(tap, row && in[2] >= 0 && in[2] < s.in[2] ? (begin + in[2]) * s.c : -1);
        }
      }
    }
  }

  /// Whether windows are single elements, one after the other.
  [[nodiscard]] bool pointwise() const noexcept {
    bool single = taps == 1;
    for (int i = 0; i < 3; ++i) {
      single = single && s.stride[i] == 1 && s.low[i] == 0 && s.in[i] == s.out[i];
    }
    return single;
  }

  /// The windows of `count` positions and a group as rows of bytes: tap after tap, the channels of
  /// each.
  void unfold(const std::uint8_t* image, std::int64_t group, std::int64_t first, std::int64_t count,
              std::uint8_t* rows) const {
    const std::int64_t size = taps * in_group;
    parallel_for(0, count, grain_for({.bytes = 2.0 * static_cast<double>(size)}, count),
                 [&](std::int64_t lo, std::int64_t hi) {
                   for (std::int64_t p = lo; p < hi; ++p) {
                     for_taps(first + p, [&](std::int64_t tap, std::int64_t from) {
                       std::uint8_t* const to = rows + p * size + tap * in_group;
                       const auto bytes = static_cast<std::size_t>(in_group);
                       if (from < 0) {
                         std::memset(to, padding, bytes);
                       } else {
                         copy_bytes(image + from + group * in_group, in_group, to);
                       }
                     });
                   }
                 });
  }
};

/// A weight [groups * o, c, ...] as [groups, ..., c, o]: for each group the right operand of a
/// product with rows of windows.
std::vector<std::int8_t> taps_first(const Tensor& weight, const Convolution& conv) {
  const std::int64_t in = conv.in_group, out = conv.out_group, taps = conv.taps;
  std::vector<std::int8_t> made(static_cast<std::size_t>(weight.impl()->numel()));
  const std::int64_t sizes[] = {conv.s.groups, taps, in, out},
                     to[] = {taps * in * out, in * out, out, 1},
                     from[] = {out * in * taps, 1, taps, in * taps};
  copy_elements(DType::i8, sizes, made.data(), to, weight.impl()->data, from);
  return made;
}

DYAD_VECTOR_CLONES void add_tap(const std::uint8_t* x, std::int32_t zero,
                                const std::int32_t* weight, std::int64_t count,
                                std::int32_t* sums) {
  for (std::int64_t c = 0; c < count; ++c) sums[c] += (std::int32_t{x[c]} - zero) * weight[c];
}

/// One channel in, one out, in each group: element by element over channels.
void depthwise(const Convolution& conv, const std::uint8_t* image, std::int32_t zero_x,
               const std::vector<std::int8_t>& weight, const ZeroPoints& zero, std::int32_t* out) {
  const std::int64_t channels = conv.s.c, count = conv.s.positions();
  std::vector<std::int32_t> by_tap(weight.size());
  for (std::int64_t c = 0; c < channels; ++c) {
    const std::int32_t taken = zero.b == nullptr ? 0 : zero.b[c * zero.b_stride];
    for (std::int64_t t = 0; t < conv.taps; ++t) {
      by_tap[static_cast<std::size_t>(t * channels + c)] =
          weight[static_cast<std::size_t>(c * conv.taps + t)] - taken;
    }
  }
  const double cost = static_cast<double>(channels * conv.taps);
  parallel_for(0, count, grain_for({.bytes = cost, .flops = cost}, count),
               [&](std::int64_t lo, std::int64_t hi) {
                 for (std::int64_t p = lo; p < hi; ++p) {
                   std::int32_t* const sums = out + p * channels;
                   std::fill_n(sums, channels, 0);
                   conv.for_taps(p, [&](std::int64_t tap, std::int64_t from) {
                     if (from < 0) return;
                     add_tap(image + from, zero_x, by_tap.data() + tap * channels, channels, sums);
                   });
                 }
               });
}

/// The convolution by the library, where no zero points are taken off the weight: of images with
/// `zero`, the number that counts as 0, around them. What it is too much is the same at all
/// positions then. False where the library has none.
bool padded_convolution(const ConvShape& shape, const Tensor& x, std::int32_t zero,
                        const Tensor& weight, std::int32_t* out) {
  ConvShape s = shape;
  s.n = 1;
  std::int64_t inside = 0;
  for (int i = 0; i < 3; ++i) {
    const std::int64_t reach = (s.kernel[i] - 1) * s.dilation[i] + 1;
    s.in[i] = (s.out[i] - 1) * s.stride[i] + reach;
    inside = inside * s.in[i] + s.low[i];
    s.low[i] = 0;
  }
  const TensorImpl& source = *x.impl();
  const std::int64_t elements = s.in[0] * s.in[1] * s.in[2] * s.c;
  const Tensor padded = make_empty(DType::u8, {elements});
  auto* const image = reinterpret_cast<std::uint8_t*>(padded.impl()->data);
  std::memset(image, zero, static_cast<std::size_t>(elements));
  // What of an image the windows reach.
  Ints sizes{s.c};
  for (int i = 0; i < 3; ++i) {
    sizes.push_back(std::min(shape.in[i], s.in[i] - shape.low[i]));
    if (sizes.back() < 0) return false;
  }
  const Ints to_strides{1, s.in[1] * s.in[2] * s.c, s.in[2] * s.c, s.c};
  const std::int64_t patch = weight.impl()->numel() / s.o;
  std::vector<std::uint32_t> sums(static_cast<std::size_t>(s.o)), nothing(sums.size());
  for (std::int64_t o = 0; zero != 0 && o < s.o; ++o) {
    sums[static_cast<std::size_t>(o)] =
        row_sum(reinterpret_cast<const std::int8_t*>(weight.impl()->data) + o * patch, patch);
  }
  for (std::int64_t n = 0; n < shape.n; ++n, out += s.positions() * s.o) {
    copy_elements(DType::u8, sizes, image + inside * s.c, to_strides,
                  source.data + n * source.strides[0], std::span(source.strides.data() + 1, 4));
    if (!conv_library_integer(s, image, weight, out)) return false;
    if (zero == 0) continue;
    parallel_for(0, s.positions(),
                 grain_for({.bytes = 8.0 * static_cast<double>(s.o)}, s.positions()),
                 [&](std::int64_t lo, std::int64_t hi) {
                   for (std::int64_t p = lo; p < hi; ++p) {
                     take_off(out + p * s.o, s.o, nothing.data(), 0,
                              static_cast<std::uint32_t>(zero), sums.data());
                   }
                 });
  }
  return true;
}

void conv_integer(const OpCall& call) {
  const auto& attrs = call.attrs_as<ops::ConvAttrs>();
  const Tensor out = with_three_axes(call.outputs[0]);
  if (out.impl()->numel() == 0) return;
  const Tensor given = with_three_axes(moved_bytes(call.inputs[0], DType::u8));
  const Tensor weight = with_three_axes(contiguous_copy(moved_bytes(call.inputs[1], DType::i8)));
  Convolution conv{.s = conv_shape(attrs, given, weight, out)};
  const ConvShape& s = conv.s;
  conv.in_group = s.c / s.groups;
  conv.out_group = s.o / s.groups;
  conv.taps = s.kernel[0] * s.kernel[1] * s.kernel[2];

  auto zx = zero_points(call.inputs[2], move_of(call.inputs[0], DType::u8));
  if (zx.empty()) zx.push_back(0);
  conv.padding = static_cast<std::uint8_t>(zx[0]);
  const auto zw = zero_points(call.inputs[3], move_of(call.inputs[1], DType::i8));
  const bool no_zw = std::ranges::all_of(zw, [](std::int32_t zero) { return zero == 0; });
  if (no_zw && s.groups == 1 && s.flops() > 0 &&
      padded_convolution(s, given, zx[0], weight,
                         reinterpret_cast<std::int32_t*>(out.impl()->data))) {
    return;
  }
  const Tensor x = channels_last(given);
  const std::int64_t w_stride = zw.size() > 1 ? 1 : 0;
  const std::vector<std::int8_t> turned = taps_first(weight, conv);

  const bool by_channel = conv.in_group == 1 && conv.out_group == 1;
  const bool in_place = conv.pointwise();
  const std::int64_t patch = conv.taps * conv.in_group;
  const IntegerGemm whole{.m = s.positions(),
                          .n = conv.out_group,
                          .k = patch,
                          .a_row = in_place ? s.c : patch,
                          .b_row = conv.out_group,
                          .b_column = 1,
                          .c_row = s.o};
  // Positions whose windows, and the sums that come of them, stay in cache.
  constexpr std::int64_t kCached = std::int64_t{256} << 10;
  const std::int64_t block =
      in_place ? whole.m
               : std::min(whole.m, std::max<std::int64_t>(
                                       64, kCached / std::max<std::int64_t>(1, patch) / 32 * 32));
  std::vector<std::vector<std::uint32_t>> sums;
  std::vector<std::vector<std::int16_t>> words;
  for (std::int64_t group = 0; !by_channel && group < s.groups; ++group) {
    const std::int8_t* const b = turned.data() + group * patch * conv.out_group;
    sums.push_back(column_sums(whole, b));
    if (!integer_library_is_exact()) words.push_back(pack_words(whole, b));
  }
  const auto* const images = reinterpret_cast<const std::uint8_t*>(x.impl()->data);
  auto* const results = reinterpret_cast<std::int32_t*>(out.impl()->data);
  const std::int64_t image_size = s.in[0] * s.in[1] * s.in[2] * s.c, result_size = whole.m * s.o;
  if (by_channel) {
    const ZeroPoints zero{.b = zw.empty() ? nullptr : zw.data(), .b_stride = w_stride};
    for (std::int64_t n = 0; n < s.n; ++n) {
      depthwise(conv, images + n * image_size, zx[0], turned, zero, results + n * result_size);
    }
    return;
  }
  if (no_zw && !words.empty() &&
      integer_windows(s, {.images = images,
                          .zero = conv.padding,
                          .words = words[0].data(),
                          .sums = sums[0].data(),
                          .out = results})) {
    return;
  }
  // Threads take blocks where there are several; they share one where there are not.
  const std::int64_t blocks = (whole.m + block - 1) / block, parts = s.n * s.groups * blocks;
  const double flops = 2.0 * static_cast<double>(block * whole.n * whole.k);
  parallel_for(0, parts, grain_for({.flops = flops}, parts), [&](std::int64_t lo, std::int64_t hi) {
    std::vector<std::uint8_t> rows(static_cast<std::size_t>(in_place ? 0 : block * patch));
    for (std::int64_t i = lo; i < hi; ++i) {
      const std::int64_t n = i / (s.groups * blocks), group = i / blocks % s.groups,
                         at = i % blocks * block, first = group * conv.out_group;
      const ZeroPoints zero{.a = zx.data(),
                            .a_stride = 0,
                            .b = zw.empty() ? nullptr : zw.data() + first * w_stride,
                            .b_stride = w_stride,
                            .b_sums = sums[static_cast<std::size_t>(group)].data()};
      const std::uint8_t* const image = images + n * image_size;
      IntegerGemm part = whole;
      part.m = std::min(block, whole.m - at);
      if (!words.empty()) part.b_words = words[static_cast<std::size_t>(group)].data();
      if (!in_place) conv.unfold(image, group, at, part.m, rows.data());
      integer_gemm(part, zero, in_place ? image + group * conv.in_group : rows.data(),
                   turned.data() + first * patch, results + n * result_size + at * s.o + first);
    }
  });
}

Strides output_layout(const OpInfo&, const void*, std::span<const Tensor>, const Shape& shape,
                      int) {
  return channels_last_strides(shape.numbers());
}

}  // namespace

std::span<const NamedKernel> integer_products_kernels() {
  static constexpr NamedKernel kernels[] = {{"matmul_integer", {matmul_integer}},
                                            {"conv_integer", {conv_integer, output_layout}}};
  return kernels;
}

}  // namespace dyad::runtime::cpu
