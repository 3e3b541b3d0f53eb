#include "dyad/ops/attrs/embedding.h"

#include <algorithm>
#include <string>
#include <vector>

#include "dyad/base/error.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/runtime/cpu/copy.h"
#include "dyad/runtime/cpu/element.h"
#include "dyad/runtime/cpu/kernels.h"
#include "dyad/runtime/cpu/table_sums.h"
#include "dyad/runtime/cpu/tensor_data.h"
#include "dyad/runtime/cpu/vector_clones.h"
#include "dyad/runtime/threads.h"

namespace dyad::runtime::cpu {
namespace {

[[noreturn]] void fail(const OpCall& call, const std::string& rule, bool index) {
  std::string types;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    if (!call.inputs[i].defined()) continue;
    types += (types.empty() ? "" : ", ") + std::string(call.op.inputs[i].name) + ": " +
             type_string(call.inputs[i]);
  }
  const std::string text = std::string(call.op.name) + "(" + types + "): " + rule;
  if (index) throw IndexError(text, call.loc);
  throw ValueError(text, call.loc);
}

void check_rows(const OpCall& call, const std::vector<std::int64_t>& index, std::int64_t rows) {
  for (std::size_t i = 0; i < index.size(); ++i) {
    if (index[i] >= 0 && index[i] < rows) continue;
    fail(call,
         "index " + std::to_string(index[i]) + " at " + std::to_string(i) +
             " is out of range for a table of " + std::to_string(rows) + " rows; " +
             (rows == 0 ? "no index is allowed there"
                        : "allowed are 0 to " + std::to_string(rows - 1)),
         true);
  }
}

/// sums[j] += scale * row[j].
template <class T>
[[gnu::always_inline]] inline void add_row_of(Accumulator<T>* sums, const T* row,
                                              Accumulator<T> scale, std::int64_t width) {
  for (std::int64_t j = 0; j < width; ++j) sums[j] += scale * load(row[j]);
}
DYAD_VECTOR_CLONES void add_row(float* sums, const float* row, float scale, std::int64_t width) {
  add_row_of<float>(sums, row, scale, width);
}
DYAD_VECTOR_CLONES void add_row(double* sums, const double* row, double scale, std::int64_t width) {
  add_row_of<double>(sums, row, scale, width);
}
template <class T>
void add_row(float* sums, const T* row, float scale, std::int64_t width) {
  add_row_of<T>(sums, row, scale, width);
}

/// The sum of products in 16 lanes, which are then added in order.
template <class T>
[[gnu::always_inline]] inline Accumulator<T> dot_of(const T* a, const T* b, std::int64_t width) {
  constexpr std::int64_t kLanes = 16;
  Accumulator<T> lanes[kLanes] = {};
  std::int64_t j = 0;
  for (; j + kLanes <= width; j += kLanes) {
    for (std::int64_t l = 0; l < kLanes; ++l) lanes[l] += load(a[j + l]) * load(b[j + l]);
  }
  for (std::int64_t l = 0; j + l < width; ++l) lanes[l] += load(a[j + l]) * load(b[j + l]);
  Accumulator<T> sum = 0;
  for (const Accumulator<T> lane : lanes) sum += lane;
  return sum;
}
DYAD_VECTOR_CLONES float dot(const float* a, const float* b, std::int64_t width) {
  return dot_of(a, b, width);
}
DYAD_VECTOR_CLONES double dot(const double* a, const double* b, std::int64_t width) {
  return dot_of(a, b, width);
}
template <class T>
float dot(const T* a, const T* b, std::int64_t width) {
  return dot_of(a, b, width);
}

/// Fills a table [rows, width] with what `visit(lo, hi, add)` adds to rows lo..hi-1 by calling
/// add(row, from, scale). A row is always summed by one thread, in the order of the calls.
template <class T, class Visit>
void sum_into_rows(T* table, std::int64_t rows, std::int64_t width, std::int64_t additions,
                   const Visit& visit) {
  const double share =
      static_cast<double>(additions) / static_cast<double>(std::max<std::int64_t>(rows, 1));
  const double bytes = static_cast<double>(width) * sizeof(T) * (1 + 3 * share);
  // Every range looks at all indices, so ranges are few.
  const std::int64_t grain = std::max(grain_for({.bytes = bytes}, rows), (rows + 7) / 8);
  parallel_for(0, rows, grain, [&](std::int64_t lo, std::int64_t hi) {
    using A = Accumulator<T>;
    const std::int64_t count = (hi - lo) * width;
    if constexpr (std::is_same_v<A, T>) {
      T* sums = table + lo * width;
      std::fill_n(sums, count, T{});
      visit(lo, hi, [&](std::int64_t row, const T* from, A scale) {
        add_row(sums + (row - lo) * width, from, scale, width);
      });
    } else {
      std::vector<A> sums(static_cast<std::size_t>(count));
      visit(lo, hi, [&](std::int64_t row, const T* from, A scale) {
        add_row(sums.data() + (row - lo) * width, from, scale, width);
      });
      std::transform(sums.begin(), sums.end(), table + lo * width, store<T>);
    }
  });
}

void embedding_backward(const OpCall& call) {
  const auto& attrs = call.attrs_as<ops::EmbeddingBackwardAttrs>();
  const TensorImpl& out = *call.outputs[0].impl();
  const std::int64_t rows = out.shape[0].number(), width = out.shape[1].number();
  const std::vector<std::int64_t> index = index_values(call.inputs[1]);
  check_rows(call, index, rows);
  if (out.numel() == 0) return;
  const Tensor grad = contiguous_copy(call.inputs[0]);
  with_floating(out.dtype, [&]<class T>(T) {
    const T* from = reinterpret_cast<const T*>(grad.impl()->data);
    sum_into_rows(reinterpret_cast<T*>(out.data), rows, width,
                  static_cast<std::int64_t>(index.size()),
                  [&](std::int64_t lo, std::int64_t hi, const auto& add) {
                    for (std::size_t i = 0; i < index.size(); ++i) {
                      if (index[i] < lo || index[i] >= hi || index[i] == attrs.padding_idx)
                        continue;
                      add(index[i], from + static_cast<std::int64_t>(i) * width, 1);
                    }
                  });
  });
}

// --- bags --------------------------------------------------------------------------------------

enum class BagMode { sum, mean, max };

/// The inputs of embedding_bag from `weight` on, checked.
struct Bags {
  Bags(const OpCall& call, std::size_t first)
      : attrs(call.attrs_as<ops::EmbeddingBagAttrs>()),
        mode(attrs.mode == "sum"    ? BagMode::sum
             : attrs.mode == "mean" ? BagMode::mean
                                    : BagMode::max),
        weight(contiguous_copy(call.inputs[first])),
        index(index_values(call.inputs[first + 1])),
        width(weight.impl()->shape[1].number()) {
    const auto given = [&](std::size_t i) -> Tensor {
      return first + i < call.inputs.size() ? call.inputs[first + i] : Tensor();
    };
    if (given(3).defined()) samples = contiguous_copy(given(3));
    check_rows(call, index, weight.impl()->shape[0].number());
    const auto n = static_cast<std::int64_t>(index.size());
    if (const Tensor offsets = given(2); offsets.defined()) {
      begin = index_values(offsets);
      if (!attrs.include_last_offset) begin.push_back(n);
      std::int64_t before = 0;
      for (const std::int64_t at : begin) {
        if (at < before || at > n) {
          fail(call,
               "offsets must not decrease and lie between 0 and " + std::to_string(n) +
                   ", the number of indices, but one is " + std::to_string(at),
               false);
        }
        before = at;
      }
    } else {
      const auto sizes = call.inputs[first + 1].impl()->shape.numbers();
      for (std::int64_t bag = 0; bag <= sizes[0]; ++bag) begin.push_back(bag * sizes[1]);
    }
  }
  [[nodiscard]] std::int64_t count() const noexcept {
    return static_cast<std::int64_t>(begin.size()) - 1;
  }
  [[nodiscard]] bool counts(std::int64_t i) const noexcept {
    return index[static_cast<std::size_t>(i)] != attrs.padding_idx;
  }
  [[nodiscard]] std::int64_t row(std::int64_t i) const noexcept {
    return index[static_cast<std::size_t>(i)];
  }
  [[nodiscard]] std::int64_t from(std::int64_t bag) const noexcept {
    return begin[static_cast<std::size_t>(bag)];
  }
  /// How many elements of a bag count, at least 1.
  [[nodiscard]] std::int64_t divisor(std::int64_t bag) const noexcept {
    std::int64_t found = 0;
    for (std::int64_t i = from(bag); i < from(bag + 1); ++i) found += counts(i);
    return std::max<std::int64_t>(found, 1);
  }
  template <class T>
  [[nodiscard]] Accumulator<T> scale(std::int64_t i) const noexcept {
    return samples.defined() ? load(reinterpret_cast<const T*>(samples.impl()->data)[i]) : 1;
  }
  [[nodiscard]] double bytes_of_a_bag() const noexcept {
    return static_cast<double>(index.size() * static_cast<std::size_t>(width) *
                               size_of(weight.dtype())) /
           static_cast<double>(std::max<std::int64_t>(count(), 1));
  }

  const ops::EmbeddingBagAttrs& attrs;
  BagMode mode;
  Tensor weight, samples;
  std::vector<std::int64_t> index, begin;  // begin has the end of the last bag too
  std::int64_t width;
};

template <class T>
void sum_bag(const Bags& bags, const T* weight, std::int64_t bag, Accumulator<T>* sums) {
  const std::int64_t from = bags.from(bag), to = bags.from(bag + 1);
  if constexpr (std::is_same_v<Accumulator<T>, T>) {
    const T* const samples =
        bags.samples.defined() ? reinterpret_cast<const T*>(bags.samples.impl()->data) : nullptr;
    sum_table_rows(TableRows<T>{.table = weight,
                                .width = bags.width,
                                .index = std::span(bags.index)
                                             .subspan(static_cast<std::size_t>(from),
                                                      static_cast<std::size_t>(to - from)),
                                .scale = samples != nullptr ? samples + from : nullptr,
                                .left_out = bags.attrs.padding_idx,
                                .known = static_cast<std::int64_t>(bags.index.size()) - to},
                   sums);
  } else {
    std::fill_n(sums, bags.width, Accumulator<T>{});
    for (std::int64_t i = from; i < to; ++i) {
      if (!bags.counts(i)) continue;
      add_row(sums, weight + bags.row(i) * bags.width, bags.scale<T>(i), bags.width);
    }
  }
  if (bags.mode != BagMode::mean) return;
  const auto divisor = static_cast<Accumulator<T>>(bags.divisor(bag));
  for (std::int64_t j = 0; j < bags.width; ++j) sums[j] /= divisor;
}

/// The position of the largest element of column j, the first one of equals (NaN is largest), or
/// -1 where nothing counts.
template <class T>
std::int64_t largest(const Bags& bags, const T* weight, std::int64_t bag, std::int64_t j) {
  std::int64_t best = -1;
  Accumulator<T> most = 0;
  for (std::int64_t i = bags.from(bag); i < bags.from(bag + 1); ++i) {
    if (!bags.counts(i)) continue;
    const Accumulator<T> value = load(weight[bags.row(i) * bags.width + j]);
    if (best < 0 || value > most || (value != value && most == most)) {
      best = i;
      most = value;
    }
  }
  return best;
}

void embedding_bag(const OpCall& call) {
  const Bags bags(call, 0);
  const TensorImpl& out = *call.outputs[0].impl();
  if (out.numel() == 0) return;
  with_floating(out.dtype, [&]<class T>(T) {
    const T* weight = reinterpret_cast<const T*>(bags.weight.impl()->data);
    parallel_for(0, bags.count(), grain_for({.bytes = bags.bytes_of_a_bag()}, bags.count()),
                 [&](std::int64_t lo, std::int64_t hi) {
                   std::vector<Accumulator<T>> sums(std::is_same_v<Accumulator<T>, T>
                                                        ? 0
                                                        : static_cast<std::size_t>(bags.width));
                   for (std::int64_t bag = lo; bag < hi; ++bag) {
                     T* to = reinterpret_cast<T*>(out.data) + bag * bags.width;
                     if (bags.mode == BagMode::max) {
                       for (std::int64_t j = 0; j < bags.width; ++j) {
                         const std::int64_t i = largest(bags, weight, bag, j);
                         to[j] = i < 0 ? T{} : weight[bags.row(i) * bags.width + j];
                       }
                     } else if constexpr (std::is_same_v<Accumulator<T>, T>) {
                       sum_bag(bags, weight, bag, to);
                     } else {
                       sum_bag(bags, weight, bag, sums.data());
                       std::transform(sums.begin(), sums.end(), to, store<T>);
                     }
                   }
                 });
  });
}

/// Adds each gradient at the row that its bag's maximum came from; columns are independent.
template <class T>
void max_backward(const Bags& bags, const T* grad, const T* weight, std::int64_t rows, T* out) {
  const std::int64_t width = bags.width;
  parallel_for(0, width,
               grain_for({.bytes = bags.bytes_of_a_bag() * static_cast<double>(bags.count()) /
                                   static_cast<double>(width)},
                         width),
               [&](std::int64_t lo, std::int64_t hi) {
                 std::vector<Accumulator<T>> sums(static_cast<std::size_t>(rows));
                 for (std::int64_t j = lo; j < hi; ++j) {
                   std::fill(sums.begin(), sums.end(), Accumulator<T>{});
                   for (std::int64_t bag = 0; bag < bags.count(); ++bag) {
                     const std::int64_t i = largest(bags, weight, bag, j);
                     if (i >= 0)
                       sums[static_cast<std::size_t>(bags.row(i))] += load(grad[bag * width + j]);
                   }
                   for (std::int64_t row = 0; row < rows; ++row) {
                     out[row * width + j] = store<T>(sums[static_cast<std::size_t>(row)]);
                   }
                 }
               });
}

void embedding_bag_backward(const OpCall& call) {
  const Bags bags(call, 1);
  const Tensor dense = contiguous_copy(call.inputs[0]);
  const TensorImpl &out = *call.outputs[0].impl(), &out_samples = *call.outputs[1].impl();
  const std::int64_t rows = out.shape[0].number(), width = bags.width;
  const auto n = static_cast<std::int64_t>(bags.index.size());
  std::vector<std::int64_t> bag_of(bags.index.size(), -1), divisor(bags.begin.size(), 1);
  for (std::int64_t bag = 0; bag < bags.count(); ++bag) {
    std::fill(bag_of.begin() + bags.from(bag), bag_of.begin() + bags.from(bag + 1), bag);
    if (bags.mode == BagMode::mean) divisor[static_cast<std::size_t>(bag)] = bags.divisor(bag);
  }
  const auto bag_at = [&](std::int64_t i) {
    return bags.counts(i) ? bag_of[static_cast<std::size_t>(i)] : -1;
  };
  with_floating(out.dtype, [&]<class T>(T) {
    using A = Accumulator<T>;
    const T* grad = reinterpret_cast<const T*>(dense.impl()->data);
    const T* weight = reinterpret_cast<const T*>(bags.weight.impl()->data);
    T* to = reinterpret_cast<T*>(out.data);
    if (out.numel() > 0 && bags.mode == BagMode::max) {
      max_backward(bags, grad, weight, rows, to);
    } else if (out.numel() > 0) {
      sum_into_rows(to, rows, width, n, [&](std::int64_t lo, std::int64_t hi, const auto& add) {
        for (std::int64_t i = 0; i < n; ++i) {
          const std::int64_t row = bags.row(i), bag = bag_at(i);
          if (row < lo || row >= hi || bag < 0) continue;
          const auto part = static_cast<A>(divisor[static_cast<std::size_t>(bag)]);
          add(row, grad + bag * width, bags.scale<T>(i) / part);
        }
      });
    }
    if (!bags.samples.defined()) return;
    T* to_samples = reinterpret_cast<T*>(out_samples.data);
    const double bytes = 2.0 * static_cast<double>(width) * sizeof(T);
    parallel_for(0, n, grain_for({.bytes = bytes}, n), [&](std::int64_t lo, std::int64_t hi) {
      for (std::int64_t i = lo; i < hi; ++i) {
        const std::int64_t bag = bag_at(i);
        to_samples[i] =
            bag < 0 ? T{} : store<T>(dot(grad + bag * width, weight + bags.row(i) * width, width));
      }
    });
  });
}

}  // namespace

std::span<const NamedKernel> embedding_kernels() {
  static constexpr NamedKernel kernels[] = {{"embedding_backward", {embedding_backward}},
                                            {"embedding_bag", {embedding_bag}},
                                            {"embedding_bag_backward", {embedding_bag_backward}}};
  return kernels;
}

}  // namespace dyad::runtime::cpu
