#include <algorithm>
#include <cmath>
#include <limits>

#include "dyad/runtime/cpu/attention.h"
#include "dyad/runtime/cpu/cast.h"
#include "dyad/runtime/cpu/copy.h"
#include "dyad/runtime/cpu/element.h"
#include "dyad/runtime/cpu/gemm.h"
#include "dyad/runtime/cpu/onednn.h"
#include "dyad/runtime/cpu/vector_clones.h"
#include "dyad/runtime/cpu/vector_math.h"
#include "dyad/runtime/layout.h"

namespace dyad::runtime::cpu {
namespace {

/// s[j] = cap tanh(s[j] / cap).
template <class T>
[[gnu::always_inline]] inline void cap_all(T* s, std::int64_t n, T cap) {
  for (std::int64_t j = 0; j < n; ++j) s[j] = vector_math::tanh(s[j] / cap) * cap;
}
DYAD_VECTOR_CLONES void cap_row(float* s, std::int64_t n, float cap) { cap_all(s, n, cap); }
DYAD_VECTOR_CLONES void cap_row(double* s, std::int64_t n, double cap) { cap_all(s, n, cap); }

/// Scores whose mask is false count for nothing. Without branches: masks have no pattern that a CPU
/// could foresee.
template <class T>
[[gnu::always_inline]] inline void hide(T* s, std::int64_t n, const std::uint8_t* mask,
                                        std::int64_t step) {
  constexpr T kNone = -std::numeric_limits<T>::infinity();
  if (step == 1) {
    for (std::int64_t j = 0; j < n; ++j) s[j] = mask[j] != 0 ? s[j] : kNone;
  } else {
    for (std::int64_t j = 0; j < n; ++j) s[j] = mask[j * step] != 0 ? s[j] : kNone;
  }
}
DYAD_VECTOR_CLONES void mask_row(float* s, std::int64_t n, const std::uint8_t* m,
                                 std::int64_t step) {
  hide(s, n, m, step);
}
DYAD_VECTOR_CLONES void mask_row(double* s, std::int64_t n, const std::uint8_t* m,
                                 std::int64_t step) {
  hide(s, n, m, step);
}

template <class T>
[[gnu::always_inline]] inline void add_to(T* s, std::int64_t n, const T* mask, std::int64_t step) {
  if (step == 1) {
    for (std::int64_t j = 0; j < n; ++j) s[j] += mask[j];
  } else {
    for (std::int64_t j = 0; j < n; ++j) s[j] += mask[j * step];
  }
}
DYAD_VECTOR_CLONES void add_row(float* s, std::int64_t n, const float* m, std::int64_t step) {
  add_to(s, n, m, step);
}
DYAD_VECTOR_CLONES void add_row(double* s, std::int64_t n, const double* m, std::int64_t step) {
  add_to(s, n, m, step);
}

}  // namespace

template <class T>
void multiply_tile(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n,
                   std::int64_t k, const T* a, std::int64_t a_row, const T* b, std::int64_t b_row,
                   bool add, T* c, std::int64_t c_row, T scale) {
  if (m == 0 || n == 0) return;
  if (k == 0) {
    for (std::int64_t i = 0; i < m && !add; ++i) std::fill_n(c + i * c_row, n, T{});
    return;
  }
#ifndef DYAD_PLAIN_LOOPS
  if constexpr (std::is_same_v<T, float>) {
    dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k, scale, a, a_row, b, b_row,
               add ? 1.0f : 0.0f, c, c_row);
    return;
  }
#endif
  Gemm g;
  g.dtype = dtype_of<T>;
  g.m = m;
  g.n = n;
  g.k = k;
  g.a_row = transpose_a ? 1 : a_row;
  g.a_column = transpose_a ? a_row : 1;
  g.b_row = transpose_b ? 1 : b_row;
  g.b_column = transpose_b ? b_row : 1;
  g.c_row = c_row;
  gemm_loops(g, a, b, nullptr, c, add);
  if (scale == 1) return;
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) c[i * c_row + j] *= scale;
  }
}

template void multiply_tile(bool, bool, std::int64_t, std::int64_t, std::int64_t, const float*,
                            std::int64_t, const float*, std::int64_t, bool, float*, std::int64_t,
                            float);
template void multiply_tile(bool, bool, std::int64_t, std::int64_t, std::int64_t, const double*,
                            std::int64_t, const double*, std::int64_t, bool, double*, std::int64_t,
                            double);

AttentionRows::AttentionRows(const Tensor& tensor) : tensor_(tensor) {
  const auto sizes = tensor.impl()->shape.numbers();
  const Strides& given = tensor.impl()->strides;
  const bool has_dense_rows =
      (sizes[3] <= 1 || given[3] == 1) && (sizes[2] <= 1 || given[2] >= sizes[3]);
  if (!has_dense_rows) tensor_ = contiguous_copy(tensor);
  const Strides& strides = tensor_.impl()->strides;
  batch_ = strides[0];
  head_ = strides[1];
  length_ = sizes[2];
  width_ = sizes[3];
  element_ = static_cast<std::int64_t>(size_of(tensor_.dtype()));
  row_ = sizes[2] <= 1 ? std::max<std::int64_t>(1, width_) : strides[2];
}

AttentionInputs::AttentionInputs(const OpCall& call, std::size_t first)
    : attrs(call.attrs_as<ops::AttentionAttrs>()),
      q(call.inputs[first]),
      k(call.inputs[first + 1]),
      v(call.inputs[first + 2]),
      value_width(call.inputs[first + 2].impl()->shape[3].number()) {
  const auto given = [&](std::size_t i) {
    return first + i < call.inputs.size() ? call.inputs[first + i] : Tensor();
  };
  const auto sizes = q.tensor().impl()->shape.numbers(),
             key_sizes = k.tensor().impl()->shape.numbers();
  batch = sizes[0];
  heads = sizes[1];
  key_heads = key_sizes[1];
  length = sizes[2];
  keys = key_sizes[2];
  width = sizes[3];
  scale = attrs.scale != 0 ? attrs.scale
                           : 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(width, 1)));
  if (const Tensor m = given(3); m.defined()) {
    const bool half = is_floating(m.dtype()) && size_of(m.dtype()) == 2;
    mask = half ? widened(m) : m;
    const std::int64_t whole[] = {batch, heads, length, keys};
    const Strides strides =
        broadcast_strides(mask.impl()->shape.numbers(), mask.impl()->strides, whole);
    std::copy(strides.begin(), strides.end(), mask_strides);
  }
  if (attrs.dropout > 0) {
    const auto number = [&](std::size_t i) {
      return *reinterpret_cast<const std::int64_t*>(given(i).impl()->data);
    };
    random = {number(4), number(5)};
  }
}

template <class T>
void AttentionInputs::hide_scores(const AttentionTile& tile, T* scores) const {
  if (attrs.softcap == 0 && !mask.defined()) return;
  const std::int64_t masked = tile.b * mask_strides[0] + tile.h * mask_strides[1] +
                              tile.q0 * mask_strides[2] + tile.k0 * mask_strides[3];
  for (std::int64_t i = 0; i < tile.rows; ++i) {
    T* s = scores + i * tile.columns;
    const std::int64_t n = visible(tile.q0 + i, tile.k0, tile.columns);
    if (attrs.softcap != 0) cap_row(s, n, static_cast<T>(attrs.softcap));
    if (!mask.defined()) continue;
    const std::int64_t at = masked + i * mask_strides[2], step = mask_strides[3];
    if (mask.dtype() == DType::boolean) {
      mask_row(s, n, reinterpret_cast<const std::uint8_t*>(mask.impl()->data) + at, step);
    } else {
      add_row(s, n, reinterpret_cast<const T*>(mask.impl()->data) + at, step);
    }
  }
}

template void AttentionInputs::hide_scores(const AttentionTile&, float*) const;
template void AttentionInputs::hide_scores(const AttentionTile&, double*) const;

template <class T>
void AttentionInputs::drop(const AttentionTile& tile, T* weights) const {
  const T kept = static_cast<T>(1 / (1 - attrs.dropout));
  const auto limit = static_cast<float>(attrs.dropout);
  for (std::int64_t i = 0; i < tile.rows; ++i) {
    const std::int64_t at = ((tile.b * heads + tile.h) * length + tile.q0 + i) * keys + tile.k0;
    for (std::int64_t j = 0; j < tile.columns; ++j) {
      const auto u = static_cast<float>(random_words(random, at + j)[0] >> 8) * 0x1p-24f;
      T& element = weights[i * tile.columns + j];
      element = u >= limit ? element * kept : T{};
    }
  }
}

template void AttentionInputs::drop(const AttentionTile&, float*) const;
template void AttentionInputs::drop(const AttentionTile&, double*) const;

}  // namespace dyad::runtime::cpu
