#include "dyad/runtime/cpu/index_checks.h"

#include <array>
#include <string>

#include "dyad/base/error.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/runtime/cpu/element.h"
#include "dyad/runtime/cpu/rows.h"
#include "dyad/runtime/cpu/vector_clones.h"
#include "dyad/runtime/threads.h"

namespace dyad::runtime::cpu {

std::string call_text(const OpCall& call) {
  std::string types;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    if (i > 0) types += ", ";
    if (const ArgInfo* const info = input_info(call.op, i)) {
      types += std::string(info->name);
      if (info->variadic) types += "[" + std::to_string(i) + "]";
      types += ": ";
    }
    types += call.inputs[i].defined() ? type_string(call.inputs[i]) : "none";
  }
  return std::string(call.op.name) + "(" + types + ")";
}

void fail_index(const OpCall& call, std::int64_t index, std::span<const std::int64_t> at,
                std::size_t axis, std::int64_t least, std::int64_t size, std::string_view of) {
  std::string position;
  for (const std::int64_t i : at) position += (position.empty() ? "" : ", ") + std::to_string(i);
  const std::string allowed =
      size == 0 ? "no index is allowed there"
                : "allowed are " + std::to_string(least) + " to " + std::to_string(size - 1);
  if (of == "masked_scatter") {
    throw IndexError("masked_scatter: source has " + std::to_string(size - 1) +
                         " elements, but mask is true at more places",
                     call.loc);
  }
  if (!of.empty()) {
    const bool rows = of.starts_with("embedding");
    throw IndexError(std::string(of) + (rows ? ": index " : ": class ") + std::to_string(index) +
                         " at [" + position + "] is out of range for " +
                         (rows ? "a table of " : "") + std::to_string(size) +
                         (rows ? " rows; " : " classes; ") + allowed,
                     call.loc);
  }
  throw IndexError(call_text(call) + ": index " + std::to_string(index) + " at [" + position +
                       "] is out of range for axis " + std::to_string(axis) + " of size " +
                       std::to_string(size) + "; " + allowed,
                   call.loc);
}

namespace {

template <class I>
[[gnu::always_inline]] inline bool all_fit_of(const I* at, std::int64_t step, std::int64_t count,
                                              std::int64_t least, std::int64_t size) {
  // Of an index outside one difference at least is negative, also where it wraps.
  const auto low = static_cast<std::uint64_t>(least), high = static_cast<std::uint64_t>(size - 1);
  std::uint64_t signs = 0;
  if (step == 1) {
    for (std::int64_t j = 0; j < count; ++j) {
      const auto i = static_cast<std::uint64_t>(std::int64_t{at[j]});
      signs |= (i - low) | (high - i);
    }
  } else {
    for (std::int64_t j = 0; j < count; ++j) {
      const auto i = static_cast<std::uint64_t>(std::int64_t{at[j * step]});
      signs |= (i - low) | (high - i);
    }
  }
  return static_cast<std::int64_t>(signs) >= 0;
}
}  // namespace

DYAD_VECTOR_CLONES bool all_fit(const std::int64_t* at, std::int64_t step, std::int64_t count,
                                std::int64_t least, std::int64_t size) {
  return all_fit_of(at, step, count, least, size);
}
DYAD_VECTOR_CLONES bool all_fit(const std::int32_t* at, std::int64_t step, std::int64_t count,
                                std::int64_t least, std::int64_t size) {
  return all_fit_of(at, step, count, least, size);
}

void check_indices(const OpCall& call, const Tensor& index, std::size_t axis, std::int64_t least,
                   std::int64_t size, std::string_view of) {
  const TensorImpl& t = *index.impl();
  const auto sizes = t.shape.numbers();
  if (product(sizes) == 0) return;
  with_index(t.dtype, [&]<class I>(I) {
    // An axis along which the index repeats itself is looked at once.
    Ints seen(sizes);
    for (std::size_t i = 0; i < seen.size(); ++i) {
      if (t.strides[i] == 0) seen[i] = 1;
    }
    const std::size_t rank = seen.size();
    const std::int64_t columns = rank ? seen[rank - 1] : 1, step = rank ? t.strides[rank - 1] : 0;
    const auto outer = std::span<const std::int64_t>(seen.data(), rank ? rank - 1 : 0);
    const std::array<Ints, 1> strides{Ints(std::span(t.strides.data(), outer.size()))};
    const auto* data = reinterpret_cast<const I*>(t.data);
    const std::int64_t rows = product(outer);
    const double bytes = static_cast<double>(columns) * sizeof(I);
    parallel_for(0, rows, grain_for({.bytes = bytes}, rows), [&](std::int64_t lo, std::int64_t hi) {
      RowWalk<1> walk(outer, strides, lo);
      for (std::int64_t row = lo; row < hi; ++row, walk.next()) {
        const I* at = data + walk[0];
        if (all_fit(at, step, columns, least, size)) continue;
        std::int64_t j = 0;
        while (at[j * step] >= least && at[j * step] < size) ++j;
        Ints position(walk.index());
        if (rank > 0) position.push_back(j);
        // A class stands for an axis of one in the index of the elements that are gathered.
        if (!of.empty() && call.op.name == "gather") {
          position.erase(axis);
        }
        fail_index(call, at[j * step], position, axis, least, size, of);
      }
    });
  });
}

}  // namespace dyad::runtime::cpu
