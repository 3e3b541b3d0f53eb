#include "dyad/runtime/cpu/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "dyad/runtime/cpu/cast.h"
#include "dyad/runtime/cpu/copy.h"
#include "dyad/runtime/cpu/element.h"
#include "dyad/runtime/cpu/kernels.h"
#include "dyad/runtime/cpu/norm_rows.h"
#include "dyad/runtime/cpu/vector_clones.h"
#include "dyad/runtime/cpu/vector_math.h"
#include "dyad/runtime/layout.h"
#include "dyad/runtime/threads.h"

// Tiles of kAttentionRows queries and kAttentionColumns keys, each row with a running maximum and
// sum (Dao et al., 2022). The order of every sum depends on the sizes alone.

namespace dyad::runtime::cpu {
namespace {

/// Rows are worked on in so many lanes, in as many vectors, whatever the CPU: so the bits of sums
/// are the same on all.
constexpr std::int64_t kScoreLanes = 16;
template <class T, int kBytes>
inline constexpr std::int64_t kParts = kScoreLanes * static_cast<std::int64_t>(sizeof(T)) / kBytes;

using vector_math::Unaligned;
using vector_math::Vector;

/// Halves onto one another, as reductions join their lanes.
template <int kBytes, class T, class Combine>
[[gnu::always_inline]] inline T join_lanes(Vector<T, kBytes>* parts, Combine combine) {
#pragma GCC unroll 8
  for (std::int64_t half = kParts<T, kBytes> / 2; half > 0; half /= 2) {
    for (std::int64_t k = 0; k < half; ++k) combine(parts[k], parts[k + half]);
  }
  return vector_math::over_lanes<T, kBytes>(parts[0], combine);
}

/// Calls `use` with the lanes of the first `seen` of n scores, -inf where there are no more, and
/// keeps what becomes of them.
template <int kBytes, class T, class Use>
[[gnu::always_inline]] inline void over_scores(T* s, std::int64_t seen, std::int64_t n, Use use) {
  using U = Unaligned<T, kBytes>;
  constexpr std::int64_t kWidth = vector_math::kVectorLanes<T, kBytes>;
  std::int64_t j = 0;
  for (; j + kScoreLanes <= seen; j += kScoreLanes) {
    for (std::int64_t k = 0; k < kParts<T, kBytes>; ++k) {
      auto* const lanes = reinterpret_cast<U*>(s + j + k * kWidth);
      Vector<T, kBytes> v = *lanes;
      use(v, k);
      *lanes = v;
    }
  }
  if (j == seen) return;
  T last[kScoreLanes] = {};
  const bool has_room = j + kScoreLanes <= n;
  T* const rest = has_room ? s + j : last;
  if (!has_room) std::copy_n(s + j, seen - j, last);
  for (std::int64_t k = 0; k < kParts<T, kBytes>; ++k) {
    auto* const lanes = reinterpret_cast<U*>(rest + k * kWidth);
    Vector<T, kBytes> v = *lanes;
    vector_math::set_from<T, kBytes>(seen - j - k * kWidth, v,
                                     Vector<T, kBytes>{} - std::numeric_limits<T>::infinity());
    use(v, k);
    *lanes = v;
  }
  if (!has_room) std::copy_n(last, seen - j, s + j);
}

/// NaN are passed over, they make the sum NaN.
template <int kBytes, class T>
[[gnu::always_inline]] inline T largest_loop(T* s, std::int64_t seen, std::int64_t n) {
  Vector<T, kBytes> parts[kParts<T, kBytes>];
  std::ranges::fill(parts, Vector<T, kBytes>{} - std::numeric_limits<T>::infinity());
  over_scores<kBytes>(s, seen, n, [&](const Vector<T, kBytes>& v, std::int64_t k) {
    parts[k] = v > parts[k] ? v : parts[k];
  });
  return join_lanes<kBytes, T>(parts, [](auto& p, const auto& q) { p = q > p ? q : p; });
}
DYAD_VECTOR_VERSIONS(float, largest, (float* s, std::int64_t seen, std::int64_t n), largest_loop,
                     (s, seen, n))
DYAD_VECTOR_VERSIONS(double, largest, (double* s, std::int64_t seen, std::int64_t n), largest_loop,
                     (s, seen, n))

/// s[j] = exp(s[j] - from), of s that are not above it, of those seen, 0 of the others; gives the
/// sum.
template <int kBytes, class T>
[[gnu::always_inline]] inline T exp_loop(T* s, std::int64_t seen, std::int64_t n, T from) {
  Vector<T, kBytes> sums[kParts<T, kBytes>] = {};
  over_scores<kBytes>(s, seen, n, [&](Vector<T, kBytes>& v, std::int64_t k) {
    v -= from;
    vector_math::exp_of_negative<T, kBytes>(v);
    sums[k] += v;
  });
  std::fill(s + seen, s + n, T{});
  return join_lanes<kBytes, T>(sums, [](auto& p, const auto& q) { p += q; });
}
DYAD_VECTOR_VERSIONS(float, exp_row, (float* s, std::int64_t seen, std::int64_t n, float from),
                     exp_loop, (s, seen, n, from))
DYAD_VECTOR_VERSIONS(double, exp_row, (double* s, std::int64_t seen, std::int64_t n, double from),
                     exp_loop, (s, seen, n, from))

template <class T>
[[gnu::always_inline]] inline void multiply_all(T* s, std::int64_t n, T factor) {
  for (std::int64_t j = 0; j < n; ++j) s[j] *= factor;
}
DYAD_VECTOR_CLONES void multiply_row(float* s, std::int64_t n, float factor) {
  multiply_all(s, n, factor);
}
DYAD_VECTOR_CLONES void multiply_row(double* s, std::int64_t n, double factor) {
  multiply_all(s, n, factor);
}

/// What a thread works in.
template <class T>
struct Tile {
  std::vector<T> elements;
  explicit Tile(const AttentionInputs& x)
      : elements(static_cast<std::size_t>(x.tile_rows() * std::min(kAttentionColumns, x.keys))) {}
  T* data() noexcept { return elements.data(); }
};

/// Queries q0 to q0 + rows of one head: `out` gets their results, `out_row` elements apart, `lse`
/// their sums' logarithms.
template <class T>
void attend(const AttentionInputs& x, std::int64_t b, std::int64_t h, std::int64_t q0,
            std::int64_t rows, Tile<T>& tile, T* out, std::int64_t out_row, T* lse) {
  constexpr T kNone = -std::numeric_limits<T>::infinity();
  T top[kAttentionRows], sum[kAttentionRows];
  std::fill_n(top, rows, kNone);
  std::fill_n(sum, rows, T{});
  const std::int64_t end = x.seen(q0 + rows - 1), e = x.value_width;
  for (std::int64_t k0 = 0; k0 < end; k0 += kAttentionColumns) {
    const std::int64_t n = std::min(kAttentionColumns, end - k0);
    x.scores(b, h, q0, rows, k0, n, tile.data());
    for (std::int64_t i = 0; i < rows; ++i) {
      T* s = tile.data() + i * n;
      const std::int64_t seen = x.visible(q0 + i, k0, n);
      const T most = std::max(top[i], largest(s, seen, n));
      const T from = most == kNone ? T{} : most;
      const T part = exp_row(s, seen, n, from);
      if (k0 > 0 && most != top[i]) {
        const T shrink = std::exp(top[i] - from);
        sum[i] *= shrink;
        multiply_row(out + i * out_row, e, shrink);
      }
      sum[i] += part;
      top[i] = most;
    }
    if (x.attrs.dropout > 0) x.drop(b, h, q0, rows, k0, n, tile.data());
    multiply_tile<T>(false, false, rows, e, n, tile.data(), n, x.v.at<T>(b, x.key_head(h), k0),
                     x.v.row(), k0 > 0, out, out_row);
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    const bool none = sum[i] == 0;
    if (none) {
      std::fill_n(out + i * out_row, e, T{});
    } else {
      multiply_row(out + i * out_row, e, 1 / sum[i]);
    }
    lse[i] = none ? kNone : top[i] + std::log(sum[i]);
  }
}

/// The result lies in the order of q's axes: heads that are columns of what a linear layer gave are
/// columns of the result, which the next one reads as it lies.
Strides attention_layout(const OpInfo&, const void*, std::span<const Tensor> inputs,
                         const Shape& shape, int index) {
  if (index == 0) {
    const Strides strides = pointwise_layout(inputs.first(1), shape);
    if (strides.back() == 1) return strides;
  }
  return contiguous_strides(shape);
}

void attention_forward(const OpCall& call) {
  const AttentionInputs x(call, 0);
  const ComputedOutput out(call.outputs[0]);
  const Strides& out_at = out.tensor().impl()->strides;
  const Tensor& lse = call.outputs[1];
  const std::int64_t tile_rows = x.tile_rows();
  const std::int64_t blocks = x.length == 0 ? 0 : (x.length + tile_rows - 1) / tile_rows;
  const std::int64_t units = x.batch * x.heads * blocks;
  const LibraryTeam alone(1);  // a tile's products stay on its thread
  with_computed(x.q.tensor().dtype(), [&]<class T>(T) {
    const double flops = 2.0 * static_cast<double>(tile_rows) *
                         static_cast<double>(x.keys * (x.width + x.value_width + 8));
    parallel_for(
        0, units, grain_for({.flops = flops}, units), [&](std::int64_t lo, std::int64_t hi) {
          Tile<T> tile(x);
          for (std::int64_t unit = lo; unit < hi; ++unit) {
            const std::int64_t head = unit / blocks, q0 = unit % blocks * tile_rows;
            const std::int64_t b = head / x.heads, h = head % x.heads;
            attend(x, b, h, q0, std::min(tile_rows, x.length - q0), tile,
                   reinterpret_cast<T*>(out.tensor().impl()->data) + b * out_at[0] + h * out_at[1] +
                       q0 * out_at[2],
                   out_at[2], reinterpret_cast<T*>(lse.impl()->data) + head * x.length + q0);
          }
        });
  });
  out.finish();
}

// --- gradients ---------------------------------------------------------------------------------

/// by_p[j] = p[j] (by_p[j] - common) scale: the gradient of the raw scores but for the cap.
template <class T>
[[gnu::always_inline]] inline void by_scores_of(T* by_p, const T* p, std::int64_t n, T common,
                                                T scale) {
  for (std::int64_t j = 0; j < n; ++j) by_p[j] = p[j] * (by_p[j] - common) * scale;
}
DYAD_VECTOR_CLONES void by_scores(float* by_p, const float* p, std::int64_t n, float common,
                                  float scale) {
  by_scores_of(by_p, p, n, common, scale);
}
DYAD_VECTOR_CLONES void by_scores(double* by_p, const double* p, std::int64_t n, double common,
                                  double scale) {
  by_scores_of(by_p, p, n, common, scale);
}

template <class T>
struct BackwardBuffers {
  const AttentionRows& grad;  // [b, h, l, e]
  const T* lse;               // [b, h, l]
  const T* common;  // [b, h, l]: what every element of a row of the softmax's gradient loses
  T *dq, *dk, *dv;
};

/// Multiplies by the derivative of the cap at each raw score.
template <class T>
void through_cap(const AttentionInputs& x, std::int64_t b, std::int64_t h, std::int64_t q0,
                 std::int64_t rows, std::int64_t k0, std::int64_t n, T* by_score,
                 std::vector<T>& raw) {
  raw.resize(static_cast<std::size_t>(rows * n));
  multiply_tile<T>(false, true, rows, n, x.width, x.q.at<T>(b, h, q0), x.q.row(),
                   x.k.at<T>(b, x.key_head(h), k0), x.k.row(), false, raw.data(), n,
                   static_cast<T>(x.scale));
  const T before = static_cast<T>(1 / x.attrs.softcap);
  for (std::int64_t i = 0; i < rows * n; ++i) {
    const T t = vector_math::tanh(raw[static_cast<std::size_t>(i)] * before);
    by_score[i] *= 1 - t * t;
  }
}

/// All heads of q that meet one head of k and v.
template <class T>
void attend_backward(const AttentionInputs& x, std::int64_t b, std::int64_t key_head,
                     const BackwardBuffers<T>& to, Tile<T>& p, Tile<T>& by_p) {
  const std::int64_t d = x.width, e = x.value_width;
  const std::int64_t key_row = (b * x.key_heads + key_head) * x.keys;
  std::vector<T> raw, kept;
  for (std::int64_t k0 = 0; k0 < x.keys; k0 += kAttentionColumns) {
    const std::int64_t block = std::min(kAttentionColumns, x.keys - k0);
    T* const dk = to.dk + (key_row + k0) * d;
    T* const dv = to.dv + (key_row + k0) * e;
    std::fill_n(dk, block * d, T{});
    std::fill_n(dv, block * e, T{});
    for (std::int64_t h = key_head * x.group(); h < (key_head + 1) * x.group(); ++h) {
      for (std::int64_t q0 = 0; q0 < x.length; q0 += x.tile_rows()) {
        const std::int64_t rows = std::min(x.tile_rows(), x.length - q0);
        const std::int64_t n = std::min(block, x.seen(q0 + rows - 1) - k0);
        if (n <= 0) continue;
        const std::int64_t row = (b * x.heads + h) * x.length + q0;
        const T *grad = to.grad.template at<T>(b, h, q0), *keys = x.k.at<T>(b, key_head, k0);
        x.scores(b, h, q0, rows, k0, n, p.data());
        for (std::int64_t i = 0; i < rows; ++i) {
          T* s = p.data() + i * n;
          const bool none = to.lse[row + i] == -std::numeric_limits<T>::infinity();
          const std::int64_t seen = none ? 0 : x.visible(q0 + i, k0, n);
          exp_row(s, seen, n, to.lse[row + i]);
        }
        multiply_tile<T>(false, true, rows, n, e, grad, to.grad.row(), x.v.at<T>(b, key_head, k0),
                         x.v.row(), false, by_p.data(), n);
        const T* weights = p.data();
        if (x.attrs.dropout > 0) {
          x.drop(b, h, q0, rows, k0, n, by_p.data());
          kept.assign(p.data(), p.data() + rows * n);
          x.drop(b, h, q0, rows, k0, n, kept.data());
          weights = kept.data();
        }
        multiply_tile<T>(true, false, n, e, rows, weights, n, grad, to.grad.row(), true, dv, e);
        for (std::int64_t i = 0; i < rows; ++i) {
          by_scores(by_p.data() + i * n, p.data() + i * n, n, to.common[row + i],
                    static_cast<T>(x.scale));
        }
        if (x.attrs.softcap != 0) through_cap(x, b, h, q0, rows, k0, n, by_p.data(), raw);
        multiply_tile<T>(true, false, n, d, rows, by_p.data(), n, x.q.at<T>(b, h, q0), x.q.row(),
                         true, dk, d);
        multiply_tile<T>(false, false, rows, d, n, by_p.data(), n, keys, x.k.row(), k0 > 0,
                         to.dq + row * d, d);
      }
    }
  }
}

/// For each query: sum of grad * out, less the gradient of its lse.
template <class T>
std::vector<T> common_parts(const AttentionInputs& x, const AttentionRows& grad,
                            const AttentionRows& out, const Tensor& grad_lse) {
  const std::int64_t rows = x.batch * x.heads * x.length, width = x.value_width;
  std::vector<T> common(static_cast<std::size_t>(rows));
  const T* by_lse =
      grad_lse.defined() ? reinterpret_cast<const T*>(grad_lse.impl()->data) : nullptr;
  const double bytes = 2.0 * static_cast<double>(width) * sizeof(T);
  parallel_for(0, rows, grain_for({.bytes = bytes}, rows), [&](std::int64_t lo, std::int64_t hi) {
    for (std::int64_t i = lo; i < hi; ++i) {
      const std::int64_t head = i / x.length;
      const std::int64_t b = head / x.heads, h = head % x.heads, row = i % x.length;
      const T sum =
          static_cast<T>(sum_products(grad.at<T>(b, h, row), out.at<T>(b, h, row), T{}, width));
      common[static_cast<std::size_t>(i)] = by_lse ? sum - by_lse[i] : sum;
    }
  });
  return common;
}

void attention_backward(const OpCall& call) {
  const AttentionInputs x(call, 2);
  const AttentionRows grad(call.inputs[0]);
  const AttentionRows out(call.inputs[8]);
  const Tensor lse = dense_computed(call.inputs[9]), grad_lse = dense_computed(call.inputs[1]);
  const ComputedOutput dq(call.outputs[0]), dk(call.outputs[1]), dv(call.outputs[2]);
  const LibraryTeam alone(1);
  with_computed(x.q.tensor().dtype(), [&]<class T>(T) {
    const auto data = [](const Tensor& t) { return reinterpret_cast<T*>(t.impl()->data); };
    const std::vector<T> common = common_parts<T>(x, grad, out, grad_lse);
    const BackwardBuffers<T> to{
        grad, data(lse), common.data(), data(dq.tensor()), data(dk.tensor()), data(dv.tensor())};
    if (x.keys == 0) std::fill_n(to.dq, dq.tensor().impl()->numel(), T{});
    const std::int64_t units = x.batch * x.key_heads;
    if (units == 0) return;
    const double flops = 5.0 * static_cast<double>(x.group() * x.length) *
                         static_cast<double>(x.keys * (x.width + 8));
    parallel_for(0, units, grain_for({.flops = flops}, units),
                 [&](std::int64_t lo, std::int64_t hi) {
                   Tile<T> p(x), by_p(x);
                   for (std::int64_t unit = lo; unit < hi; ++unit) {
                     attend_backward(x, unit / x.key_heads, unit % x.key_heads, to, p, by_p);
                   }
                 });
  });
  for (const ComputedOutput* result : {&dq, &dk, &dv}) result->finish();
}

}  // namespace

std::span<const NamedKernel> attention_kernels() {
  static constexpr NamedKernel kernels[] = {
      {"attention_forward",
       {.run = attention_forward, .layout = attention_layout, .cannot_fail = true}},
      {"attention_backward", {.run = attention_backward, .cannot_fail = true}}};
  return kernels;
}

}  // namespace dyad::runtime::cpu
