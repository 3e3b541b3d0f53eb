#include "dyad/runtime/cpu/copy.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>
#include <utility>

#include "dyad/codegen/iteration.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/runtime/cpu/element.h"
#include "dyad/runtime/cpu/rows.h"
#include "dyad/runtime/cpu/vector_clones.h"
#include "dyad/runtime/layout.h"
#include "dyad/runtime/threads.h"

namespace dyad::runtime {
namespace {

using codegen::Iteration;
using cpu::product;
using cpu::RowWalk;

/// Operands of a copy's iteration.
constexpr int kFrom = 0, kTo = 1;

/// Copies elements that lie `kStep` apart, or `step` where that is 0.
template <std::int64_t kStep, class Word>
[[gnu::always_inline]] inline void take_every(Word* __restrict to, const Word* __restrict from,
                                              std::int64_t step, std::int64_t count) {
  const std::int64_t apart = kStep != 0 ? kStep : step;
  for (std::int64_t i = 0; i < count; ++i) to[i] = from[i * apart];
}
/// The distances that slices are made of have loops of their own, which become vector instructions.
template <class Word>
[[gnu::always_inline]] inline void take_of(Word* to, const Word* from, std::int64_t step,
                                           std::int64_t count) {
  if (step == -1) {
    take_every<-1>(to, from, step, count);
  } else if (step == 2) {
    take_every<2>(to, from, step, count);
  } else {
    take_every<0>(to, from, step, count);
  }
}
template <class Word>
void take(Word* to, const Word* from, std::int64_t step, std::int64_t count) {
  take_of(to, from, step, count);
}
DYAD_VECTOR_CLONES void take(std::uint64_t* to, const std::uint64_t* from, std::int64_t step,
                             std::int64_t count) {
  take_of(to, from, step, count);
}
DYAD_VECTOR_CLONES void take(std::uint32_t* to, const std::uint32_t* from, std::int64_t step,
                             std::int64_t count) {
  take_of(to, from, step, count);
}
DYAD_VECTOR_CLONES void take(std::uint16_t* to, const std::uint16_t* from, std::int64_t step,
                             std::int64_t count) {
  take_of(to, from, step, count);
}
DYAD_VECTOR_CLONES void take(std::uint8_t* to, const std::uint8_t* from, std::int64_t step,
                             std::int64_t count) {
  take_of(to, from, step, count);
}

template <class Word>
DYAD_VECTOR_LOOP void fill_row(Word* to, Word value, std::int64_t count) {
  if constexpr (std::is_integral_v<Word>) {
    if (value == 0) {
      std::memset(to, 0, static_cast<std::size_t>(count) * sizeof(Word));
      return;
    }
  }
  for (std::int64_t i = 0; i < count; ++i) to[i] = value;
}

template <class Word>
void copy_row(Word* to, std::int64_t to_stride, const Word* from, std::int64_t from_stride,
              std::int64_t count) {
  if (to_stride == 1 && from_stride == 1) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(Word));
  } else if (to_stride == 1 && from_stride == 0) {
    fill_row(to, *from, count);
  } else if (to_stride == 1) {
    take(to, from, from_stride, count);
  } else {
    for (std::int64_t i = 0; i < count; ++i) to[i * to_stride] = from[i * from_stride];
  }
}

/// A tile of a transpose: as many rows as make a line of the cache in the source, and columns that
/// make a few lines in the destination.
template <class Word>
constexpr std::int64_t kTileRows = 64 / static_cast<std::int64_t>(sizeof(Word));
constexpr std::int64_t kTileColumns = 64;

/// What vector instructions do on every CPU: 16 bytes.
template <class Word>
struct Lanes {
  static constexpr std::size_t kCount = 16 / sizeof(Word);
  // NOLINTNEXTLINE(modernize-use-using): an alias drops attributes that depend on a parameter.
  typedef Word Vector [[gnu::vector_size(16)]];

  static Vector read(const Word* from) {
    Vector v;
    std::memcpy(&v, from, sizeof v);
    return v;
  }
  /// a0 b0 a1 b1 ... of the first halves, or of the second ones.
  template <bool kSecond>
  static Vector interleaved(Vector a, Vector b) {
    return [&]<std::size_t... kLane>(std::index_sequence<kLane...>) {
      return __builtin_shufflevector(
          a, b, (kLane % 2 * kCount + kLane / 2 + (kSecond ? kCount / 2 : 0))...);
    }(std::make_index_sequence<kCount>());
  }
  /// Rows become columns: each pass exchanges one bit of the row with one of the lane.
  static void transpose(Vector (&v)[kCount]) {
    for (std::size_t pass = 1; pass < kCount; pass *= 2) {
      Vector next[kCount];
      for (std::size_t i = 0; i < kCount / 2; ++i) {
        next[2 * i] = interleaved<false>(v[i], v[i + kCount / 2]);
        next[2 * i + 1] = interleaved<true>(v[i], v[i + kCount / 2]);
      }
      std::copy_n(next, kCount, v);
    }
  }
};

/// A tile, or a part of one of whole vectors, put together in a buffer: lines of the destination
/// are then written whole, though rows a power of two apart share few places in the cache.
template <class Word>
[[gnu::always_inline]] inline void transpose_vectors(Word* to, std::int64_t to_row,
                                                     const Word* from, std::int64_t from_column,
                                                     std::int64_t rows, std::int64_t columns) {
  using L = Lanes<Word>;
  constexpr auto kCount = static_cast<std::int64_t>(L::kCount);
  alignas(64) Word tile[kTileRows<Word>][kTileColumns];
  for (std::int64_t c = 0; c < columns; c += kCount) {
    for (std::int64_t r = 0; r < rows; r += kCount) {
      typename L::Vector v[L::kCount];
      for (std::int64_t k = 0; k < kCount; ++k) v[k] = L::read(from + (c + k) * from_column + r);
      L::transpose(v);
      for (std::int64_t k = 0; k < kCount; ++k) std::memcpy(&tile[r + k][c], &v[k], sizeof v[k]);
    }
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; c += kCount) {
      std::memcpy(to + r * to_row + c, &tile[r][c], sizeof(typename L::Vector));
    }
  }
}
template <class Word>
DYAD_VECTOR_LOOP void transpose_tile(Word* to, std::int64_t to_row, const Word* from,
                                     std::int64_t from_column) {
  transpose_vectors(to, to_row, from, from_column, kTileRows<Word>, kTileColumns);
}
template <class Word>
DYAD_VECTOR_LOOP void transpose_part(Word* to, std::int64_t to_row, const Word* from,
                                     std::int64_t from_column, std::int64_t rows,
                                     std::int64_t columns) {
  transpose_vectors(to, to_row, from, from_column, rows, columns);
}

/// Copies rows x columns, at most a tile's rows, where the destination is dense along columns and
/// the source along rows.
template <class Word>
void transpose(Word* to, std::int64_t to_row, const Word* from, std::int64_t from_column,
               std::int64_t rows, std::int64_t columns) {
  const auto one_by_one = [&](std::int64_t row, std::int64_t column, std::int64_t column_end) {
    for (std::int64_t i = row; i < rows; ++i) {
      for (std::int64_t j = column; j < column_end; ++j) {
        to[i * to_row + j] = from[j * from_column + i];
      }
    }
  };
  std::int64_t c = 0;
  if constexpr (sizeof(Word) <= 8) {
    constexpr auto kCount = static_cast<std::int64_t>(Lanes<Word>::kCount);
    const std::int64_t whole = rows / kCount * kCount;
    for (; whole > 0 && c + kCount <= columns;) {
      const std::int64_t width = std::min(kTileColumns, (columns - c) / kCount * kCount);
      if (whole == kTileRows<Word> && width == kTileColumns) {
        transpose_tile(to + c, to_row, from + c * from_column, from_column);
      } else {
        transpose_part(to + c, to_row, from + c * from_column, from_column, whole, width);
      }
      one_by_one(whole, c, c + width);
      c += width;
    }
  }
  constexpr std::int64_t kNarrow = 16;
  for (; c < columns; c += kNarrow) one_by_one(0, c, std::min(columns, c + kNarrow));
}

/// The axis outside the innermost along which the source is dense, if a transpose through tiles is
/// what the copy is; otherwise -1.
int transposed_axis(const Iteration& space) {
  const int rank = space.rank();
  if (rank < 2 || space.stride(kTo, rank - 1) != 1 || space.stride(kFrom, rank - 1) == 1 ||
      space.stride(kFrom, rank - 1) == 0) {
    return -1;
  }
  for (int axis = rank - 2; axis >= 0; --axis) {
    if (space.stride(kFrom, axis) == 1 && space.sizes()[static_cast<std::size_t>(axis)] >= 4) {
      return axis;
    }
  }
  return -1;
}

template <class Word>
void copy_space(const Iteration& space, Word* to, const Word* from) {
  const int rank = space.rank();
  if (rank == 0) {
    *to = *from;
    return;
  }
  const auto size_of_axis = [&](int axis) { return space.sizes()[static_cast<std::size_t>(axis)]; };
  const std::int64_t columns = size_of_axis(rank - 1);
  const std::int64_t to_column = space.stride(kTo, rank - 1),
                     from_column = space.stride(kFrom, rank - 1);
  const int tiled = transposed_axis(space);
  constexpr std::int64_t kTile = kTileRows<Word>;

  Ints sizes;
  std::array<Ints, 2> strides;
  for (int axis = 0; axis < rank - 1; ++axis) {
    const bool split = axis == tiled;
    sizes.push_back(split ? (size_of_axis(axis) + kTile - 1) / kTile : size_of_axis(axis));
    strides[0].push_back(space.stride(kTo, axis) * (split ? kTile : 1));
    strides[1].push_back(space.stride(kFrom, axis) * (split ? kTile : 1));
  }
  const std::int64_t units = product(sizes), rows = tiled >= 0 ? kTile : 1;
  const double bytes = 2.0 * sizeof(Word) * static_cast<double>(columns * rows);

  if (units == 1 && tiled < 0) {
    parallel_for(0, columns, grain_for({.bytes = 2.0 * sizeof(Word)}, columns),
                 [&](std::int64_t lo, std::int64_t hi) {
                   copy_row(to + lo * to_column, to_column, from + lo * from_column, from_column,
                            hi - lo);
                 });
    return;
  }
  parallel_for(0, units, grain_for({.bytes = bytes}, units), [&](std::int64_t lo, std::int64_t hi) {
    RowWalk<2> walk(sizes, strides, lo);
    for (std::int64_t unit = lo; unit < hi; ++unit, walk.next()) {
      if (tiled < 0) {
        copy_row(to + walk[0], to_column, from + walk[1], from_column, columns);
      } else {
        const std::int64_t first = walk.index()[static_cast<std::size_t>(tiled)] * kTile;
        transpose(to + walk[0], space.stride(kTo, tiled), from + walk[1], from_column,
                  std::min(kTile, size_of_axis(tiled) - first), columns);
      }
    }
  });
}

}  // namespace

void copy_elements(DType dtype, std::span<const std::int64_t> sizes, void* to,
                   std::span<const std::int64_t> to_strides, const void* from,
                   std::span<const std::int64_t> from_strides) {
  if (cpu::product(sizes) == 0) return;
  Iteration space(sizes);
  space.add(from_strides);
  space.add(to_strides);
  space.collapse();
  cpu::with_word(dtype, [&]<class Word>(Word) {
    copy_space(space, static_cast<Word*>(to), static_cast<const Word*>(from));
  });
}

void copy_tensor(const Tensor& from, const Tensor& to) {
  const TensorImpl& source = *from.impl();
  const TensorImpl& target = *to.impl();
  copy_elements(target.dtype, target.shape.numbers(), target.data, target.strides, source.data,
                broadcast_strides(source.shape.numbers(), source.strides, target.shape.numbers()));
}

Tensor contiguous_copy(const Tensor& tensor) {
  if (tensor.impl()->contiguous) return tensor;
  Tensor copy = make_empty(tensor.impl()->dtype, tensor.impl()->shape);
  copy_tensor(tensor, copy);
  return copy;
}

}  // namespace dyad::runtime
