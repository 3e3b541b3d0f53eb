#include "dyad/runtime/cpu/winograd.h"

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <utility>

#include "dyad/core/tensor_impl.h"
#include "dyad/runtime/cpu/winograd_tiles.h"
#include "dyad/runtime/library_calls.h"
#include "dyad/runtime/threads.h"

namespace dyad::runtime::cpu {

#ifdef DYAD_WINOGRAD

namespace winograd {
namespace {

// Transformed, the 16 elements of a tile are multiplied each with its own matrix of weights: 16
// products of [tiles][c] with [c][16 output channels], whose sums transformed back are the results.
//
// A chunk of tiles stays in the second cache while all panels of weights pass by; these are
// transformed on the way, kDepth channels at a time, so that they take no more memory than before.
constexpr std::int64_t kDepth = 64;

/// One row or column of weights. Halves are exact.
template <int kBytes>
[[gnu::always_inline]] inline void transform_three(const Vector<kBytes>& a, const Vector<kBytes>& b,
                                                   const Vector<kBytes>& c,
                                                   Vector<kBytes> (&to)[4]) {
  const Vector<kBytes> outer = 0.5f * (a + c), middle = 0.5f * b;
  to[0] = a;
  to[1] = outer + middle;
  to[2] = outer - middle;
  to[3] = c;
}

/// Weights of a panel, [c][3][3][16], in the form in which they are multiplied: [element][c][16].
template <int kBytes>
[[gnu::always_inline]] inline void transform_weights(const float* weight, std::int64_t channels,
                                                     float* to, std::int64_t plane) {
  for (std::int64_t c = 0; c < channels; ++c) {
    for (std::int64_t lane = 0; lane < kPanel; lane += kLanes<kBytes>) {
      const float* const taps = weight + c * 9 * kPanel + lane;
      Vector<kBytes> tap[3][3], columns[3][4];
      for (int i = 0; i < 3; ++i) {
        for (int j = 0; j < 3; ++j) load<kBytes>(taps + (i * 3 + j) * kPanel, tap[i][j]);
      }
      for (int j = 0; j < 3; ++j)
        transform_three<kBytes>(tap[0][j], tap[1][j], tap[2][j], columns[j]);
      float* const element = to + c * kPanel + lane;
      for (int i = 0; i < 4; ++i) {
        Vector<kBytes> row[4];
        transform_three<kBytes>(columns[0][i], columns[1][i], columns[2][i], row);
        for (int j = 0; j < 4; ++j) store<kBytes>(element + (i * 4 + j) * plane, row[j]);
      }
    }
  }
}

/// sums[tiles][16] = or += tiles[tiles][channels] times weights[channels][16].
template <int kCount>
DYAD_AVX2 void multiply(const float* tiles, std::int64_t row, const float* weights,
                        std::int64_t channels, bool adds, float* sums) {
  panels::sum_products<kCount>(tiles, row, weights, 0, channels, adds, sums, 0);
}
template <int kCount>
DYAD_AVX512 void multiply_wide(const float* tiles, std::int64_t row, const float* weights,
                               std::int64_t channels, bool adds, float* sums) {
  panels::wide::sum_products<kCount>(tiles, row, weights, 0, channels, adds, sums, 0);
}

/// Those for every number of tiles whose sums fit into registers, from 1 on.
using Multiply = void (*)(const float*, std::int64_t, const float*, std::int64_t, bool, float*);
template <std::size_t... I>
constexpr std::array<Multiply, sizeof...(I)> all_narrow(std::index_sequence<I...>) {
  return {multiply<I + 1>...};
}
template <std::size_t... I>
constexpr std::array<Multiply, sizeof...(I)> all_wide(std::index_sequence<I...>) {
  return {multiply_wide<I + 1>...};
}
std::span<const Multiply> multiplications(bool wide) noexcept {
  static constexpr auto kNarrow = all_narrow(std::make_index_sequence<panels::kRowsOfTile>());
  static constexpr auto kWide = all_wide(std::make_index_sequence<panels::wide::kRowsOfTile>());
  if (wide) return kWide;
  return kNarrow;
}

/// The same for any number of tiles, shared out so that no few are left over.
void multiply_all(std::span<const Multiply> multiply, const float* tiles, std::int64_t count,
                  std::int64_t row, const float* weights, std::int64_t channels, bool adds,
                  float* sums) {
  const auto most = static_cast<std::int64_t>(multiply.size());
  const std::int64_t parts = (count + most - 1) / most;
  for (std::int64_t part = 0; part < parts; ++part) {
    const std::int64_t begin = part * count / parts, end = (part + 1) * count / parts;
    multiply[static_cast<std::size_t>(end - begin - 1)](tiles + begin * row, row, weights, channels,
                                                        adds, sums + begin * kPanel);
  }
}

/// What is done to a result before it is stored.
struct Finish {
  explicit Finish(const Epilogue& epilogue) {
    if (epilogue.activation == Epilogue::Activation::relu) low = 0;
    if (epilogue.activation != Epilogue::Activation::clamp) return;
    low = epilogue.alpha;
    high = epilogue.beta;
  }
  float low = -std::numeric_limits<float>::infinity();
  float high = std::numeric_limits<float>::infinity();
};

/// The results of tiles from their sums, [element][tile][16]: those of the channels from `channel`
/// on, one vector.
template <int kBytes>
[[gnu::always_inline]] inline void finish_tiles(const Tiles& tiles,
                                                const WinogradOperands& operands,
                                                const Finish& finish, std::int64_t first,
                                                std::int64_t count, std::int64_t channel,
                                                const float* sums, std::int64_t plane) {
  using V = Vector<kBytes>;
  const ConvShape& s = tiles.s;
  const std::int64_t height = s.out[1], width = s.out[2];
  const Lying lying(s.o, height, width, operands.out_is_channels_last, kLanes<kBytes>);
  const V low = V{} + finish.low, high = V{} + finish.high;
  V bias{};
  if (operands.bias) load<kBytes>(operands.bias + channel, bias);
  for (std::int64_t t = 0; t < count; ++t) {
    const Tile tile(tiles, first + t);
    const float* const element = sums + t * kPanel;
    V rows[2][4];
    for (int j = 0; j < 4; ++j) {
      V a, b, c, d;
      load<kBytes>(element + j * plane, a);
      load<kBytes>(element + (4 + j) * plane, b);
      load<kBytes>(element + (8 + j) * plane, c);
      load<kBytes>(element + (12 + j) * plane, d);
      rows[0][j] = a + b + c;
      rows[1][j] = b - c - d;
    }
    const std::int64_t image = tile.n * lying.image + channel / kLanes<kBytes> * lying.block;
    for (int i = 0; i < 2 && tile.y + i < height; ++i) {
      const V(&r)[4] = rows[i];
      const V results[2] = {r[0] + r[1] + r[2], r[1] - r[2] - r[3]};
      for (int j = 0; j < 2 && tile.x + j < width; ++j) {
        const std::int64_t at = image + (tile.y + i) * lying.row + (tile.x + j) * lying.position;
        V result = results[j] + bias;
        if (operands.residual) {
          V residual;
          load<kBytes>(operands.residual + at, residual);
          result += residual;
        }
        // NaN is neither below nor above and stays.
        result = result < low ? low : result;
        result = result > high ? high : result;
        store<kBytes>(operands.out + at, result);
      }
    }
  }
}

/// How the work is cut: chunks of tiles, each with the panels of some groups.
struct Parts {
  Parts(const ConvShape& s, std::int64_t tiles, bool wide) {
    const std::int64_t threads = team_size(), panels = s.o / kPanel;
    // CPUs with wide vectors have second caches of 1 MB and more.
    const std::int64_t elements = wide ? 24576 : 6144;
    const std::int64_t most = std::clamp<std::int64_t>(elements / s.c, 24, 96);
    chunks = (tiles + most - 1) / most;
    if (chunks >= threads) chunks = (chunks + threads - 1) / threads * threads;
    while (chunks * groups < threads && panels >= 2 * groups) groups *= 2;
    chunks = std::min(chunks, tiles);
  }
  std::int64_t chunks = 1, groups = 1;
};

}  // namespace
}  // namespace winograd

bool suits_winograd(const ConvShape& s, const Epilogue& epilogue) noexcept {
  using Activation = Epilogue::Activation;
  constexpr std::int64_t kChannels = 32;
  static const bool has_instructions =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool is_plain = s.flat() && s.groups == 1 && s.dtype == DType::f32 && s.kernel[1] == 3 &&
                        s.kernel[2] == 3 && s.stride[1] == 1 && s.stride[2] == 1 &&
                        s.dilation[1] == 1 && s.dilation[2] == 1;
  const bool is_bounded = epilogue.activation == Activation::none ||
                          epilogue.activation == Activation::relu ||
                          epilogue.activation == Activation::clamp;
  return has_instructions && is_plain && is_bounded && s.c % winograd::kBlock == 0 &&
         s.o % kWinogradPanel == 0 && std::min(s.c, s.o) >= kChannels && s.n * s.positions() > 0;
}

bool repays_winograd(const ConvShape& s) noexcept {
  constexpr std::int64_t kPositions = 256, kWideChannels = 2048;
  if (!suits_winograd(s, {}) || s.n * s.positions() < kPositions) return false;
  static const bool is_fastest = prefers_channel_blocks();
  return is_fastest || (winograd::is_wide(s) && s.c * s.o >= kWideChannels);
}

bool repays_winograd_for_weight(const ConvShape& s) noexcept {
  constexpr std::int64_t kWideChannels = 48;
  return repays_winograd(s) && (!winograd::is_wide(s) || std::min(s.c, s.o) >= kWideChannels);
}

void winograd_forward(const ConvShape& s, const WinogradOperands& operands,
                      const Epilogue& epilogue) {
  using namespace winograd;
  const Tiles tiles(s);
  const Finish finish(epilogue);
  const bool wide = is_wide(s) && operands.x_is_channels_last && operands.out_is_channels_last;
  const std::span<const Multiply> multiply = multiplications(wide);
  const std::int64_t all = tiles.count(), panels = s.o / kPanel;
  const Parts parts(s, all, wide);
  const std::int64_t most = (all + parts.chunks - 1) / parts.chunks;
  const std::int64_t tile_plane = most * s.c + kGap, weight_plane = kDepth * kPanel + kGap,
                     sum_plane = most * kPanel + kGap;
  const std::int64_t units = parts.chunks * parts.groups;
  const Cost cost{.flops = s.flops() / 2 / static_cast<double>(units)};
  parallel_for(0, units, grain_for(cost, units), [&](std::int64_t lo, std::int64_t hi) {
    const Tensor room =
        make_empty(DType::f32, {kElements * (tile_plane + weight_plane + sum_plane)});
    auto* const elements = reinterpret_cast<float*>(room.impl()->data);
    float* const weights = elements + kElements * tile_plane;
    float* const sums = weights + kElements * weight_plane;
    for (std::int64_t unit = lo; unit < hi; ++unit) {
      const std::int64_t chunk = unit / parts.groups, group = unit % parts.groups;
      const std::int64_t first = chunk * all / parts.chunks,
                         count = (chunk + 1) * all / parts.chunks - first;
      in_vectors(wide, [&]<int kBytes>() __attribute__((always_inline)) {
        transform_tiles<kBytes>(tiles, operands.x, operands.x_is_channels_last, first, count,
                                elements, tile_plane, s.c, kLanes<kBytes>);
      });
      for (std::int64_t panel = group * panels / parts.groups;
           panel < (group + 1) * panels / parts.groups; ++panel) {
        for (std::int64_t c = 0; c < s.c; c += kDepth) {
          const std::int64_t depth = std::min(kDepth, s.c - c);
          in_vectors(wide, [&]<int kBytes>() __attribute__((always_inline)) {
            transform_weights<kBytes>(operands.weight + (panel * s.c + c) * 9 * kPanel, depth,
                                      weights, weight_plane);
          });
          // The next weights are fetched while these are multiplied.
          const float* const next = operands.weight + (panel * s.c + c + depth) * 9 * kPanel;
          const std::int64_t lines = depth * 9 / kElements;
          for (std::int64_t e = 0; e < kElements; ++e) {
            for (std::int64_t line = e * lines; line < (e + 1) * lines; ++line) {
              __builtin_prefetch(next + line * kPanel, 0, 2);
            }
            multiply_all(multiply, elements + e * tile_plane + c, count, s.c,
                         weights + e * weight_plane, depth, c > 0, sums + e * sum_plane);
          }
        }
        in_vectors(wide, [&]<int kBytes>() __attribute__((always_inline)) {
          for (std::int64_t lane = 0; lane < kPanel; lane += kLanes<kBytes>) {
            finish_tiles<kBytes>(tiles, operands, finish, first, count, panel * kPanel + lane,
                                 sums + lane, sum_plane);
          }
        });
      }
    }
  });
}

#else

bool suits_winograd(const ConvShape&, const Epilogue&) noexcept { return false; }
bool repays_winograd(const ConvShape&) noexcept { return false; }
bool repays_winograd_for_weight(const ConvShape&) noexcept { return false; }
void winograd_forward(const ConvShape&, const WinogradOperands&, const Epilogue&) {}

#endif

}  // namespace dyad::runtime::cpu
