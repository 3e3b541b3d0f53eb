#include "dyad/runtime/cpu/scatter.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "dyad/core/tensor_impl.h"
#include "dyad/ops/attrs/indexing.h"
#include "dyad/runtime/cpu/copy.h"
#include "dyad/runtime/cpu/index_checks.h"
#include "dyad/runtime/cpu/kernels.h"
#include "dyad/runtime/cpu/rows.h"
#include "dyad/runtime/layout.h"
#include "dyad/runtime/threads.h"

namespace dyad::runtime::cpu {
namespace {

/// Whether the output lies where x does.
bool is_in_place(const OpCall& call) {
  return call.inputs[0].impl()->data == call.outputs[0].impl()->data;
}

/// Where the elements go.
struct ScatterTarget {
  std::size_t axis;
  std::int64_t least;  ///< index that is allowed
};
ScatterTarget target_of(const OpCall& call) {
  const auto& attrs = call.attrs_as<ops::IndexAttrs>();
  const Tensor& x = call.inputs[0];
  const int rank = x.rank();
  const auto axis = static_cast<std::size_t>(from_front(attrs.axis, rank));
  return {axis, attrs.from_end ? -x.impl()->shape[axis].number() : 0};
}

/// The output begins as x, where it does not lie in x's memory.
void begin_as_x(const OpCall& call) {
  if (!is_in_place(call)) copy_tensor(call.inputs[0], call.outputs[0]);
}

struct Replace {
  template <class T>
  void operator()(T& to, T from) const {
    to = from;
  }
};

void scatter(const OpCall& call) {
  const auto [axis, least] = target_of(call);
  with_word(call.inputs[0].dtype(), [&]<class Word>(Word) {
    join_at<Word, Replace>(call, reinterpret_cast<Word*>(call.outputs[0].impl()->data), axis,
                           least);
  });
}

/// Op()(target, element) on accumulators.
template <class Op>
struct JoinWide {
  template <class A, class T>
  void operator()(A& to, T from) const {
    if constexpr (is_half<T>) {
      to = Op()(to, load(from));
    } else {
      to = store<T>(Op()(load(to), load(from)));
    }
  }
};

/// Half precision is rounded once, at the end.
template <class Op>
void scatter_wide(const OpCall& call) {
  const auto [axis, least] = target_of(call);
  const TensorImpl& out = *call.outputs[0].impl();
  with_addend(out.dtype, [&]<class T>(T) {
    T* elements = reinterpret_cast<T*>(out.data);
    if constexpr (is_half<T>) {
      const std::int64_t n = out.numel();
      begin_as_x(call);
      std::vector<float> wide(static_cast<std::size_t>(n));
      std::transform(elements, elements + n, wide.begin(), load<T>);
      join_at<T, JoinWide<Op>>(call, wide.data(), axis, least);
      std::transform(wide.begin(), wide.end(), elements, store<T>);
    } else {
      join_at<T, JoinWide<Op>>(call, elements, axis, least);
    }
  });
}

template <bool kLargest>
struct KeepExtreme {
  template <class T>
  void operator()(T& to, T from) const {
    const auto old = comparable(to), now = comparable(from);
    // A NaN stays, and comes in.
    if (!(old != old) && ((kLargest ? now > old : now < old) || now != now)) to = from;
  }
};

template <bool kLargest>
void scatter_extreme(const OpCall& call) {
  const auto [axis, least] = target_of(call);
  const TensorImpl& out = *call.outputs[0].impl();
  with_element(out.dtype, [&]<class T>(T) {
    join_at<T, KeepExtreme<kLargest>>(call, reinterpret_cast<T*>(out.data), axis, least);
  });
}

/// Bytes a block of places takes is small beside what reading the indices costs.
void ravel_multi_index(const OpCall& call) {
  const auto sizes = call.attrs_as<ops::RavelAttrs>().shape.numbers();
  const TensorImpl& out = *call.outputs[0].impl();
  for (std::size_t k = 0; k < call.inputs.size(); ++k) {
    check_indices(call, call.inputs[k], k, -sizes[k], sizes[k]);
  }
  auto* const to = reinterpret_cast<std::int64_t*>(out.data);
  const auto shape = out.shape.numbers();
  const std::size_t outer = shape.empty() ? 0 : shape.size() - 1;
  const std::int64_t columns = shape.empty() ? 1 : shape.back(), rows = product(shape.first(outer));
  for (std::size_t k = 0; k < call.inputs.size(); ++k) {
    const TensorImpl& t = *call.inputs[k].impl();
    const Strides wide = broadcast_strides(t.shape.numbers(), t.strides, shape);
    const std::array<Ints, 1> strides{Ints(std::span(wide.data(), outer))};
    const std::int64_t step = shape.empty() ? 0 : wide[outer], size = sizes[k];
    with_index(t.dtype, [&]<class I>(I) {
      const auto* const from = reinterpret_cast<const I*>(t.data);
      const double bytes = static_cast<double>(columns) * (sizeof(I) + 16);
      parallel_for(0, rows, grain_for({.bytes = bytes}, rows),
                   [&](std::int64_t lo, std::int64_t hi) {
                     RowWalk<1> walk(shape.first(outer), strides, lo);
                     for (std::int64_t row = lo; row < hi; ++row, walk.next()) {
                       const I* const at = from + walk[0];
                       std::int64_t* const line = to + row * columns;
                       for (std::int64_t j = 0; j < columns; ++j) {
                         const std::int64_t i = at[j * step];
                         line[j] = (k == 0 ? 0 : line[j] * size) + (i < 0 ? i + size : i);
                       }
                     }
                   });
    });
  }
}

/// Whether an index along the first axis holds for a whole row, and rows of the source lie as those
/// of the output.
bool takes_rows(const OpCall& call, std::size_t axis) {
  const TensorImpl &x = *call.inputs[0].impl(), &index = *call.inputs[1].impl(),
                   &source = *call.inputs[2].impl();
  if (axis != 0 || index.numel() == 0 || x.numel() == 0) return false;
  const Strides rows = contiguous_strides(x.shape);
  for (std::size_t i = 1; i < x.shape.size(); ++i) {
    if (!index.shape[i].same_as(x.shape[i])) return false;
    if (x.shape[i].number() > 1 && (index.strides[i] != 0 || source.strides[i] != rows[i]))
      return false;
  }
  return true;
}

/// Joins rows, a band of the output after the other: each begins as x when it is its turn, and
/// stays in the second cache until everything has come to it.
void join_rows(const OpCall& call, std::size_t target_bytes, void (*join)(const JoinUnit&)) {
  const Tensor &x = call.inputs[0], &out = call.outputs[0];
  const TensorImpl &index = *call.inputs[1].impl(), &source = *call.inputs[2].impl();
  const std::int64_t size = x.impl()->shape[0].number(), width = out.impl()->numel() / size,
                     count = index.shape[0].number();
  const auto row_bytes = static_cast<std::int64_t>(target_bytes) * width;
  constexpr std::int64_t kBandBytes = 512 << 10;
  const std::int64_t fits = std::min(kBandBytes / row_bytes, size / 2 / team_size());
  // Every band looks at all indices: of narrow rows there are few.
  const std::int64_t most = std::max<std::int64_t>(1, width / 8);
  const std::int64_t band = std::max({fits, (size + most - 1) / most, std::int64_t{1}}),
                     bands = (size + band - 1) / band;
  const double share = static_cast<double>(count) / static_cast<double>(size);
  const bool in_place = is_in_place(call);
  const Cost cost{.bytes =
                      static_cast<double>(band * row_bytes) * ((in_place ? 0 : 1) + 2 * share)};
  const auto rows_of = [](const Tensor& t, std::int64_t first, std::int64_t last) {
    Shape shape = t.impl()->shape;
    shape[0] = last - first;
    return make_view(t, shape, t.impl()->strides, first * t.impl()->strides[0]);
  };
  parallel_for(0, bands, grain_for(cost, bands), [&](std::int64_t lo, std::int64_t hi) {
    for (std::int64_t first = lo * band; first < std::min(size, hi * band); first += band) {
      const std::int64_t last = std::min(size, first + band);
      if (!in_place) copy_tensor(rows_of(x, first, last), rows_of(out, first, last));
      join({.targets = out.impl()->data,
            .index = index.data,
            .source = source.data,
            .count = count,
            .size = size,
            .first = first,
            .last = last,
            .width = width,
            .to_along = width,
            .index_along = index.strides[0],
            .source_along = source.strides[0],
            .index_step = 0,
            .source_step = 1,
            .on_last = false,
            .runs = true});
    }
  });
}

}  // namespace

void join_units(const OpCall& call, void* targets, std::size_t target_bytes, std::size_t axis,
                std::int64_t least, void (*join)(const JoinUnit&)) {
  const TensorImpl& x = *call.inputs[0].impl();
  const TensorImpl& index = *call.inputs[1].impl();
  const TensorImpl& source = *call.inputs[2].impl();
  if (targets == call.outputs[0].impl()->data) {
    if (takes_rows(call, axis)) {
      check_indices(call, call.inputs[1], axis, least, x.shape[0].number());
      return join_rows(call, target_bytes, join);
    }
    begin_as_x(call);
  }
  if (index.numel() == 0) return;
  const auto sizes = index.shape.numbers();
  const std::size_t rank = sizes.size(), last = rank - 1;
  const std::int64_t size = x.shape[axis].number(), count = sizes[axis];
  const Strides to_strides = contiguous_strides(x.shape);

  // Where an index holds for a whole block of the last axis, a large one.
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

  const std::int64_t units = product(unit_sizes);
  const JoinUnit shape{.targets = nullptr,
                       .index = nullptr,
                       .source = nullptr,
                       .count = count,
                       .size = size,
                       .first = 0,
                       .last = size,
                       .width = width,
                       .to_along = to_strides[axis],
                       .index_along = index.strides[axis],
                       .source_along = source.strides[axis],
                       .index_step = steps[1],
                       .source_step = steps[2],
                       .on_last = on_last,
                       .runs = runs};
  const std::size_t index_bytes = size_of(index.dtype), source_bytes = size_of(source.dtype);
  const auto at = [](auto* data, std::int64_t elements, std::size_t bytes) {
    return data + elements * static_cast<std::int64_t>(bytes);
  };
  const auto check = [&] { check_indices(call, call.inputs[1], axis, least, size); };
  const auto fits = [&](const void* first) {
    return with_index(index.dtype, [&]<class I>(I) {
      return all_fit(static_cast<const I*>(first), shape.index_along, count, least, size);
    });
  };
  // Nothing is written where an index is refused.
  if (!on_last || is_in_place(call)) check();
  const double bytes = static_cast<double>(count * std::min(width, block)) *
                       static_cast<double>(source_bytes + 2 * target_bytes + index_bytes);
  parallel_for(0, units, grain_for({.bytes = bytes}, units), [&](std::int64_t lo, std::int64_t hi) {
    RowWalk<3> walk(unit_sizes, strides, lo);
    for (std::int64_t i = lo; i < hi; ++i, walk.next()) {
      JoinUnit unit = shape;
      unit.targets = at(static_cast<std::byte*>(targets), walk[0], target_bytes);
      unit.index = at(index.data, walk[1], index_bytes);
      unit.source = at(source.data, walk[2], source_bytes);
      unit.width = std::min(block, width - walk.index().back() * block);
      // Looked at just before they are used, while they are in the cache; check tells the first.
      if (on_last && !fits(unit.index)) check();
      join(unit);
    }
  });
}

std::span<const NamedKernel> scatter_kernels() {
  static constexpr NamedKernel kernels[] = {
      {"scatter", {scatter, nullptr, /*in_place=*/false, /*takes_over=*/0}},
      {"scatter_add", {scatter_wide<std::plus<>>, nullptr, /*in_place=*/false, /*takes_over=*/0}},
      {"scatter_mul",
       {scatter_wide<std::multiplies<>>, nullptr, /*in_place=*/false, /*takes_over=*/0}},
      {"scatter_max", {scatter_extreme<true>, nullptr, /*in_place=*/false, /*takes_over=*/0}},
      {"scatter_min", {scatter_extreme<false>, nullptr, /*in_place=*/false, /*takes_over=*/0}},
      {"ravel_multi_index", {ravel_multi_index}},
  };
  return kernels;
}

}  // namespace dyad::runtime::cpu
