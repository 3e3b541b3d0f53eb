#include <algorithm>
#include <vector>

#include "dyad/core/tensor_impl.h"
#include "dyad/runtime/cpu/dense_lines.h"
#include "dyad/runtime/cpu/element.h"
#include "dyad/runtime/cpu/kernels.h"
#include "dyad/runtime/cpu/resample_rows.h"
#include "dyad/runtime/cpu/rows.h"
#include "dyad/runtime/cpu/taps.h"
#include "dyad/runtime/layout.h"
#include "dyad/runtime/threads.h"

namespace dyad::runtime::cpu {
namespace {

/// Copies the one element of each result, or 0.
template <class Word>
void copy_lines(const DenseLines& lines, const Taps& taps, std::int64_t in, Word* to) {
  const auto* from = reinterpret_cast<const Word*>(lines.x.impl()->data);
  const std::int64_t inner = lines.inner;
  const auto out = static_cast<std::size_t>(taps.size());
  std::vector<std::int64_t> element(out, -1);
  for (std::size_t o = 0; o < out; ++o) {
    if (taps.begin[o] != taps.begin[o + 1]) {
      element[o] = taps.index[static_cast<std::size_t>(taps.begin[o])];
    }
  }
  const double bytes = 2.0 * static_cast<double>(taps.size() * inner) * sizeof(Word);
  parallel_for(0, lines.outer, grain_for({.bytes = bytes}, lines.outer),
               [&](std::int64_t lo, std::int64_t hi) {
                 Word* target = to + lo * taps.size() * inner;
                 for (std::int64_t line = lo; line < hi; ++line) {
                   const Word* source = from + line * in * inner;
                   if (inner == 1) {
                     for (const std::int64_t i : element) *target++ = i < 0 ? Word{} : source[i];
                     continue;
                   }
                   for (const std::int64_t i : element) {
                     if (i < 0) {
                       std::fill_n(target, inner, Word{});
                     } else {
                       std::copy_n(source + i * inner, inner, target);
                     }
                     target += inner;
                   }
                 }
               });
}

/// Weighted sums of rows of `inner` neighbours.
template <class T>
void sum_rows(const DenseLines& lines, const Taps& taps, std::int64_t in, T* to) {
  using A = Accumulator<T>;
  constexpr std::int64_t kBlock = 1024;
  const auto* from = reinterpret_cast<const T*>(lines.x.impl()->data);
  const std::int64_t out = taps.size(), inner = lines.inner;
  const double used =
      static_cast<double>(taps.index.size()) / static_cast<double>(std::max<std::int64_t>(1, out));
  parallel_for(
      0, lines.outer * out,
      grain_for({.bytes = (used + 1) * static_cast<double>(inner) * sizeof(T)}, lines.outer * out),
      [&](std::int64_t lo, std::int64_t hi) {
        A sums[kBlock], wide[kBlock];
        const auto read = [&](const T* row, std::int64_t n) -> const A* {
          if constexpr (is_half<T>) {
            for (std::int64_t i = 0; i < n; ++i) wide[i] = load(row[i]);
            return wide;
          } else {
            return row;
          }
        };
        for (std::int64_t unit = lo; unit < hi; ++unit) {
          const T* line = from + unit / out * in * inner;
          const auto first =
              static_cast<std::size_t>(taps.begin[static_cast<std::size_t>(unit % out)]);
          const auto end =
              static_cast<std::size_t>(taps.begin[static_cast<std::size_t>(unit % out) + 1]);
          for (std::int64_t at = 0; at < inner; at += kBlock) {
            const std::int64_t n = std::min(kBlock, inner - at);
            T* target = to + unit * inner + at;
            A* sum = sums;
            if constexpr (!is_half<T>) sum = target;
            const auto row = [&](std::size_t k) { return line + taps.index[k] * inner + at; };
            const auto weight = [&](std::size_t k) { return static_cast<A>(taps.weight[k]); };
            std::size_t k = first;
            if (first == end) {
              std::fill_n(sum, n, A{});
            } else if (!is_half<T> && end - first >= 2) {
              if constexpr (!is_half<T>)
                blend(row(k), weight(k), row(k + 1), weight(k + 1), sum, n);
              k += 2;
            } else {
              weigh(read(row(k), n), weight(k), sum, n);
              ++k;
            }
            for (; k < end; ++k) add_weighed(read(row(k), n), weight(k), sum, n);
            if constexpr (is_half<T>) {
              for (std::int64_t i = 0; i < n; ++i) target[i] = store<T>(sums[i]);
            }
          }
        }
      });
}

/// Weighted sums along lines whose elements are neighbours. Tap number k of all results makes one
/// row of indices and weights; results with fewer taps have weight 0 there, at an element of
/// theirs.
template <class T>
void sum_along(const DenseLines& lines, const Taps& taps, std::int64_t in, T* to) {
  using A = Accumulator<T>;
  const std::int64_t out = taps.size();
  std::int64_t most = 0;
  for (std::int64_t o = 0; o < out; ++o) {
    most = std::max(most, taps.begin[static_cast<std::size_t>(o) + 1] -
                              taps.begin[static_cast<std::size_t>(o)]);
  }
  const auto cells = static_cast<std::size_t>(most * out);
  std::vector<std::int32_t> index(cells, 0);
  std::vector<A> weight(cells, A{});
  for (std::int64_t o = 0; o < out; ++o) {
    const std::int64_t begin = taps.begin[static_cast<std::size_t>(o)],
                       end = taps.begin[static_cast<std::size_t>(o) + 1];
    for (std::int64_t k = 0; k < most; ++k) {
      const auto cell = static_cast<std::size_t>(k * out + o);
      if (begin + k < end) {
        index[cell] = static_cast<std::int32_t>(taps.index[static_cast<std::size_t>(begin + k)]);
        weight[cell] = static_cast<A>(taps.weight[static_cast<std::size_t>(begin + k)]);
      }
    }
  }
  const bool even = [&] {  // every result has as many taps
    return taps.begin.back() == most * out;
  }();
  const auto* from = reinterpret_cast<const T*>(lines.x.impl()->data);
  parallel_for(
      0, lines.outer,
      grain_for({.bytes = static_cast<double>(most * out + in) * 2 * sizeof(T)}, lines.outer),
      [&](std::int64_t lo, std::int64_t hi) {
        std::vector<A> wide(is_half<T> ? static_cast<std::size_t>(in) : 0);
        std::vector<A> sums(is_half<T> ? static_cast<std::size_t>(out) : 0);
        for (std::int64_t line = lo; line < hi; ++line) {
          const T* row = from + line * in;
          T* target = to + line * out;
          const A* x = nullptr;
          A* sum = nullptr;
          if constexpr (is_half<T>) {
            for (std::int64_t i = 0; i < in; ++i) wide[static_cast<std::size_t>(i)] = load(row[i]);
            x = wide.data();
            sum = sums.data();
          } else {
            x = row;
            sum = target;
          }
          if (even && most > 0) {
            pick(x, index.data(), weight.data(), sum, out);
            for (std::int64_t k = 1; k < most; ++k) {
              add_picked(x, index.data() + k * out, weight.data() + k * out, sum, out);
            }
          } else {
            for (std::int64_t o = 0; o < out; ++o) {
              A total{};
              for (auto k = static_cast<std::size_t>(taps.begin[static_cast<std::size_t>(o)]);
                   k < static_cast<std::size_t>(taps.begin[static_cast<std::size_t>(o) + 1]); ++k) {
                total += x[taps.index[k]] * static_cast<A>(taps.weight[k]);
              }
              sum[o] = total;
            }
          }
          if constexpr (is_half<T>) {
            for (std::int64_t o = 0; o < out; ++o) target[o] = store<T>(sum[o]);
          }
        }
      });
}

void run(const OpCall& call, const Taps& taps, bool copies) {
  const Tensor& out = call.outputs[0];
  if (out.impl()->numel() == 0) return;
  const auto& a = call.attrs_as<ops::ResampleAttrs>();
  const auto axis = static_cast<std::size_t>(
      a.axis < 0 ? a.axis + static_cast<std::int64_t>(out.impl()->shape.size()) : a.axis);
  const DenseLines lines = dense_lines(call.inputs[0], out, axis);
  const std::int64_t in = call.inputs[0].impl()->shape[axis].number();
  if (copies) {
    with_word(out.dtype(), [&]<class Word>(Word) {
      copy_lines(lines, taps, in, reinterpret_cast<Word*>(out.impl()->data));
    });
    return;
  }
  with_floating(out.dtype(), [&]<class T>(T) {
    T* to = reinterpret_cast<T*>(out.impl()->data);
    lines.inner == 1 ? sum_along(lines, taps, in, to) : sum_rows(lines, taps, in, to);
  });
}

std::int64_t size_along(const Tensor& t, const ops::ResampleAttrs& a) {
  const auto rank = static_cast<std::int64_t>(t.impl()->shape.size());
  return t.impl()->shape[static_cast<std::size_t>(from_front(a.axis, rank))].number();
}

void resample(const OpCall& call) {
  const auto& a = call.attrs_as<ops::ResampleAttrs>();
  run(call, resample_taps(a, size_along(call.inputs[0], a), size_along(call.outputs[0], a)),
      a.mode == "nearest");
}

void resample_transpose(const OpCall& call) {
  const auto& a = call.attrs_as<ops::ResampleAttrs>();
  const std::int64_t in = size_along(call.outputs[0], a);
  run(call, resample_taps(a, in, size_along(call.inputs[0], a)).transposed(in), false);
}

}  // namespace

std::span<const NamedKernel> resample_kernels() {
  static constexpr NamedKernel kernels[] = {
      {"resample", {resample, follow_first}},
      {"resample_transpose", {resample_transpose, follow_first}},
  };
  return kernels;
}

}  // namespace dyad::runtime::cpu
