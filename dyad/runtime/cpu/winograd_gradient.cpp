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

/// Tiles, of which the operands of these sums stay in the first cache.
constexpr std::int64_t kStrip = 256;

/// Gradients of the results of tiles, transformed: [element][panel][tile][16].
template <int kBytes>
[[gnu::always_inline]] inline void transform_results(const Tiles& tiles, const float* grad,
                                                     std::int64_t first, std::int64_t count,
                                                     float* to, std::int64_t plane,
                                                     std::int64_t panel_step) {
  using V = Vector<kBytes>;
  constexpr std::int64_t kInPanel = kPanel / kLanes<kBytes>;
  const ConvShape& s = tiles.s;
  const Lying lying(s.o, s.out[1], s.out[2], true, kLanes<kBytes>);
  for (std::int64_t t = 0; t < count; ++t) {
    const Tile tile(tiles, first + t);
    const float* const image =
        grad + tile.n * lying.image + tile.y * lying.row + tile.x * lying.position;
    const bool has_row = tile.y + 1 < s.out[1], has_column = tile.x + 1 < s.out[2];
    for (std::int64_t block = 0; block < s.o / kLanes<kBytes>; ++block) {
      const float* const at = image + block * lying.block;
      V d[2][2] = {};
      load<kBytes>(at, d[0][0]);
      if (has_column) load<kBytes>(at + lying.position, d[0][1]);
      if (has_row) load<kBytes>(at + lying.row, d[1][0]);
      if (has_row && has_column) load<kBytes>(at + lying.row + lying.position, d[1][1]);
      const V rows[4][2] = {{d[0][0], d[0][1]},
                            {d[0][0] + d[1][0], d[0][1] + d[1][1]},
                            {d[0][0] - d[1][0], d[0][1] - d[1][1]},
                            {-d[1][0], -d[1][1]}};
      float* const element =
          to + block / kInPanel * panel_step + t * kPanel + block % kInPanel * kLanes<kBytes>;
      for (int i = 0; i < 4; ++i) {
        const V &a = rows[i][0], &b = rows[i][1];
        store<kBytes>(element + (i * 4 + 0) * plane, a);
        store<kBytes>(element + (i * 4 + 1) * plane, a + b);
        store<kBytes>(element + (i * 4 + 2) * plane, a - b);
        store<kBytes>(element + (i * 4 + 3) * plane, -b);
      }
    }
  }
}

/// Some channels of a strip of tiles, side by side in rows of a vector, times the results of
/// panels: sums[panels][channels][16] = or += images[tiles][channels], transposed, times
/// results[panels][tiles][16].
struct Strip {
  const float *images, *results;
  std::int64_t next_panel, tiles;
  bool adds;
  float* sums;
  std::int64_t next_sums;
};
/// Channels whose sums are in registers.
constexpr std::int64_t kNarrowChannels = 4, kWideChannels = 8;

DYAD_AVX2 void multiply_strip(const Strip& s) {
  panels::sum_products<kNarrowChannels, 1, kBlock>(s.images, 1, s.results, 0, s.tiles, s.adds,
                                                   s.sums, 0);
}
template <int kPanels>
DYAD_AVX512 void multiply_wide_strip(const Strip& s) {
  panels::wide::sum_products<kWideChannels, kPanels, kPanel>(s.images, 1, s.results, s.next_panel,
                                                             s.tiles, s.adds, s.sums, s.next_sums);
}

/// One row or column of sums, as transform_three of winograd.cpp transposed.
template <int kBytes>
[[gnu::always_inline]] inline void back_to_three(const Vector<kBytes> (&m)[4],
                                                 Vector<kBytes> (&to)[3]) {
  const Vector<kBytes> sum = 0.5f * (m[1] + m[2]);
  to[0] = m[0] + sum;
  to[1] = 0.5f * (m[1] - m[2]);
  to[2] = sum + m[3];
}

/// The gradient of a panel's weights, from their sums [element][c][16].
template <int kBytes>
[[gnu::always_inline]] inline void finish_panel(const float* sums, std::int64_t plane,
                                                std::int64_t channels, float* weight_grad) {
  using V = Vector<kBytes>;
  for (std::int64_t c = 0; c < channels; ++c) {
    alignas(64) float taps[9][kPanel];
    for (std::int64_t lane = 0; lane < kPanel; lane += kLanes<kBytes>) {
      const float* const element = sums + c * kPanel + lane;
      V columns[4][3];
      for (int j = 0; j < 4; ++j) {
        V column[4];
        for (int i = 0; i < 4; ++i) load<kBytes>(element + (i * 4 + j) * plane, column[i]);
        back_to_three<kBytes>(column, columns[j]);
      }
      for (int i = 0; i < 3; ++i) {
        const V row[4] = {columns[0][i], columns[1][i], columns[2][i], columns[3][i]};
        V results[3];
        back_to_three<kBytes>(row, results);
        for (int j = 0; j < 3; ++j) store<kBytes>(taps[i * 3 + j] + lane, results[j]);
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
  const bool wide = is_wide(s);
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
    const Cost turning{.bytes = 5.0 * static_cast<double>(kElements * (s.c + s.o))};
    parallel_for(0, count, grain_for(turning, count), [&](std::int64_t lo, std::int64_t hi) {
      in_vectors(wide, [&]<int kBytes>() __attribute__((always_inline)) {
        transform_tiles<kBytes>(tiles, x, true, first + lo, hi - lo, images + lo * kLanes<kBytes>,
                                image_plane, kLanes<kBytes>, count * kLanes<kBytes>);
        transform_results<kBytes>(tiles, grad, first + lo, hi - lo, results + lo * kPanel,
                                  result_plane, count * kPanel);
      });
    });
    // Panels side by side that are multiplied at once, and lanes of a row of images.
    const std::int64_t together = wide ? 2 : 1, lanes = wide ? kPanel : kBlock,
                       channels = wide ? kWideChannels : kNarrowChannels;
    const std::int64_t groups = (panels + together - 1) / together, units = kElements * groups;
    const Cost multiplying{.flops = 2.0 * static_cast<double>(count * s.c * kPanel * together)};
    parallel_for(0, units, grain_for(multiplying, units), [&](std::int64_t lo, std::int64_t hi) {
      for (std::int64_t unit = lo; unit < hi; ++unit) {
        const std::int64_t element = unit / groups, panel = unit % groups * together;
        const auto multiply = !wide                ? multiply_strip
                              : panel + 1 < panels ? multiply_wide_strip<2>
                                                   : multiply_wide_strip<1>;
        for (std::int64_t strip = 0; strip < count; strip += kStrip) {
          for (std::int64_t c = 0; c < s.c; c += channels) {
            multiply(
                {.images = images + element * image_plane + (c / lanes * count + strip) * lanes +
                           c % lanes,
                 .results = results + element * result_plane + (panel * count + strip) * kPanel,
                 .next_panel = count * kPanel,
                 .tiles = std::min(kStrip, count - strip),
                 .adds = first + strip > 0,
                 .sums = sums + (panel * kElements + element) * sum_plane + c * kPanel,
                 .next_sums = kElements * sum_plane});
          }
        }
      }
    });
  }
  const Cost finishing{.bytes = static_cast<double>(4 * s.c * kPanel * (kElements + 9))};
  parallel_for(0, panels, grain_for(finishing, panels), [&](std::int64_t lo, std::int64_t hi) {
    in_vectors(wide, [&]<int kBytes>() __attribute__((always_inline)) {
      for (std::int64_t panel = lo; panel < hi; ++panel) {
        finish_panel<kBytes>(sums + panel * kElements * sum_plane, sum_plane, s.c,
                             weight_grad + panel * kPanel * s.c * 9);
      }
    });
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
