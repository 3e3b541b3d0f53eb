#include <algorithm>

#include "dyad/core/tensor_impl.h"
#include "dyad/runtime/cpu/winograd.h"
#include "dyad/runtime/cpu/winograd_tiles.h"
#include "dyad/runtime/threads.h"

namespace dyad::runtime::cpu {

ConvShape turned(const ConvShape& shape) noexcept {
  ConvShape s = shape;
  std::swap(s.c, s.o);
  for (int i = 0; i < 3; ++i) {
    std::swap(s.in[i], s.out[i]);
    s.low[i] = shape.kernel[i] - 1 - shape.low[i];
  }
  return s;
}

#ifdef DYAD_WINOGRAD

namespace winograd {
namespace {

// The gradient of a weight's transformed elements is, for each of the 16, a product of the tiles of
// the image, [channels][tiles], with the transformed gradients of the results, [tiles][output
// channels]. Chunks of tiles stay in the last cache; of a chunk every element and panel of output
// channels is a unit of work, which adds its products to sums in memory.
constexpr std::int64_t kChannels = 4;  // whose sums are in registers
/// Tiles, of which the operands of these sums stay in the first cache.
constexpr std::int64_t kStrip = 256;

/// Gradients of the results of tiles, transformed: [element][panel][tile][16].
DYAD_AVX2 void transform_results(const Tiles& tiles, const float* grad, std::int64_t first,
                                 std::int64_t count, float* to, std::int64_t plane,
                                 std::int64_t panel_step) {
  const ConvShape& s = tiles.s;
  const Lying lying(s.o, s.out[1], s.out[2], true);
  for (std::int64_t t = 0; t < count; ++t) {
    const Tile tile(tiles, first + t);
    const float* const image =
        grad + tile.n * lying.image + tile.y * lying.row + tile.x * lying.position;
    const bool has_row = tile.y + 1 < s.out[1], has_column = tile.x + 1 < s.out[2];
    for (std::int64_t block = 0; block < s.o / kBlock; ++block) {
      const float* const at = image + block * kBlock;
      const __m256 zero = _mm256_setzero_ps();
      const __m256 d[2][2] = {
          {_mm256_loadu_ps(at), has_column ? _mm256_loadu_ps(at + lying.position) : zero},
          {has_row ? _mm256_loadu_ps(at + lying.row) : zero,
           has_row && has_column ? _mm256_loadu_ps(at + lying.row + lying.position) : zero}};
      const __m256 rows[4][2] = {{d[0][0], d[0][1]},
                                 {d[0][0] + d[1][0], d[0][1] + d[1][1]},
                                 {d[0][0] - d[1][0], d[0][1] - d[1][1]},
                                 {-d[1][0], -d[1][1]}};
      float* const element = to + block / 2 * panel_step + t * kPanel + block % 2 * kBlock;
      for (int i = 0; i < 4; ++i) {
        const auto& [a, b] = rows[i];
        _mm256_storeu_ps(element + (i * 4 + 0) * plane, a);
        _mm256_storeu_ps(element + (i * 4 + 1) * plane, a + b);
        _mm256_storeu_ps(element + (i * 4 + 2) * plane, a - b);
        _mm256_storeu_ps(element + (i * 4 + 3) * plane, -b);
      }
    }
  }
}

/// sums[4][16] = or += images[tiles][4 of 8], transposed, times results[tiles][16].
DYAD_AVX2 void multiply_strip(const float* images, const float* results, std::int64_t tiles,
                              bool adds, float* sums) {
  panels::sum_products<kChannels, 1, kBlock>(images, 1, results, 0, tiles, adds, sums, 0);
}

/// One row or column of sums, as transform_three of winograd.cpp transposed.
DYAD_AVX2_INLINE void back_to_three(const __m256 (&m)[4], __m256 (&to)[3]) {
  const __m256 half = _mm256_set1_ps(0.5f);
  const __m256 sum = half * (m[1] + m[2]);
  to[0] = m[0] + sum;
  to[1] = half * (m[1] - m[2]);
  to[2] = sum + m[3];
}

/// The gradient of a panel's weights, from their sums [element][c][16].
DYAD_AVX2 void finish_panel(const float* sums, std::int64_t plane, std::int64_t channels,
                            float* weight_grad) {
  for (std::int64_t c = 0; c < channels; ++c) {
    alignas(32) float taps[9][kPanel];
    for (std::int64_t half = 0; half < kPanel; half += kBlock) {
      const float* const element = sums + c * kPanel + half;
      __m256 columns[4][3];
      for (int j = 0; j < 4; ++j) {
        const __m256 column[4] = {_mm256_loadu_ps(element + j * plane),
                                  _mm256_loadu_ps(element + (4 + j) * plane),
                                  _mm256_loadu_ps(element + (8 + j) * plane),
                                  _mm256_loadu_ps(element + (12 + j) * plane)};
        back_to_three(column, columns[j]);
      }
      for (int i = 0; i < 3; ++i) {
        const __m256 row[4] = {columns[0][i], columns[1][i], columns[2][i], columns[3][i]};
        __m256 results[3];
        back_to_three(row, results);
        for (int j = 0; j < 3; ++j) _mm256_store_ps(taps[i * 3 + j] + half, results[j]);
      }
    }
    for (std::int64_t o = 0; o < kPanel; ++o) {
      float* const to = weight_grad + (o * channels + c) * 9;
      for (int tap = 0; tap < 9; ++tap) to[tap] = taps[tap][o];
    }
  }
}

/// How many tiles a chunk has.
std::int64_t tiles_of_chunk(const ConvShape& s) {
  constexpr std::int64_t kFloats = 2 << 20;
  const std::int64_t most = std::clamp<std::int64_t>(kFloats / kElements / (s.c + s.o), 64, 1024);
  return most / kStrip > 0 ? most / kStrip * kStrip : most;
}

}  // namespace
}  // namespace winograd

void winograd_backward_weight(const ConvShape& s, const float* x, const float* grad,
                              float* weight_grad) {
  using namespace winograd;
  const Tiles tiles(s);
  const Lying lying(s.c, s.in[1], s.in[2], true);
  const std::int64_t all = tiles.count(), panels = s.o / kPanel;
  const std::int64_t most = std::min(all, tiles_of_chunk(s));
  const std::int64_t image_plane = most * s.c + kGap, result_plane = most * s.o + kGap,
                     sum_plane = s.c * kPanel;
  const Tensor room =
      make_empty(DType::f32, {kElements * (image_plane + result_plane + panels * sum_plane)});
  auto* const images = reinterpret_cast<float*>(room.impl()->data);
  float* const results = images + kElements * image_plane;
  float* const sums = results + kElements * result_plane;

  for (std::int64_t first = 0; first < all; first += most) {
    const std::int64_t count = std::min(most, all - first);
    const Cost turning{.bytes = static_cast<double>(5 * 4 * kElements / 4 * (s.c + s.o))};
    parallel_for(0, count, grain_for(turning, count), [&](std::int64_t lo, std::int64_t hi) {
      transform_tiles(tiles, x, lying, first + lo, hi - lo, images + lo * kBlock, image_plane,
                      kBlock, count * kBlock);
      transform_results(tiles, grad, first + lo, hi - lo, results + lo * kPanel, result_plane,
                        count * kPanel);
    });
    const std::int64_t units = kElements * panels;
    const Cost multiplying{.flops = 2.0 * static_cast<double>(count * s.c * kPanel)};
    parallel_for(0, units, grain_for(multiplying, units), [&](std::int64_t lo, std::int64_t hi) {
      for (std::int64_t unit = lo; unit < hi; ++unit) {
        const std::int64_t element = unit / panels, panel = unit % panels;
        for (std::int64_t strip = 0; strip < count; strip += kStrip) {
          for (std::int64_t c = 0; c < s.c; c += kChannels) {
            multiply_strip(
                images + element * image_plane + (c / kBlock * count + strip) * kBlock + c % kBlock,
                results + element * result_plane + (panel * count + strip) * kPanel,
                std::min(kStrip, count - strip), first + strip > 0,
                sums + (panel * kElements + element) * sum_plane + c * kPanel);
          }
        }
      }
    });
  }
  const Cost finishing{.bytes = static_cast<double>(4 * s.c * kPanel * (kElements + 9))};
  parallel_for(0, panels, grain_for(finishing, panels), [&](std::int64_t lo, std::int64_t hi) {
    for (std::int64_t panel = lo; panel < hi; ++panel) {
      finish_panel(sums + panel * kElements * sum_plane, sum_plane, s.c,
                   weight_grad + panel * kPanel * s.c * 9);
    }
  });
}

namespace winograd {
namespace {

/// Calls `pack(panel)` for each panel of so many weights.
template <class Pack>
void for_panels(std::int64_t panels, std::int64_t weights, const Pack& pack) {
  const Cost cost{.bytes = static_cast<double>(16 * weights)};
  parallel_for(0, panels, grain_for(cost, panels), [&](std::int64_t lo, std::int64_t hi) {
    for (std::int64_t panel = lo; panel < hi; ++panel) pack(panel);
  });
}

}  // namespace
}  // namespace winograd

void pack_for_winograd(const float* weight, std::int64_t o, std::int64_t c, float* panels) {
  constexpr std::int64_t kPanel = kWinogradPanel;
  winograd::for_panels(o / kPanel, c * 9 * kPanel, [&](std::int64_t panel) {
    const float* const from = weight + panel * kPanel * c * 9;
    float* const to = panels + panel * c * 9 * kPanel;
    for (std::int64_t at = 0; at < c * 9; ++at) {
      for (std::int64_t lane = 0; lane < kPanel; ++lane) {
        to[at * kPanel + lane] = from[lane * c * 9 + at];
      }
    }
  });
}

void pack_turned_for_winograd(const float* weight, std::int64_t o, std::int64_t c, float* panels) {
  constexpr std::int64_t kPanel = kWinogradPanel;
  winograd::for_panels(c / kPanel, o * 9 * kPanel, [&](std::int64_t panel) {
    for (std::int64_t row = 0; row < o; ++row) {
      const float* const from = weight + (row * c + panel * kPanel) * 9;
      float* const to = panels + (panel * o + row) * 9 * kPanel;
      for (std::int64_t tap = 0; tap < 9; ++tap) {
        for (std::int64_t lane = 0; lane < kPanel; ++lane) {
          to[(8 - tap) * kPanel + lane] = from[lane * 9 + tap];
        }
      }
    }
  });
}

#else

void winograd_backward_weight(const ConvShape&, const float*, const float*, float*) {}
void pack_for_winograd(const float*, std::int64_t, std::int64_t, float*) {}
void pack_turned_for_winograd(const float*, std::int64_t, std::int64_t, float*) {}

#endif

}  // namespace dyad::runtime::cpu
