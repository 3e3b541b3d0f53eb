#include "dyad/runtime/cpu/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "dyad/runtime/cpu/attention_products.h"
#include "dyad/runtime/cpu/cast.h"
#include "dyad/runtime/cpu/copy.h"
#include "dyad/runtime/cpu/element.h"
#include "dyad/runtime/cpu/kernels.h"
#include "dyad/runtime/cpu/norm_rows.h"
#include "dyad/runtime/cpu/vector_clones.h"
#include "dyad/runtime/cpu/vector_math.h"
#include "dyad/runtime/layout.h"
#include "dyad/runtime/threads.h"

// Tiles of up to kAttentionRows queries and kAttentionColumns keys, each row with a running maximum
// and sum (Dao et al., 2022). The order of every sum depends on the sizes, and on the CPU alone.

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

/// Queries of a tile.
template <class Products>
std::int64_t tile_rows(const AttentionInputs& x) {
  const std::int64_t few = Products::causal_rows(x.length);
  return std::min(x.attrs.is_causal && x.length > few ? few : kAttentionRows, x.length);
}

/// Scores of a tile.
template <class T, class Products>
std::vector<T> tile_of(const AttentionInputs& x) {
  return std::vector<T>(
      static_cast<std::size_t>(tile_rows<Products>(x) * std::min(kAttentionColumns, x.keys)));
}

/// What a thread works in.
template <class T, class Products>
struct Forward {
  Products products;
  HeadResults<T> out;
  std::vector<T> tile;

  Forward(const AttentionInputs& x, const AttentionRows& result)
      : products(x, nullptr), out(result), tile(tile_of<T, Products>(x)) {}
};

/// Queries q0 to q0 + rows of one head: `lse` gets their sums' logarithms.
template <class T, class Products>
void attend(const AttentionInputs& x, std::int64_t b, std::int64_t h, std::int64_t q0,
            std::int64_t rows, Forward<T, Products>& in, T* lse) {
  constexpr T kNone = -std::numeric_limits<T>::infinity();
  T top[kAttentionRows], sum[kAttentionRows];
  std::fill_n(top, rows, kNone);
  std::fill_n(sum, rows, T{});
  const std::int64_t end = x.seen(q0 + rows - 1), e = x.value_width, out_row = in.out.row();
  T* const out = in.out.begin(b, h, q0, rows);
  T* const tile = in.tile.data();
  for (std::int64_t k0 = 0; k0 < end; k0 += kAttentionColumns) {
    const std::int64_t n = std::min(kAttentionColumns, end - k0);
    const AttentionTile here{b, h, x.key_head(h), q0, rows, k0, n};
    in.products.scores(here, tile);
    x.hide_scores(here, tile);
    for (std::int64_t i = 0; i < rows; ++i) {
      T* s = tile + i * n;
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
    if (x.attrs.dropout > 0) x.drop(here, tile);
    in.products.values(here, tile, k0 > 0, out, out_row);
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
  in.out.finish();
}

/// Calls `use` with the type that attention is computed in, and the products of its tiles.
template <class Use>
void with_products(const AttentionInputs& x, const AttentionRows* grad, Use use) {
  if (WordProducts::kind_for(x, grad)) return use.template operator()<float, WordProducts>();
  with_computed(x.q.tensor().dtype(),
                [&]<class T>(T) { use.template operator()<T, WideProducts<T>>(); });
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
  const AttentionRows out(call.outputs[0]);
  const Tensor& lse = call.outputs[1];
  const LibraryTeam alone(1);  // a tile's products stay on its thread
  with_products(x, nullptr, [&]<class T, class Products>() {
    const std::int64_t most = tile_rows<Products>(x);
    const std::int64_t blocks = x.length == 0 ? 0 : (x.length + most - 1) / most;
    const std::int64_t units = x.batch * x.heads * blocks;
    const double flops = 2.0 * static_cast<double>(most) *
                         static_cast<double>(x.keys * (x.width + x.value_width + 8));
    parallel_for(0, units, grain_for({.flops = flops}, units),
                 [&](std::int64_t lo, std::int64_t hi) {
                   Forward<T, Products> in(x, out);
                   for (std::int64_t unit = lo; unit < hi; ++unit) {
                     const std::int64_t head = unit / blocks, q0 = unit % blocks * most;
                     attend(x, head / x.heads, head % x.heads, q0, std::min(most, x.length - q0),
                            in, reinterpret_cast<T*>(lse.impl()->data) + head * x.length + q0);
                   }
                 });
  });
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
  const AttentionRows &grad, &dq, &dk, &dv;  // [b, h, l, e], and as q, k and v
  const T* lse;                              // [b, h, l]
  const T* common;  // [b, h, l]: what every element of a row of the softmax's gradient loses
};

/// What a thread works in.
template <class T, class Products>
struct Backward {
  Products products;
  std::vector<HeadResults<T>> dq;  // of the heads that meet one of k and v
  HeadResults<T> dk, dv;
  std::vector<T> p, by_p, raw, kept;

  Backward(const AttentionInputs& x, const BackwardBuffers<T>& to)
      : products(x, &to.grad),
        dq(static_cast<std::size_t>(x.group()), HeadResults<T>(to.dq)),
        dk(to.dk),
        dv(to.dv),
        p(tile_of<T, Products>(x)),
        by_p(tile_of<T, Products>(x)) {}
};

/// Multiplies by the derivative of the cap at each raw score.
template <class T, class Products>
void through_cap(const AttentionInputs& x, const AttentionTile& tile, Backward<T, Products>& in) {
  in.raw.resize(static_cast<std::size_t>(tile.rows * tile.columns));
  in.products.scores(tile, in.raw.data());
  const T before = static_cast<T>(1 / x.attrs.softcap);
  for (std::size_t i = 0; i < in.raw.size(); ++i) {
    const T t = vector_math::tanh(in.raw[i] * before);
    in.by_p[i] *= 1 - t * t;
  }
}

/// All heads of q that meet one head of k and v.
template <class T, class Products>
void attend_backward(const AttentionInputs& x, std::int64_t b, std::int64_t key_head,
                     const BackwardBuffers<T>& to, Backward<T, Products>& in) {
  const std::int64_t d = x.width, e = x.value_width, first_head = key_head * x.group(),
                     most = tile_rows<Products>(x);
  T *const p = in.p.data(), *const by_p = in.by_p.data();
  for (std::int64_t k0 = 0; k0 < x.keys; k0 += kAttentionColumns) {
    const std::int64_t block = x.keys_from(k0);
    T* const dk = in.dk.begin(b, key_head, k0, block);
    T* const dv = in.dv.begin(b, key_head, k0, block);
    std::fill_n(dk, block * d, T{});
    std::fill_n(dv, block * e, T{});
    for (std::int64_t h = first_head; h < first_head + x.group(); ++h) {
      HeadResults<T>& by_q = in.dq[static_cast<std::size_t>(h - first_head)];
      // Blocks of keys add to it one after the other.
      T* const dq = k0 == 0 ? by_q.begin(b, h, 0, x.length) : by_q.data();
      for (std::int64_t q0 = 0; q0 < x.length; q0 += most) {
        const std::int64_t rows = std::min(most, x.length - q0);
        const std::int64_t n = std::min(block, x.seen(q0 + rows - 1) - k0);
        if (n <= 0) continue;
        const std::int64_t row = (b * x.heads + h) * x.length + q0;
        const AttentionTile here{b, h, key_head, q0, rows, k0, n};
        in.products.scores(here, p);
        x.hide_scores(here, p);
        for (std::int64_t i = 0; i < rows; ++i) {
          const bool none = to.lse[row + i] == -std::numeric_limits<T>::infinity();
          const std::int64_t seen = none ? 0 : x.visible(q0 + i, k0, n);
          exp_row(p + i * n, seen, n, to.lse[row + i]);
        }
        in.products.weight_gradients(here, by_p);
        const T* weights = p;
        if (x.attrs.dropout > 0) {
          x.drop(here, by_p);
          in.kept.assign(p, p + rows * n);
          x.drop(here, in.kept.data());
          weights = in.kept.data();
        }
        in.products.value_gradients(here, weights, dv);
        for (std::int64_t i = 0; i < rows; ++i) {
          by_scores(by_p + i * n, p + i * n, n, to.common[row + i], static_cast<T>(x.scale));
        }
        if (x.attrs.softcap != 0) through_cap(x, here, in);
        in.products.score_gradients(here, by_p, dk, k0 > 0, dq + q0 * d);
      }
    }
    in.dk.finish();
    in.dv.finish();
  }
  for (const HeadResults<T>& by_q : in.dq) by_q.finish();
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
    HeadRows<T> by(grad), of(out);
    for (std::int64_t i = lo; i < hi; ++i) {
      const std::int64_t head = i / x.length;
      const std::int64_t b = head / x.heads, h = head % x.heads, row = i % x.length;
      const T sum =
          static_cast<T>(sum_products(by.at(b, h, row, 1), of.at(b, h, row, 1), T{}, width));
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
  const AttentionRows dq(call.outputs[0]), dk(call.outputs[1]), dv(call.outputs[2]);
  const LibraryTeam alone(1);
  with_products(x, &grad, [&]<class T, class Products>() {
    const std::vector<T> common = common_parts<T>(x, grad, out, grad_lse);
    const BackwardBuffers<T> to{
        grad, dq, dk, dv, reinterpret_cast<const T*>(lse.impl()->data), common.data()};
    if (x.keys == 0) {
      const Tensor& by_q = call.outputs[0];
      std::memset(by_q.impl()->data, 0,
                  static_cast<std::size_t>(by_q.impl()->numel()) * size_of(by_q.dtype()));
    }
    const std::int64_t units = x.batch * x.key_heads;
    if (units == 0) return;
    const double flops = 5.0 * static_cast<double>(x.group() * x.length) *
                         static_cast<double>(x.keys * (x.width + 8));
    parallel_for(0, units, grain_for({.flops = flops}, units),
                 [&](std::int64_t lo, std::int64_t hi) {
                   Backward<T, Products> in(x, to);
                   for (std::int64_t unit = lo; unit < hi; ++unit) {
                     attend_backward(x, unit / x.key_heads, unit % x.key_heads, to, in);
                   }
                 });
  });
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
