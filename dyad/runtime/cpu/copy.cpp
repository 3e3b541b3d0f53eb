#include "dyad/runtime/cpu/copy.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "dyad/codegen/iteration.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/runtime/cpu/element.h"
#include "dyad/runtime/cpu/rows.h"
#include "dyad/runtime/layout.h"
#include "dyad/runtime/threads.h"

namespace dyad::runtime {
namespace {

using codegen::Iteration;
using cpu::product;
using cpu::RowWalk;

/// Operands of a copy's iteration.
constexpr int kFrom = 0, kTo = 1;

/// A tile of a transpose: 16 x 16 elements of up to 8 bytes are in the L1 cache with both their
/// rows' lines.
constexpr std::int64_t kTile = 16;

template <class Word>
void copy_row(Word* to, std::int64_t to_stride, const Word* from, std::int64_t from_stride,
              std::int64_t count) {
  if (to_stride == 1 && from_stride == 1) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(Word));
  } else if (to_stride == 1 && from_stride == 0) {
    std::fill_n(to, count, *from);
  } else {
    for (std::int64_t i = 0; i < count; ++i) to[i * to_stride] = from[i * from_stride];
  }
}

/// Copies rows x columns where the destination is dense along columns and the source along rows.
template <class Word>
void transpose(Word* to, std::int64_t to_row, const Word* from, std::int64_t from_column,
               std::int64_t rows, std::int64_t columns) {
  for (std::int64_t r = 0; r < rows; r += kTile) {
    const std::int64_t r_end = std::min(rows, r + kTile);
    for (std::int64_t c = 0; c < columns; c += kTile) {
      const std::int64_t c_end = std::min(columns, c + kTile);
      for (std::int64_t i = r; i < r_end; ++i) {
        for (std::int64_t j = c; j < c_end; ++j) to[i * to_row + j] = from[j * from_column + i];
      }
    }
  }
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
