#pragma once

#include "dyad/ops/attrs/epilogue.h"
#include "dyad/runtime/cpu/conv.h"
#include "dyad/runtime/cpu/onednn.h"
#include "dyad/runtime/cpu/panel_tiles.h"
#include "dyad/runtime/cpu/vector_math.h"
#include "dyad/runtime/cpu/winograd.h"

// The tiles of Winograd's way (winograd.h), for the sources that compute it.
#ifdef DYAD_PANEL_TILES
#define DYAD_WINOGRAD

namespace dyad::runtime::cpu::winograd {

// A tile is 4 x 4 positions of the image, two apart from its neighbours, and gives 2 x 2 results.
inline constexpr std::int64_t kBlock = ops::kChannelBlock, kElements = 16, kPanel = kWinogradPanel;
/// Between the matrices of an operand, so that they do not meet in the sets of a cache.
inline constexpr std::int64_t kGap = 16;

/// Whether vectors of 16 elements are computed with, not of eight: where the CPU has them, and both
/// operands' channels come in such numbers, one after the other.
[[nodiscard]] inline bool is_wide(const ConvShape& s) noexcept {
  static const bool has_wide = onednn::uses(dnnl_cpu_isa_avx512_core);
  return has_wide && s.c % kPanel == 0 && s.o % kPanel == 0;
}

/// Calls `body<kBytes>()`, which is always inline, compiled for vectors of that size.
template <class Body>
DYAD_AVX2 void in_narrow_vectors(const Body& body) {
  body.template operator()<32>();
}
template <class Body>
DYAD_AVX512 void in_wide_vectors(const Body& body) {
  body.template operator()<64>();
}
template <class Body>
void in_vectors(bool is_wide, const Body& body) {
  is_wide ? in_wide_vectors(body) : in_narrow_vectors(body);
}
template <int kBytes>
using Vector = vector_math::Vector<float, kBytes>;
template <int kBytes>
inline constexpr std::int64_t kLanes = vector_math::kVectorLanes<float, kBytes>;

template <int kBytes>
[[gnu::always_inline]] inline void load(const float* from, Vector<kBytes>& to) {
  to = *reinterpret_cast<const vector_math::Unaligned<float, kBytes>*>(from);
}
template <int kBytes>
[[gnu::always_inline]] inline void store(float* to, const Vector<kBytes>& from) {
  *reinterpret_cast<vector_math::Unaligned<float, kBytes>*>(to) = from;
}

struct Tiles {
  explicit Tiles(const ConvShape& shape)
      : s(shape), down((s.out[1] + 1) / 2), across((s.out[2] + 1) / 2) {}
  [[nodiscard]] std::int64_t count() const noexcept { return s.n * down * across; }

  const ConvShape& s;
  std::int64_t down, across;  ///< of an image
};

struct Tile {
  Tile(const Tiles& tiles, std::int64_t number)
      : n(number / (tiles.down * tiles.across)),
        y(number / tiles.across % tiles.down * 2),
        x(number % tiles.across * 2) {}
  std::int64_t n, y, x;  ///< image, first result
};

/// Images of which some channels side by side, a block, are read or written: [n, h, w, c], or
/// [n, c / 8, h, w, 8].
struct Lying {
  Lying(std::int64_t channels, std::int64_t height, std::int64_t width, bool is_channels_last,
        std::int64_t lanes)
      : image(channels * height * width),
        position(is_channels_last ? channels : kBlock),
        row(width * position),
        block(is_channels_last ? lanes : height * width * kBlock) {}
  /// Between neighbours: images, positions, rows, blocks of channels.
  std::int64_t image, position, row, block;
};

/// One row or column of a tile.
template <int kBytes>
[[gnu::always_inline]] inline void transform_four(Vector<kBytes> (&d)[4]) {
  const Vector<kBytes> a = d[0] - d[2], b = d[1] + d[2], c = d[2] - d[1], e = d[1] - d[3];
  d[0] = a, d[1] = b, d[2] = c, d[3] = e;
}

/// Tiles of an image in the form in which they are multiplied: 16 elements, `plane` apart, of
/// tiles, `tile` apart, and blocks of channels, `block` apart.
template <int kBytes>
[[gnu::always_inline]] inline void transform_tiles(const Tiles& tiles, const float* x,
                                                   bool is_channels_last, std::int64_t first,
                                                   std::int64_t count, float* to,
                                                   std::int64_t plane, std::int64_t tile_step,
                                                   std::int64_t block_step) {
  const ConvShape& s = tiles.s;
  const std::int64_t height = s.in[1], width = s.in[2], blocks = s.c / kLanes<kBytes>;
  const Lying lying(s.c, height, width, is_channels_last, kLanes<kBytes>);
  for (std::int64_t t = 0; t < count; ++t) {
    const Tile tile(tiles, first + t);
    const std::int64_t top = tile.y - s.low[1], left = tile.x - s.low[2];
    const bool is_inside = top >= 0 && left >= 0 && top + 4 <= height && left + 4 <= width;
    for (std::int64_t block = 0; block < blocks; ++block) {
      const float* const image = x + tile.n * lying.image + block * lying.block;
      Vector<kBytes> d[4][4];
      for (int i = 0; i < 4; ++i) {
        const std::int64_t row = top + i;
        for (int j = 0; j < 4; ++j) {
          const std::int64_t column = left + j;
          const bool is_there =
              is_inside || (row >= 0 && row < height && column >= 0 && column < width);
          d[i][j] = Vector<kBytes>{};
          if (is_there) load<kBytes>(image + row * lying.row + column * lying.position, d[i][j]);
        }
      }
      for (int j = 0; j < 4; ++j) {
        Vector<kBytes> column[4] = {d[0][j], d[1][j], d[2][j], d[3][j]};
        transform_four<kBytes>(column);
        for (int i = 0; i < 4; ++i) d[i][j] = column[i];
      }
      float* const element = to + t * tile_step + block * block_step;
      for (int i = 0; i < 4; ++i) {
        transform_four<kBytes>(d[i]);
        for (int j = 0; j < 4; ++j) store<kBytes>(element + (i * 4 + j) * plane, d[i][j]);
      }
    }
  }
}

}  // namespace dyad::runtime::cpu::winograd

#endif
