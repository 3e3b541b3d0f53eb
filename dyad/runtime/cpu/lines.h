#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <span>

#include "dyad/core/tensor_impl.h"
#include "dyad/runtime/cpu/rows.h"
#include "dyad/runtime/threads.h"

namespace dyad::runtime::cpu {

/// A bundle of lines along one axis, side by side: for each of N operands where the first one
/// starts, and the distances between elements along the lines and from line to line.
template <std::size_t N>
struct LineBundle {
  std::int64_t length;  ///< elements of a line
  std::int64_t width;   ///< lines, at most kWidth
  std::array<std::int64_t, N> offsets, along, across;
};
inline constexpr std::int64_t kLineWidth = 64;

/// Calls `body(bundle)` for all lines along `axis` of arrays of these sizes and strides, on the
/// team where that pays. Lines lie side by side along the innermost axis, where vectors can take
/// them; of lines along that axis itself a few from the next are taken at once, so that one need
/// not wait for the other. `bytes`: what an element costs.
template <std::size_t N>
void for_each_line(std::span<const std::int64_t> sizes, std::size_t axis,
                   const std::array<Strides, N>& strides, double bytes,
                   const std::function<void(LineBundle<N>&)>& body) {
  const std::size_t rank = sizes.size(), last = rank - 1;
  const bool on_last = axis == last;
  const std::size_t beside = !on_last ? last : rank > 1 ? rank - 2 : axis;
  const std::int64_t limit = on_last ? 8 : kLineWidth;
  const std::int64_t width = rank > 1 ? sizes[beside] : 1, blocks = (width + limit - 1) / limit;

  Ints units;
  std::array<Ints, N> steps;
  LineBundle<N> shape{};
  shape.length = sizes[axis];
  for (std::size_t i = 0; i < rank; ++i) {
    if (i == axis || i == beside) continue;
    units.push_back(sizes[i]);
    for (std::size_t k = 0; k < N; ++k) steps[k].push_back(strides[k][i]);
  }
  units.push_back(blocks);
  for (std::size_t k = 0; k < N; ++k) {
    shape.along[k] = strides[k][axis];
    shape.across[k] = rank > 1 ? strides[k][beside] : 0;
    steps[k].push_back(shape.across[k] * limit);
  }
  const std::int64_t count = product(units);
  const double unit = static_cast<double>(shape.length * std::min(width, limit)) * bytes;
  parallel_for(0, count, grain_for({.bytes = unit}, count), [&](std::int64_t lo, std::int64_t hi) {
    RowWalk<N> walk(units, steps, lo);
    LineBundle<N> bundle = shape;
    for (std::int64_t i = lo; i < hi; ++i, walk.next()) {
      bundle.width = std::min(limit, width - walk.index().back() * limit);
      for (std::size_t k = 0; k < N; ++k) bundle.offsets[k] = walk[k];
      body(bundle);
    }
  });
}

}  // namespace dyad::runtime::cpu
