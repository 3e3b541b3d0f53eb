#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <vector>

#include "dyad/base/error.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/ops/attrs/cumulative.h"
#include "dyad/runtime/cpu/copy.h"
#include "dyad/runtime/cpu/index_checks.h"
#include "dyad/runtime/cpu/kernels.h"
#include "dyad/runtime/cpu/rows.h"
#include "dyad/runtime/cpu/sort.h"
#include "dyad/runtime/threads.h"

namespace dyad::runtime::cpu {
namespace {

std::int64_t* numbers_of(const Tensor& t) {
  return reinterpret_cast<std::int64_t*>(t.impl()->data);
}

// --- where elements are not 0 --------------------------------------------------------------------

template <class T>
bool is_nonzero(T value) noexcept {
  return comparable(value) != 0;
}

void nonzero(const OpCall& call) {
  const Tensor dense = contiguous_copy(call.inputs[0]);
  const TensorImpl& x = *dense.impl();
  const auto sizes = x.shape.numbers();
  const std::size_t rank = sizes.size(), outer_rank = rank == 0 ? 0 : rank - 1;
  const auto outer = sizes.first(outer_rank);
  const std::int64_t columns = rank == 0 ? 1 : sizes[outer_rank], rows = product(outer);
  // A unit is a part of a row: counted first, so that each knows where its places go.
  constexpr std::int64_t kPart = 1 << 14;
  const std::int64_t parts = std::max<std::int64_t>(1, (columns + kPart - 1) / kPart);
  const std::int64_t units = columns == 0 ? 0 : rows * parts;
  std::vector<std::int64_t> starts(static_cast<std::size_t>(units) + 1, 0);
  const auto bounds = [&](std::int64_t unit) {
    const std::int64_t begin = unit % parts * kPart;
    return std::pair(begin, std::min(begin + kPart, columns));
  };
  with_element(x.dtype, [&]<class T>(T) {
    const T* const data = reinterpret_cast<const T*>(x.data);
    const double bytes = static_cast<double>(std::min(columns, kPart)) * sizeof(T);
    parallel_for(0, units, grain_for({.bytes = bytes}, units),
                 [&](std::int64_t lo, std::int64_t hi) {
                   for (std::int64_t unit = lo; unit < hi; ++unit) {
                     const T* const row = data + unit / parts * columns;
                     const auto [begin, end] = bounds(unit);
                     std::int64_t count = 0;
                     for (std::int64_t j = begin; j < end; ++j) count += is_nonzero(row[j]) ? 1 : 0;
                     starts[static_cast<std::size_t>(unit) + 1] = count;
                   }
                 });
    std::partial_sum(starts.begin(), starts.end(), starts.begin());
    const auto width = static_cast<std::int64_t>(rank);
    call.outputs[0] = make_empty(DType::i64, {starts.back(), width});
    std::int64_t* const out = numbers_of(call.outputs[0]);
    const std::array<Ints, 1> none{Ints(outer_rank, 0)};
    parallel_for(0, units, grain_for({.bytes = 2 * bytes}, units),
                 [&](std::int64_t lo, std::int64_t hi) {
                   RowWalk<1> walk(outer, none, lo / parts);
                   for (std::int64_t unit = lo; unit < hi; ++unit) {
                     const T* const row = data + unit / parts * columns;
                     const auto [begin, end] = bounds(unit);
                     std::int64_t* to = out + starts[static_cast<std::size_t>(unit)] * width;
                     for (std::int64_t j = begin; j < end; ++j) {
                       if (!is_nonzero(row[j])) continue;
                       for (const std::int64_t i : walk.index()) *to++ = i;
                       if (rank > 0) *to++ = j;
                     }
                     if (end == columns) walk.next();
                   }
                 });
  });
}

// --- different elements --------------------------------------------------------------------------

/// Places in order, and which of them begin a run of equal ones.
struct Runs {
  std::vector<std::int64_t> order;
  std::vector<std::int64_t> starts;  ///< in `order`, and its size at the end
};

template <class T>
Runs runs_of_elements(const T* data, std::int64_t count) {
  Runs runs;
  with_record<T>(count, [&]<class Record>(Record) {
    std::vector<Record> records(static_cast<std::size_t>(count)), spare;
    for (std::int64_t i = 0; i < count; ++i) {
      records[static_cast<std::size_t>(i)] = record_of<Record>(data[i], i, false);
    }
    if (count > 0) sort_records(records, spare, static_cast<int>(8 * sizeof(T)));
    for (std::size_t i = 0; i < records.size(); ++i) {
      if (i == 0 || key_of(records[i]) != key_of(records[i - 1])) {
        runs.starts.push_back(static_cast<std::int64_t>(i));
      }
      runs.order.push_back(place_of(records[i]));
    }
  });
  runs.starts.push_back(count);
  return runs;
}

/// The same for slices of `length` elements, one after the other.
template <class T>
Runs runs_of_slices(const T* data, std::int64_t count, std::int64_t length) {
  std::vector<SortKey<T>> keys(static_cast<std::size_t>(count * length));
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = sort_key(data[i]);
  const auto slice = [&](std::int64_t i) { return keys.begin() + i * length; };
  Runs runs;
  runs.order.resize(static_cast<std::size_t>(count));
  std::iota(runs.order.begin(), runs.order.end(), 0);
  std::stable_sort(runs.order.begin(), runs.order.end(), [&](std::int64_t a, std::int64_t b) {
    return std::lexicographical_compare(slice(a), slice(a) + length, slice(b), slice(b) + length);
  });
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t here = runs.order[static_cast<std::size_t>(i)];
    if (i == 0 || !std::equal(slice(here), slice(here) + length,
                              slice(runs.order[static_cast<std::size_t>(i) - 1]))) {
      runs.starts.push_back(i);
    }
  }
  runs.starts.push_back(count);
  return runs;
}

void unique(const OpCall& call) {
  const auto& attrs = call.attrs_as<ops::UniqueAttrs>();
  Tensor x = contiguous_copy(call.inputs[0]);
  // Slices one after the other: the axis first.
  Shape shape = attrs.flat ? Shape{x.impl()->numel()} : x.shape();
  if (!attrs.flat) {
    const TensorImpl& t = *call.inputs[0].impl();
    const auto axis = static_cast<std::size_t>(from_front(attrs.axis, t.shape.rank()));
    Strides strides = t.strides;
    std::rotate(shape.begin(), shape.begin() + axis, shape.begin() + axis + 1);
    std::rotate(strides.begin(), strides.begin() + axis, strides.begin() + axis + 1);
    x = contiguous_copy(make_view(call.inputs[0], shape, strides, 0));
  }
  const std::int64_t count = shape[0].number();
  const std::int64_t length = product(shape.numbers().subspan(1));
  Runs runs;
  with_element(x.dtype(), [&]<class T>(T) {
    const T* const data = reinterpret_cast<const T*>(x.impl()->data);
    runs = attrs.flat ? runs_of_elements(data, count) : runs_of_slices(data, count, length);
  });
  const std::size_t found = runs.starts.size() - 1;
  std::vector<std::size_t> rank_of(found);
  std::iota(rank_of.begin(), rank_of.end(), std::size_t{0});
  const auto first = [&](std::size_t run) {
    return runs.order[static_cast<std::size_t>(runs.starts[run])];
  };
  if (!attrs.sorted) {
    std::sort(rank_of.begin(), rank_of.end(),
              [&](std::size_t a, std::size_t b) { return first(a) < first(b); });
  }

  Shape made = shape;
  made[0] = static_cast<std::int64_t>(found);
  const Tensor values = make_empty(x.dtype(), made);
  const Tensor indices = make_empty(DType::i64, {made[0]}),
               counts = make_empty(DType::i64, {made[0]});
  Tensor& inverse = call.outputs[2];
  if (!inverse.defined()) inverse = make_empty(DType::i64, {count});
  const std::size_t bytes = static_cast<std::size_t>(length) * size_of(x.dtype());
  for (std::size_t i = 0; i < found; ++i) {
    const std::size_t run = rank_of[i];
    std::copy_n(x.impl()->data + static_cast<std::size_t>(first(run)) * bytes, bytes,
                values.impl()->data + i * bytes);
    numbers_of(indices)[i] = first(run);
    numbers_of(counts)[i] = runs.starts[run + 1] - runs.starts[run];
    for (std::int64_t j = runs.starts[run]; j < runs.starts[run + 1]; ++j) {
      numbers_of(inverse)[runs.order[static_cast<std::size_t>(j)]] = static_cast<std::int64_t>(i);
    }
  }
  call.outputs[1] = indices;
  call.outputs[3] = counts;
  call.outputs[0] = values;
  if (attrs.flat) return;
  const auto axis = static_cast<std::size_t>(from_front(attrs.axis, made.rank()));
  Strides strides = values.strides();
  std::rotate(made.begin(), made.begin() + 1, made.begin() + axis + 1);
  std::rotate(strides.begin(), strides.begin() + 1, strides.begin() + axis + 1);
  call.outputs[0] = contiguous_copy(make_view(values, made, strides, 0));
}

// --- places among sorted elements ----------------------------------------------------------------

template <class T>
bool less(T a, T b) noexcept {
  return a < b || (b != b && a == a);
}

void searchsorted(const OpCall& call) {
  const bool right = call.attrs_as<ops::SearchAttrs>().right;
  const Tensor sorted = contiguous_copy(call.inputs[0]), values = contiguous_copy(call.inputs[1]);
  const TensorImpl& out = *call.outputs[0].impl();
  const std::int64_t length = sorted.impl()->shape.back().number(), total = out.numel();
  const bool rows = sorted.rank() > 1;
  const std::int64_t per_row = rows ? out.shape.back().number() : total;
  with_element(sorted.dtype(), [&]<class T>(T) {
    const T* const lines = reinterpret_cast<const T*>(sorted.impl()->data);
    const T* const wanted = reinterpret_cast<const T*>(values.impl()->data);
    std::int64_t* const to = numbers_of(call.outputs[0]);
    const double cost = 4.0 * (64 - __builtin_clzll(static_cast<unsigned long long>(length) + 1));
    parallel_for(0, total, grain_for({.bytes = 16, .flops = cost}, total),
                 [&](std::int64_t lo, std::int64_t hi) {
                   for (std::int64_t i = lo; i < hi; ++i) {
                     const T* base = rows ? lines + i / per_row * length : lines;
                     const T* const first = base;
                     const auto value = comparable(wanted[i]);
                     // Halves what is left without branching on the outcome.
                     for (std::int64_t n = length; n > 0;) {
                       const std::int64_t half = (n + 1) / 2;
                       const auto at = comparable(base[half - 1]);
                       const bool before = right ? !less(value, at) : less(at, value);
                       base += before ? half : 0;
                       n = before ? n - half : half - 1;
                     }
                     to[i] = base - first;
                   }
                 });
  });
}

// --- counting ------------------------------------------------------------------------------------

[[noreturn]] void fail_negative(const OpCall& call, std::int64_t value, std::int64_t place) {
  throw ValueError(call_text(call) + ": element " + std::to_string(place) + " is " +
                       std::to_string(value) + ", but none may be negative",
                   call.loc);
}

void bincount(const OpCall& call) {
  const Tensor x = contiguous_copy(call.inputs[0]);
  const std::int64_t n = x.impl()->numel();
  with_element(x.dtype(), [&]<class T>(T) {
    if constexpr (std::is_integral_v<T>) {
      const T* const data = reinterpret_cast<const T*>(x.impl()->data);
      std::int64_t bins = call.attrs_as<ops::BincountAttrs>().least.number();
      for (std::int64_t i = 0; i < n; ++i) {
        if (data[i] < T(0)) fail_negative(call, static_cast<std::int64_t>(data[i]), i);
        bins = std::max(bins, static_cast<std::int64_t>(data[i]) + 1);
      }
      if (!call.inputs[1].defined()) {
        call.outputs[0] = make_empty(DType::i64, {bins});
        std::int64_t* const counts = numbers_of(call.outputs[0]);
        std::fill_n(counts, bins, 0);
        for (std::int64_t i = 0; i < n; ++i) ++counts[data[i]];
        return;
      }
      const Tensor weights = contiguous_copy(call.inputs[1]);
      call.outputs[0] = make_empty(weights.dtype(), {bins});
      with_floating(weights.dtype(), [&]<class W>(W) {
        const W* const amounts = reinterpret_cast<const W*>(weights.impl()->data);
        std::vector<double> sums(static_cast<std::size_t>(bins), 0);
        for (std::int64_t i = 0; i < n; ++i) {
          sums[static_cast<std::size_t>(data[i])] += static_cast<double>(load(amounts[i]));
        }
        W* const to = reinterpret_cast<W*>(call.outputs[0].impl()->data);
        std::transform(sums.begin(), sums.end(), to,
                       [](double sum) { return store<W>(static_cast<Accumulator<W>>(sum)); });
      });
    }
  });
}

void repeat_places(const OpCall& call) {
  const Tensor counts = contiguous_copy(call.inputs[0]);
  const std::int64_t n = counts.impl()->numel();
  with_index(counts.dtype(), [&]<class I>(I) {
    const I* const data = reinterpret_cast<const I*>(counts.impl()->data);
    std::int64_t total = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      if (data[i] < 0) fail_negative(call, data[i], i);
      total += data[i];
    }
    call.outputs[0] = make_empty(DType::i64, {total});
    std::int64_t* to = numbers_of(call.outputs[0]);
    for (std::int64_t i = 0; i < n; ++i) to = std::fill_n(to, data[i], i);
  });
}

}  // namespace

std::span<const NamedKernel> search_kernels() {
  static constexpr NamedKernel kernels[] = {
      {"nonzero", {nonzero}},
      {"unique", {unique}},
      {"searchsorted", {searchsorted}},
      {"bincount", {bincount}},
      {"repeat_places", {repeat_places}},
  };
  return kernels;
}

}  // namespace dyad::runtime::cpu
