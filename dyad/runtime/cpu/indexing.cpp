#include "dyad/ops/attrs/indexing.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "dyad/base/error.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/runtime/cpu/copy.h"
#include "dyad/runtime/cpu/element.h"
#include "dyad/runtime/cpu/index_checks.h"
#include "dyad/runtime/cpu/kernels.h"
#include "dyad/runtime/cpu/rows.h"
#include "dyad/runtime/layout.h"
#include "dyad/runtime/threads.h"

namespace dyad::runtime::cpu {
namespace {

/// An axis of `t`, counted from the front.
std::size_t from_front(std::int64_t axis, const TensorImpl& t) {
  return static_cast<std::size_t>(dyad::from_front(axis, t.shape.rank()));
}
std::size_t axis_of(const OpCall& call) {
  return from_front(call.attrs_as<ops::IndexAttrs>().axis, *call.inputs[0].impl());
}
/// The least index that is allowed on an axis of that size.
std::int64_t least_index(const OpCall& call, std::int64_t size) {
  return call.attrs_as<ops::IndexAttrs>().from_end ? -size : 0;
}

/// Elements of a dense line, at indices of which negative ones count from its end.
template <class Word, class I>
void take_line(Word* __restrict to, const I* __restrict at, const Word* __restrict from,
               std::int64_t count, std::int64_t size) {
#pragma GCC unroll 4
  for (std::int64_t j = 0; j < count; ++j) {
    const std::int64_t i = at[j];
    to[j] = from[i + (i >> 63 & size)];
  }
}

void gather(const OpCall& call) {
  const TensorImpl& x = *call.inputs[0].impl();
  const TensorImpl& index = *call.inputs[1].impl();
  const TensorImpl& out = *call.outputs[0].impl();
  const std::size_t axis = axis_of(call), rank = x.shape.size(), last = rank - 1;
  const std::int64_t size = x.shape[axis].number(), least = least_index(call, size);
  const std::string_view of = call.attrs_as<ops::IndexAttrs>().of;
  if (out.numel() == 0) return;

  // Offsets of x leave the indexed axis out; the index itself moves along it.
  Ints x_strides(x.strides.begin(), x.strides.end());
  x_strides[axis] = 0;
  const auto sizes = index.shape.numbers();
  const std::array<Ints, 3> strides{Ints(std::span(out.strides.data(), last)),
                                    Ints(std::span(index.strides.data(), last)),
                                    Ints(std::span(x_strides.data(), last))};
  const std::int64_t columns = sizes[last], along = x.strides[axis];
  const std::int64_t out_step = out.strides[last], index_step = index.strides[last],
                     x_step = x_strides[last];
  const std::int64_t rows = product(sizes.first(last));
  const bool dense = axis == last && along == 1 && out_step == 1 && index_step == 1;
  with_word(x.dtype, [&]<class Word>(Word) {
    with_index(index.dtype, [&]<class I>(I) {
      const double bytes = static_cast<double>(columns) * (2 * sizeof(Word) + sizeof(I));
      parallel_for(
          0, rows, grain_for({.bytes = bytes}, rows), [&](std::int64_t lo, std::int64_t hi) {
            RowWalk<3> walk(sizes.first(last), strides, lo);
            for (std::int64_t row = lo; row < hi; ++row, walk.next()) {
              Word* to = reinterpret_cast<Word*>(out.data) + walk[0];
              const I* at = reinterpret_cast<const I*>(index.data) + walk[1];
              const Word* from = reinterpret_cast<const Word*>(x.data) + walk[2];
              // A line is looked at just before it is used, while it is in the cache.
              if (!all_fit(at, index_step, columns, least, size)) {
                check_indices(call, call.inputs[1], axis, least, size, of);  // tells the first
              }
              if (dense) {
                take_line(to, at, from, columns, size);
                continue;
              }
              for (std::int64_t j = 0; j < columns; ++j) {
                const std::int64_t i = at[j * index_step];
                to[j * out_step] = from[j * x_step + (i < 0 ? i + size : i) * along];
              }
            }
          });
    });
  });
}

void index_select(const OpCall& call) {
  const std::size_t axis = axis_of(call);
  const std::int64_t size = call.inputs[0].impl()->shape[axis].number();
  check_indices(call, call.inputs[1], axis, least_index(call, size), size,
                call.attrs_as<ops::IndexAttrs>().of);
  const TensorImpl& out = *call.outputs[0].impl();
  if (out.numel() == 0) return;
  const Tensor positions = contiguous_copy(call.inputs[1]);

  // A slice is what follows the axis. It is copied as one run of memory, so x must be dense there.
  const auto dense_after = [&](const TensorImpl& t) {
    std::int64_t step = 1;
    for (std::size_t i = t.shape.size(); --i > axis; step *= t.shape[i].number()) {
      if (t.shape[i].number() != 1 && t.strides[i] != step) return false;
    }
    return true;
  };
  const Tensor held =
      dense_after(*call.inputs[0].impl()) ? call.inputs[0] : contiguous_copy(call.inputs[0]);
  const TensorImpl& x = *held.impl();
  const auto sizes = x.shape.numbers();
  const std::int64_t slice = product(sizes.subspan(axis + 1)), count = positions.impl()->numel();
  const std::size_t bytes = static_cast<std::size_t>(slice) * size_of(x.dtype);
  const std::int64_t along = x.strides[axis] * static_cast<std::int64_t>(size_of(x.dtype));
  const auto outer = sizes.first(axis);
  const std::array<Ints, 1> strides{Ints(std::span(x.strides.data(), axis))};
  const std::int64_t outer_count = product(outer);

  with_index(positions.dtype(), [&]<class I>(I) {
    const I* at = reinterpret_cast<const I*>(positions.impl()->data);
    const auto rows = [&](std::int64_t base_row, const std::byte* from, std::int64_t lo,
                          std::int64_t hi) {
      if (slice == 1) {
        with_word(x.dtype, [&]<class Word>(Word) {
          Word* const to = reinterpret_cast<Word*>(out.data) + base_row;
          const Word* const line = reinterpret_cast<const Word*>(from);
          if (x.strides[axis] == 1) {
            take_line(to + lo, at + lo, line, hi - lo, size);
            return;
          }
          for (std::int64_t p = lo; p < hi; ++p) {
            to[p] = line[(at[p] < 0 ? at[p] + size : at[p]) * x.strides[axis]];
          }
        });
        return;
      }
      for (std::int64_t p = lo; p < hi; ++p) {
        const std::int64_t i = at[p] < 0 ? at[p] + size : at[p];
        std::memcpy(out.data + static_cast<std::size_t>(base_row + p) * bytes, from + i * along,
                    bytes);
      }
    };
    const std::int64_t units = outer_count * count;
    parallel_for(0, units, grain_for({.bytes = 2.0 * static_cast<double>(bytes)}, units),
                 [&](std::int64_t lo, std::int64_t hi) {
                   RowWalk<1> walk(outer, strides, lo / count);
                   for (std::int64_t row = lo / count; row * count < hi; ++row, walk.next()) {
                     const std::byte* from =
                         x.data + walk[0] * static_cast<std::int64_t>(size_of(x.dtype));
                     rows(row * count, from, std::max<std::int64_t>(0, lo - row * count),
                          std::min(count, hi - row * count));
                   }
                 });
  });
}

/// Strides of a concatenation: that of its inputs, when they agree on one.
Strides follow_inputs(const OpInfo&, const void*, std::span<const Tensor> inputs,
                      const Shape& shape, int) {
  std::vector<StridedShape> parts;
  for (const Tensor& input : inputs) {
    if (input.impl()->numel() > 0) {
      parts.push_back({input.impl()->shape.numbers(), input.impl()->strides});
    }
  }
  return pointwise_layout(parts, shape.numbers());
}

void concat(const OpCall& call) {
  const TensorImpl& out = *call.outputs[0].impl();
  const std::size_t axis = from_front(call.attrs_as<ops::AxisAttrs>().axis, out);
  std::int64_t at = 0;
  for (const Tensor& input : call.inputs) {
    const TensorImpl& part = *input.impl();
    std::byte* to =
        out.data + at * out.strides[axis] * static_cast<std::int64_t>(size_of(out.dtype));
    copy_elements(out.dtype, part.shape.numbers(), to, out.strides, part.data, part.strides);
    at += part.shape[axis].number();
  }
}

/// x with source in the place of the part at `part_of`. The result may lie in the memory of x (or
/// of a source that is all of it): then that is there already.
template <class Attrs,
          ViewLayout (*part_of)(const Attrs&, const Shape&, const Strides&, const Shape&)>
void scatter_part(const OpCall& call) {
  const TensorImpl &x = *call.inputs[0].impl(), &source = *call.inputs[1].impl();
  const TensorImpl& out = *call.outputs[0].impl();
  const bool whole = source.numel() == out.numel();
  if (out.data != x.data && !whole) copy_tensor(call.inputs[0], call.outputs[0]);
  if (out.data == source.data) return;
  const ViewLayout part = part_of(call.attrs_as<Attrs>(), x.shape, out.strides, source.shape);
  std::byte* to = out.data + part.offset * static_cast<std::int64_t>(size_of(out.dtype));
  copy_elements(out.dtype, source.shape.numbers(), to, part.strides, source.data, source.strides);
}

void pad(const OpCall& call) {
  const auto& attrs = call.attrs_as<ops::PadAttrs>();
  const TensorImpl& x = *call.inputs[0].impl();
  const TensorImpl& out = *call.outputs[0].impl();
  if (out.numel() == 0) return;
  const Word16 value = element_bits(out.dtype, attrs.value);
  const Strides everywhere(out.shape.size(), 0);
  const auto bytes = static_cast<std::int64_t>(size_of(out.dtype));
  Ints part(out.shape.numbers());
  std::byte* to = out.data;
  const auto fill = [&](std::byte* at) {
    copy_elements(out.dtype, part, at, out.strides, &value, everywhere);
  };
  // In a small result it is quicker to fill the place of x, too.
  constexpr std::int64_t kSmall = 16 << 10;
  const bool all = out.numel() * bytes <= kSmall;
  if (all) fill(to);

  std::int64_t from = 0;
  for (std::size_t i = 0; i < x.shape.size(); ++i) {
    const std::int64_t low = attrs.low[i].number(), high = attrs.high[i].number(), size = part[i];
    const std::int64_t inner = std::max<std::int64_t>(
        0, x.shape[i].number() + std::min<std::int64_t>(0, low) + std::min<std::int64_t>(0, high));
    const std::int64_t before = std::clamp<std::int64_t>(low, 0, size);
    const std::int64_t step = out.strides[i] * bytes;
    if (!all) {
      part[i] = before;
      fill(to);
      part[i] = size - before - inner;
      fill(to + (before + inner) * step);
    }
    part[i] = inner;
    to += before * step;
    from += std::max<std::int64_t>(0, -low) * x.strides[i];
  }
  copy_elements(out.dtype, part, to, out.strides, x.data + from * bytes, x.strides);
}

}  // namespace

std::span<const NamedKernel> indexing_kernels() {
  static constexpr NamedKernel kernels[] = {
      {"gather", {gather}},
      {"index_select", {index_select}},
      {"concat", {concat, follow_inputs}},
      {"pad", {pad, follow_inputs}},
      {"slice_scatter",
       {scatter_part<ops::SliceAttrs, ops::slice_layout>, follow_first, /*in_place=*/true}},
      {"select_scatter",
       {scatter_part<ops::SelectAttrs, ops::select_layout>, follow_first, /*in_place=*/true}},
  };
  return kernels;
}

}  // namespace dyad::runtime::cpu
