#pragma once

#include "dyad/ops/attrs/epilogue.h"
#include "dyad/runtime/cpu/conv.h"
#include "dyad/runtime/cpu/panel_tiles.h"
#include "dyad/runtime/cpu/winograd.h"

// The tiles of Winograd's way (winograd.h), for the sources that compute it.
#ifdef DYAD_PANEL_TILES
#define DYAD_WINOGRAD

namespace dyad::runtime::cpu::winograd {

// A tile is 4 x 4 positions of the image, two apart from its neighbours, and gives 2 x 2 results.
inline constexpr std::int64_t kBlock = ops::kChannelBlock, kElements = 16, kPanel = kWinogradPanel;
/// Between the matrices of an operand, so that they do not meet in the sets of a cache.
inline constexpr std::int64_t kGap = 16;

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

/// Images of which eight channels side by side are read or written: [n, h, w, c], or
/// [n, c / 8, h, w, 8].
struct Lying {
  Lying(std::int64_t channels, std::int64_t height, std::int64_t width, bool is_channels_last)
      : image(channels * height * width),
        position(is_channels_last ? channels : kBlock),
        row(width * position),
        block(is_channels_last ? kBlock : height * width * kBlock) {}
  /// Between neighbours: images, positions, rows, blocks of channels.
  std::int64_t image, position, row, block;
};

/// One row or column of a tile.
DYAD_AVX2_INLINE void transform_four(__m256 (&d)[4]) {
  const __m256 a = d[0] - d[2], b = d[1] + d[2], c = d[2] - d[1], e = d[1] - d[3];
  d[0] = a, d[1] = b, d[2] = c, d[3] = e;
}

/// Tiles of an image in the form in which they are multiplied: 16 elements, `plane` apart, of
/// tiles, `tile` apart, and blocks of eight channels, `block` apart.
DYAD_AVX2 inline void transform_tiles(const Tiles& tiles, const float* x, const Lying& lying,
                                      std::int64_t first, std::int64_t count, float* to,
                                      std::int64_t plane, std::int64_t tile_step,
                                      std::int64_t block_step) {
  const ConvShape& s = tiles.s;
  const std::int64_t height = s.in[1], width = s.in[2], blocks = s.c / kBlock;
  for (std::int64_t t = 0; t < count; ++t) {
    const Tile tile(tiles, first + t);
    const std::int64_t top = tile.y - s.low[1], left = tile.x - s.low[2];
    const bool is_inside = top >= 0 && left >= 0 && top + 4 <= height && left + 4 <= width;
    for (std::int64_t block = 0; block < blocks; ++block) {
      const float* const image = x + tile.n * lying.image + block * lying.block;
      __m256 d[4][4];
      for (int i = 0; i < 4; ++i) {
        const std::int64_t row = top + i;
        for (int j = 0; j < 4; ++j) {
          const std::int64_t column = left + j;
          const bool is_there =
              is_inside || (row >= 0 && row < height && column >= 0 && column < width);
          d[i][j] = is_there ? _mm256_loadu_ps(image + row * lying.row + column * lying.position)
                             : _mm256_setzero_ps();
        }
      }
      for (int j = 0; j < 4; ++j) {
        __m256 column[4] = {d[0][j], d[1][j], d[2][j], d[3][j]};
        transform_four(column);
        for (int i = 0; i < 4; ++i) d[i][j] = column[i];
      }
      float* const element = to + t * tile_step + block * block_step;
      for (int i = 0; i < 4; ++i) {
        transform_four(d[i]);
        for (int j = 0; j < 4; ++j) _mm256_storeu_ps(element + (i * 4 + j) * plane, d[i][j]);
      }
    }
  }
}

}  // namespace dyad::runtime::cpu::winograd

#endif
