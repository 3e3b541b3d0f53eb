#pragma once

#include <cstddef>
#include <cstdint>

#include "dyad/runtime/cpu/element.h"
#include "dyad/runtime/cpu/vector_clones.h"
#include "dyad/runtime/op_kernel.h"

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

/// A unit of work of join_at: a line across all axes but the indexed one and the last, times a
/// block of the last. Distances are in elements.
struct JoinUnit {
  void* targets;
  const void *index, *source;
  std::int64_t count;        ///< indices along the indexed axis
  std::int64_t size;         ///< of that axis in the target
  std::int64_t first, last;  ///< places along it: of a run, what goes elsewhere is left out
  std::int64_t width;        ///< elements of the block
  std::int64_t to_along, index_along, source_along;
  std::int64_t index_step, source_step;  ///< along the last axis
  bool on_last;                          ///< the last axis is the indexed one
  bool runs;                             ///< an index holds for the whole block
};

/// Join()(target, element) for each element of a unit.
template <class A, class T, class I, class Join>
void join_unit(const JoinUnit& unit) {
  constexpr Join join;
  A* const line = static_cast<A*>(unit.targets);
  const I* at = static_cast<const I*>(unit.index);
  const T* from = static_cast<const T*>(unit.source);
  if (unit.on_last) {
    if (unit.index_along == 1 && unit.source_along == 1) {
      join_line(line, at, from, unit.count, unit.size, join);
      return;
    }
    for (std::int64_t a = 0; a < unit.count; ++a) {
      const std::int64_t i = at[a * unit.index_along];
      join(line[i < 0 ? i + unit.size : i], from[a * unit.source_along]);
    }
    return;
  }
  for (std::int64_t a = 0; a < unit.count; ++a, at += unit.index_along, from += unit.source_along) {
    if (unit.runs) {
      const std::int64_t i = *at < 0 ? *at + unit.size : *at;
      if (i < unit.first || i >= unit.last) continue;
      A* const to = line + i * unit.to_along;
      if (unit.source_step == 1) {
        join_run(to, from, unit.width, join);
      } else {
        for (std::int64_t j = 0; j < unit.width; ++j) join(to[j], from[j * unit.source_step]);
      }
      continue;
    }
    for (std::int64_t j = 0; j < unit.width; ++j) {
      const std::int64_t i = at[j * unit.index_step];
      join(line[j + (i < 0 ? i + unit.size : i) * unit.to_along], from[j * unit.source_step]);
    }
  }
}

/// Checks the indices, from `least` on, and calls `join` for units that make up all elements of
/// source and their places in `targets` (row-major, of the shape of x, elements of `target_bytes`).
/// Targets that are the output's elements begin as x; others are there already. Lines that differ
/// in another axis than the indexed one never meet, so they go to any thread; along the indexed
/// axis the order is that of the index.
void join_units(const OpCall& call, void* targets, std::size_t target_bytes, std::size_t axis,
                std::int64_t least, void (*join)(const JoinUnit&));

/// The same with Join()(target, element).
template <class T, class Join, class A>
void join_at(const OpCall& call, A* targets, std::size_t axis, std::int64_t least) {
  with_index(call.inputs[1].dtype(), [&]<class I>(I) {
    join_units(call, targets, sizeof(A), axis, least, join_unit<A, T, I, Join>);
  });
}

}  // namespace dyad::runtime::cpu
