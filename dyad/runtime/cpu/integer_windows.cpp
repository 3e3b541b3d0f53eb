#include "dyad/runtime/cpu/integer_windows.h"

#include <algorithm>
#include <vector>

#include "dyad/runtime/cpu/integer_words.h"
#include "dyad/runtime/cpu/vector_clones.h"
#include "dyad/runtime/threads.h"

namespace dyad::runtime::cpu {
namespace {

/// Positions of a block: their sums with one panel stay in the first cache.
constexpr std::int64_t kMostPositions = 128;
/// Words of the part of an image that a block reads: they stay in the second cache.
constexpr std::int64_t kMostWords = std::int64_t{128} << 10;
/// Words side by side that are worth a call of the product.
constexpr std::int64_t kLeastRun = 32;

constexpr std::int64_t parts_of(std::int64_t all, std::int64_t most) {
  return (all + most - 1) / most;
}

/// to[rows][width] = sums - zero * by_column, modulo 2^32.
DYAD_VECTOR_CLONES void put_sums(const std::int32_t* sums, std::int64_t rows, std::int64_t width,
                                 std::uint32_t zero, const std::uint32_t* by_column,
                                 std::int32_t* to, std::int64_t to_row) {
  std::uint32_t off[kWordColumns];
  for (std::int64_t j = 0; j < kWordColumns; ++j) off[j] = j < width ? zero * by_column[j] : 0;
  for (std::int64_t i = 0; i < rows; ++i, sums += kWordColumns, to += to_row) {
    if (width == kWordColumns) {
      for (std::int64_t j = 0; j < kWordColumns; ++j) {
        to[j] = static_cast<std::int32_t>(static_cast<std::uint32_t>(sums[j]) - off[j]);
      }
    } else {
      for (std::int64_t j = 0; j < width; ++j) {
        to[j] = static_cast<std::int32_t>(static_cast<std::uint32_t>(sums[j]) - off[j]);
      }
    }
  }
}

/// Taps of a row of the window whose elements follow one another.
std::int64_t side_by_side(const ConvShape& s) noexcept {
  return s.dilation[2] == 1 ? s.kernel[2] : 1;
}

bool suits(const ConvShape& s) noexcept {
  return has_integer_words() && s.groups == 1 && s.flat() && s.c % 2 == 0 &&
         s.kernel[1] * s.kernel[2] > 1 && side_by_side(s) * s.c >= kLeastRun;
}

/// A convolution in blocks: some rows and columns of positions of one image.
class Blocks {
 public:
  Blocks(const ConvShape& shape, const IntegerWindows& operands) noexcept
      : s_(shape),
        x_(operands),
        side_by_side_(side_by_side(s_)),
        panels_((s_.o + kWordColumns - 1) / kWordColumns) {
    const std::int64_t fits = (kMostWords / (read(1, 1) * s_.c) - read(2, 1)) / s_.stride[2] + 1;
    const std::int64_t most = std::clamp(fits, kWordRows, kMostPositions);
    across_ = parts_of(s_.out[2], parts_of(s_.out[2], most));
    down_ = std::clamp<std::int64_t>(kMostPositions / across_, 1, s_.out[1]);
    while (down_ > 1 && words() > kMostWords) --down_;
  }

  void run() const {
    const std::int64_t rows = parts_of(s_.out[1], down_), columns = parts_of(s_.out[2], across_);
    const std::int64_t blocks = s_.n * rows * columns;
    // Where blocks are few threads share their panels.
    const std::int64_t shares =
        std::clamp<std::int64_t>(parts_of(std::int64_t{4} * team_size(), blocks), 1, panels_);
    const std::int64_t units = blocks * shares;
    const double flops = s_.flops() / static_cast<double>(units);
    parallel_for(
        0, units, grain_for({.flops = flops / 2}, units), [&](std::int64_t lo, std::int64_t hi) {
          std::vector<std::int16_t> staged(static_cast<std::size_t>(words()));
          for (std::int64_t i = lo; i < hi; ++i) {
            const std::int64_t block = i / shares, share = i % shares;
            const Part part =
                part_of(block / (rows * columns), block / columns % rows, block % columns);
            if (i == lo || share == 0) stage(part, staged.data());
            multiply(part, staged.data(), panels_ * share / shares, panels_ * (share + 1) / shares);
          }
        });
  }

 private:
  /// Positions [top, top + down) x [left, left + across) of an image.
  struct Part {
    std::int64_t image, top, left, down, across;
  };

  Part part_of(std::int64_t image, std::int64_t row, std::int64_t column) const noexcept {
    const std::int64_t top = row * down_, left = column * across_;
    return {image, top, left, std::min(down_, s_.out[1] - top),
            std::min(across_, s_.out[2] - left)};
  }
  /// Elements along an axis of the image that so many positions read.
  [[nodiscard]] std::int64_t read(int axis, std::int64_t positions) const noexcept {
    return (positions - 1) * s_.stride[axis] + (s_.kernel[axis] - 1) * s_.dilation[axis] + 1;
  }
  [[nodiscard]] std::int64_t words() const noexcept {
    return read(1, down_) * read(2, across_) * s_.c;
  }

  /// What of the image the windows read, as words.
  void stage(const Part& part, std::int16_t* to) const {
    const std::int64_t rows = read(1, part.down), columns = read(2, part.across), c = s_.c;
    const std::int64_t y = part.top * s_.stride[1] - s_.low[1],
                       x = part.left * s_.stride[2] - s_.low[2];
    const std::int64_t begin = std::clamp<std::int64_t>(-x, 0, columns),
                       end = std::clamp(s_.in[2] - x, begin, columns);
    for (std::int64_t r = y; r < y + rows; ++r, to += columns * c) {
      if (r < 0 || r >= s_.in[1]) {
        std::fill_n(to, columns * c, x_.zero);
        continue;
      }
      const std::uint8_t* const from =
          x_.images + ((part.image * s_.in[1] + r) * s_.in[2] + x + begin) * c;
      std::fill_n(to, begin * c, x_.zero);
      widen_to_words(from, (end - begin) * c, to + begin * c);
      std::fill_n(to + end * c, (columns - end) * c, x_.zero);
    }
  }

  /// The sums of all positions with one panel.
  void sum(const Part& part, const std::int16_t* staged, const std::int16_t* panel,
           std::int32_t* sums) const {
    const std::int64_t row = read(2, part.across) * s_.c, run = side_by_side_ * s_.c;
    const std::int64_t step = s_.stride[2] * s_.c, tiles = parts_of(part.across, kWordRows);
    bool add = false;
    for (std::int64_t h = 0; h < s_.kernel[1]; ++h) {
      for (std::int64_t w = 0; w < s_.kernel[2]; w += side_by_side_) {
        const std::int16_t* const tap =
            staged + h * s_.dilation[1] * row + w * s_.dilation[2] * s_.c;
        for (std::int64_t k = 0; k < run; k += kWordDepth, add = true) {
          const std::int64_t depth = std::min(kWordDepth, run - k);
          for (std::int64_t i = 0; i < part.down; ++i) {
            for (std::int64_t t = 0, at = 0; t < tiles; ++t) {
              const std::int64_t next = part.across * (t + 1) / tiles;
              multiply_words(next - at, tap + i * s_.stride[1] * row + at * step + k, step, panel,
                             depth / 2, add, sums + (i * part.across + at) * kWordColumns,
                             kWordColumns);
              at = next;
            }
          }
          panel += depth * kWordColumns;
        }
      }
    }
  }

  void multiply(const Part& part, const std::int16_t* staged, std::int64_t lo,
                std::int64_t hi) const {
    alignas(32) std::int32_t sums[kMostPositions * kWordColumns];
    for (std::int64_t p = lo; p < hi; ++p) {
      sum(part, staged, x_.words + p * kWordColumns * s_.patch(), sums);
      const std::int64_t column = p * kWordColumns, width = std::min(kWordColumns, s_.o - column);
      for (std::int64_t i = 0; i < part.down; ++i) {
        const std::int64_t at =
            ((part.image * s_.out[1] + part.top + i) * s_.out[2] + part.left) * s_.o + column;
        put_sums(sums + i * part.across * kWordColumns, part.across, width, x_.zero,
                 x_.sums + column, x_.out + at, s_.o);
      }
    }
  }

  const ConvShape& s_;
  const IntegerWindows& x_;
  std::int64_t side_by_side_;
  std::int64_t panels_;
  std::int64_t across_ = 1, down_ = 1;  ///< positions of a block
};

}  // namespace

bool integer_windows(const ConvShape& shape, const IntegerWindows& operands) {
  if (!suits(shape)) return false;
  Blocks(shape, operands).run();
  return true;
}

}  // namespace dyad::runtime::cpu
