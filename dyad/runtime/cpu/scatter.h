#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "dyad/core/tensor_impl.h"
#include "dyad/runtime/cpu/element.h"
#include "dyad/runtime/cpu/index_checks.h"
#include "dyad/runtime/cpu/rows.h"
#include "dyad/runtime/cpu/vector_clones.h"
#include "dyad/runtime/op_kernel.h"
#include "dyad/runtime/threads.h"

namespace dyad::runtime::cpu {

/// join(to[j], from[j]) for a run of both.
template <class A, class T, class Join>
DYAD_VECTOR_LOOP void join_run(A* __restrict to, const T* __restrict from, std::int64_t count,
                               Join join) {
  for (std::int64_t j = 0; j < count; ++j) join(to[j], from[j]);
}

/// join(line[i], element) for dense elements and their indices i, of which negative ones count from
/// the end.
template <class A, class I, class T, class Join>
void join_line(A* __restrict line, const I* __restrict at, const T* __restrict from,
               std::int64_t count, std::int64_t size, Join join) {
#pragma GCC unroll 4
  for (std::int64_t a = 0; a < count; ++a) {
    const std::int64_t i = at[a];
    join(line[i + (i >> 63 & size)], from[a]);
  }
}

/// Checks the indices, from `least` on, and calls join(target, element) for each element of source
/// and its place in `targets` (row-major, of
/// the shape of x). Lines that differ in another axis than the indexed one never meet, so they go
/// to any thread; along the indexed axis the order is that of the index.
template <class T, class A, class Join>
void join_at(const OpCall& call, A* targets, std::size_t axis, std::int64_t least, Join join) {
  const TensorImpl& x = *call.inputs[0].impl();
  const TensorImpl& index = *call.inputs[1].impl();
  const TensorImpl& source = *call.inputs[2].impl();
  const auto sizes = index.shape.numbers();
  const std::size_t rank = sizes.size(), last = rank - 1;
  const std::int64_t size = x.shape[axis].number(), count = sizes[axis];
  const Strides to_strides = contiguous_strides(x.shape);

  // A unit is a line across all axes but the indexed one and the last, times a block of the last:
  // where an index holds for the whole block, a large one.
  const bool on_last = axis == last, runs = !on_last && index.strides[last] == 0;
  const std::int64_t width = on_last ? 1 : sizes[last], narrow = 64;
  const std::int64_t block = runs ? std::max(narrow, width / (2 * team_size() - 1)) : narrow;
  const std::int64_t blocks = (width + block - 1) / block;
  const auto outside = [&](std::span<const std::int64_t> values) {
    Ints result = without(values, axis);
    if (!on_last) result.pop_back();
    return result;
  };
  std::array<Ints, 3> strides{outside(to_strides), outside(index.strides), outside(source.strides)};
  Ints unit_sizes = outside(sizes);
  unit_sizes.push_back(blocks);
  const std::int64_t steps[3] = {on_last ? 0 : to_strides[last], on_last ? 0 : index.strides[last],
                                 on_last ? 0 : source.strides[last]};
  for (std::size_t k = 0; k < 3; ++k) strides[k].push_back(steps[k] * block);

  const std::int64_t units = product(unit_sizes), along = to_strides[axis];
  const std::int64_t index_along = index.strides[axis], source_along = source.strides[axis];
  if (!on_last) check_indices(call, call.inputs[1], axis, least, size);
  with_index(index.dtype, [&]<class I>(I) {
    const double bytes = static_cast<double>(count * std::min(width, block)) *
                         (sizeof(T) + 2 * sizeof(A) + sizeof(I));
    parallel_for(
        0, units, grain_for({.bytes = bytes}, units), [&](std::int64_t lo, std::int64_t hi) {
          RowWalk<3> walk(unit_sizes, strides, lo);
          for (std::int64_t unit = lo; unit < hi; ++unit, walk.next()) {
            const std::int64_t n = std::min(block, width - walk.index().back() * block);
            A* const line = targets + walk[0];
            const I* at = reinterpret_cast<const I*>(index.data) + walk[1];
            const T* from = reinterpret_cast<const T*>(source.data) + walk[2];
            if (on_last) {
              // Looked at just before it is used, while it is in the cache.
              if (!all_fit(at, index_along, count, least, size)) {
                check_indices(call, call.inputs[1], axis, least, size);  // tells the first
              }
              if (index_along == 1 && source_along == 1) {
                join_line(line, at, from, count, size, join);
                continue;
              }
              for (std::int64_t a = 0; a < count; ++a) {
                const std::int64_t i = at[a * index_along];
                join(line[i < 0 ? i + size : i], from[a * source_along]);
              }
              continue;
            }
            for (std::int64_t a = 0; a < count; ++a, at += index_along, from += source_along) {
              if (runs) {
                const std::int64_t i = *at;
                A* const to = line + (i < 0 ? i + size : i) * along;
                if (steps[2] == 1) {
                  join_run(to, from, n, join);
                } else {
                  for (std::int64_t j = 0; j < n; ++j) join(to[j], from[j * steps[2]]);
                }
                continue;
              }
              for (std::int64_t j = 0; j < n; ++j) {
                const std::int64_t i = at[j * steps[1]];
                join(line[j + (i < 0 ? i + size : i) * along], from[j * steps[2]]);
              }
            }
          }
        });
  });
}

}  // namespace dyad::runtime::cpu
