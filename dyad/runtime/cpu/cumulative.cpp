#include "dyad/ops/attrs/cumulative.h"

#include <array>
#include <cmath>
#include <functional>
#include <limits>

#include "dyad/runtime/cpu/element.h"
#include "dyad/runtime/cpu/kernels.h"
#include "dyad/runtime/cpu/lines.h"

namespace dyad::runtime::cpu {
namespace {

/// What running sums are kept in: wider than what they are stored as, integers wrap.
template <class T>
using Running = std::conditional_t<std::is_same_v<T, float>, double, Accumulator<T>>;
/// The element that a sum is stored as.
template <class T>
using Summed = std::conditional_t<std::is_integral_v<T>, std::uint64_t, T>;

template <class T>
Running<T> running(T value) noexcept {
  return static_cast<Running<T>>(load(value));
}
template <class T>
Summed<T> stored(Running<T> value) noexcept {
  if constexpr (std::is_integral_v<T>) {
    return value;
  } else if constexpr (std::is_same_v<T, float>) {
    return static_cast<float>(value);
  } else {
    return store<T>(value);
  }
}

/// Walks the lines of input 0 and of all outputs from their first element, or from the last.
template <std::size_t N>
void scan_lines(const OpCall& call, std::array<const TensorImpl*, N> operands,
                const std::function<void(const LineBundle<N>&)>& body) {
  const auto& attrs = call.attrs_as<ops::ScanAttrs>();
  const TensorImpl& x = *operands[0];
  if (x.numel() == 0) return;
  const std::size_t axis = static_cast<std::size_t>(from_front(attrs.axis, x.shape.rank()));
  std::array<Strides, N> strides;
  double bytes = 0;
  for (std::size_t k = 0; k < N; ++k) {
    strides[k] = operands[k]->strides;
    bytes += 2 * static_cast<double>(size_of(operands[k]->dtype));
  }
  for_each_line<N>(x.shape.numbers(), axis, strides, bytes, [&](LineBundle<N>& lines) {
    if (attrs.reverse) {
      for (std::size_t k = 0; k < N; ++k) {
        lines.offsets[k] += (lines.length - 1) * lines.along[k];
        lines.along[k] = -lines.along[k];
      }
      body(lines);
      for (std::size_t k = 0; k < N; ++k) lines.along[k] = -lines.along[k];
    } else {
      body(lines);
    }
  });
}

/// How the lines of a bundle lie.
struct Steps {
  std::int64_t length, from_along, to_along, from_across, to_across;
};

/// Dense lines side by side: `kWidth` at once, or `width` where that is 0.
template <class T, std::int64_t kWidth, class Join>
void sum_dense(const T* __restrict from, Summed<T>* __restrict to, Running<T>* __restrict sums,
               const Steps& steps, std::int64_t width, Join join) {
  const std::int64_t n = kWidth > 0 ? kWidth : width;
  for (std::int64_t i = 0; i < steps.length; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      const Running<T> next = join(sums[j], running(from[j]));
      to[j] = stored<T>(next);
      sums[j] = next;
    }
    from += steps.from_along;
    to += steps.to_along;
  }
}

/// Lines one after the other, `kCount` at once, so that one need not wait for the other.
template <class T, int kCount, class Join>
void sum_apart(const T* __restrict from, Summed<T>* __restrict to, Running<T> start,
               const Steps& steps, Join join) {
  Running<T> sums[kCount];
  for (int j = 0; j < kCount; ++j) sums[j] = start;
  for (std::int64_t i = 0; i < steps.length; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kCount; ++j) {
      const Running<T> next = join(sums[j], running(from[j * steps.from_across]));
      to[j * steps.to_across] = stored<T>(next);
      sums[j] = next;
    }
    from += steps.from_along;
    to += steps.to_along;
  }
}

/// An exclusive line is the start, and then the sums of all but the last element.
template <class T, class Join>
void run_sums(const OpCall& call, bool exclusive, Running<T> start, Join join) {
  const TensorImpl &x = *call.inputs[0].impl(), &out = *call.outputs[0].impl();
  scan_lines<2>(call, {&x, &out}, [&](const LineBundle<2>& lines) {
    const T* from = reinterpret_cast<const T*>(x.data) + lines.offsets[0];
    auto* to = reinterpret_cast<Summed<T>*>(out.data) + lines.offsets[1];
    const Steps steps{lines.length - (exclusive ? 1 : 0), lines.along[0], lines.along[1],
                      lines.across[0], lines.across[1]};
    if (exclusive) {
      for (std::int64_t j = 0; j < lines.width; ++j) to[j * steps.to_across] = stored<T>(start);
      to += steps.to_along;
    }
    if (steps.from_across == 1 && steps.to_across == 1) {
      Running<T> sums[kLineWidth];
      std::fill_n(sums, kLineWidth, start);
      lines.width == kLineWidth ? sum_dense<T, kLineWidth>(from, to, sums, steps, 0, join)
                                : sum_dense<T, 0>(from, to, sums, steps, lines.width, join);
      return;
    }
    std::int64_t j = 0;
    for (; j + 4 <= lines.width; j += 4) {
      sum_apart<T, 4>(from + j * steps.from_across, to + j * steps.to_across, start, steps, join);
    }
    for (; j < lines.width; ++j) {
      sum_apart<T, 1>(from + j * steps.from_across, to + j * steps.to_across, start, steps, join);
    }
  });
}

template <class Join>
void cumulate(const OpCall& call, int start, Join join) {
  const bool exclusive = call.attrs_as<ops::ScanAttrs>().exclusive;
  with_element(call.inputs[0].dtype(), [&]<class T>(T) {
    run_sums<T>(call, exclusive, static_cast<Running<T>>(start), join);
  });
}

void cumsum(const OpCall& call) {
  cumulate(call, 0, [](auto a, auto b) { return a + b; });
}
void cumprod(const OpCall& call) {
  cumulate(call, 1, [](auto a, auto b) { return a * b; });
}

void logcumsumexp(const OpCall& call) {
  const TensorImpl &x = *call.inputs[0].impl(), &out = *call.outputs[0].impl();
  with_floating(x.dtype, [&]<class T>(T) {
    using R = Running<T>;
    scan_lines<2>(call, {&x, &out}, [&](const LineBundle<2>& lines) {
      const T* from = reinterpret_cast<const T*>(x.data) + lines.offsets[0];
      T* to = reinterpret_cast<T*>(out.data) + lines.offsets[1];
      // The sum so far is exp(largest) * total.
      R largest[kLineWidth], total[kLineWidth];
      std::fill_n(largest, lines.width, -std::numeric_limits<R>::infinity());
      std::fill_n(total, lines.width, R(0));
      for (std::int64_t i = 0; i < lines.length; ++i) {
        for (std::int64_t j = 0; j < lines.width; ++j) {
          const R value = running(from[j * lines.across[0]]);
          if (value != value) {
            largest[j] = value;
          } else if (value > largest[j]) {
            total[j] = total[j] * std::exp(largest[j] - value) + 1;
            largest[j] = value;
          } else if (!std::isinf(largest[j])) {
            total[j] += std::exp(value - largest[j]);
          }
          const bool plain = std::isinf(largest[j]) || largest[j] != largest[j];
          to[j * lines.across[1]] = stored<T>(plain ? largest[j] : largest[j] + std::log(total[j]));
        }
        from += lines.along[0];
        to += lines.along[1];
      }
    });
  });
}

template <bool kLargest>
void cum_extreme(const OpCall& call) {
  const TensorImpl& x = *call.inputs[0].impl();
  const TensorImpl &values = *call.outputs[0].impl(), &indices = *call.outputs[1].impl();
  with_element(x.dtype, [&]<class T>(T) {
    scan_lines<3>(call, {&x, &values, &indices}, [&](const LineBundle<3>& lines) {
      const T* from = reinterpret_cast<const T*>(x.data) + lines.offsets[0];
      T* to = reinterpret_cast<T*>(values.data) + lines.offsets[1];
      auto* at = reinterpret_cast<std::int64_t*>(indices.data) + lines.offsets[2];
      T best[kLineWidth] = {};
      std::int64_t place[kLineWidth];
      for (std::int64_t i = 0; i < lines.length; ++i) {
        for (std::int64_t j = 0; j < lines.width; ++j) {
          const T value = from[j * lines.across[0]];
          const auto now = comparable(value), before = comparable(best[j]);
          if (i == 0 || now != now ||
              (!(before != before) && (kLargest ? now >= before : now <= before))) {
            best[j] = value;
            place[j] = i;
          }
          to[j * lines.across[1]] = best[j];
          at[j * lines.across[2]] = place[j];
        }
        from += lines.along[0];
        to += lines.along[1];
        at += lines.along[2];
      }
    });
  });
}

void linear_scan(const OpCall& call) {
  const TensorImpl &a = *call.inputs[0].impl(), &b = *call.inputs[1].impl();
  const TensorImpl& out = *call.outputs[0].impl();
  with_floating(a.dtype, [&]<class T>(T) {
    using R = Running<T>;
    scan_lines<3>(call, {&a, &b, &out}, [&](const LineBundle<3>& lines) {
      const T* step = reinterpret_cast<const T*>(a.data) + lines.offsets[0];
      const T* add = reinterpret_cast<const T*>(b.data) + lines.offsets[1];
      T* to = reinterpret_cast<T*>(out.data) + lines.offsets[2];
      R state[kLineWidth];
      for (std::int64_t i = 0; i < lines.length; ++i) {
        for (std::int64_t j = 0; j < lines.width; ++j) {
          const R added = running(add[j * lines.across[1]]);
          state[j] = i == 0 ? added : running(step[j * lines.across[0]]) * state[j] + added;
          to[j * lines.across[2]] = stored<T>(state[j]);
        }
        step += lines.along[0];
        add += lines.along[1];
        to += lines.along[2];
      }
    });
  });
}

}  // namespace

std::span<const NamedKernel> cumulative_kernels() {
  static constexpr NamedKernel kernels[] = {
      {"cumsum", {cumsum}},
      {"cumprod", {cumprod}},
      {"logcumsumexp", {logcumsumexp}},
      {"cummax", {cum_extreme<true>}},
      {"cummin", {cum_extreme<false>}},
      {"linear_scan", {linear_scan}},
  };
  return kernels;
}

}  // namespace dyad::runtime::cpu
