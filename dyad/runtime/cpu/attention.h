#pragma once

#include <algorithm>
#include <cstdint>

#include "dyad/core/generator.h"
#include "dyad/ops/attrs/attention.h"
#include "dyad/runtime/cpu/attention_rows.h"
#include "dyad/runtime/op_kernel.h"

namespace dyad::runtime::cpu {

/// Most queries and keys of a tile.
inline constexpr std::int64_t kAttentionRows = 128, kAttentionColumns = 512;

/// C[m, n] = scale op(A) op(B), or plus that, on one thread; rows follow one another at the
/// strides. With `add` the scale is 1.
template <class T>
void multiply_tile(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n,
                   std::int64_t k, const T* a, std::int64_t a_row, const T* b, std::int64_t b_row,
                   bool add, T* c, std::int64_t c_row, T scale = 1);

/// Queries q0 to q0 + rows of one head by keys k0 to k0 + columns.
struct AttentionTile {
  std::int64_t b = 0, h = 0, key_head = 0, q0 = 0, rows = 0, k0 = 0, columns = 0;
};

/// The inputs of attention from q on.
struct AttentionInputs {
  AttentionInputs(const OpCall& call, std::size_t first);

  /// Caps and masks the products of a tile: scores before the softmax, -inf where the mask says so.
  /// Of row i, only `visible` ones mean anything.
  template <class T>
  void hide_scores(const AttentionTile& tile, T* scores) const;
  /// Multiplies a tile by what dropout does to it.
  template <class T>
  void drop(const AttentionTile& tile, T* weights) const;
  /// Heads of q to one of k and v.
  [[nodiscard]] std::int64_t group() const noexcept { return heads / key_heads; }
  /// Heads of k and v that head h of q meets.
  [[nodiscard]] std::int64_t key_head(std::int64_t h) const noexcept { return h / group(); }
  /// Keys of the block that begins with key k0.
  [[nodiscard]] std::int64_t keys_from(std::int64_t k0) const noexcept {
    return std::min(kAttentionColumns, keys - k0);
  }
  /// How many of the columns from key k0 on query i sees.
  [[nodiscard]] std::int64_t visible(std::int64_t i, std::int64_t k0,
                                     std::int64_t columns) const noexcept {
    if (!attrs.is_causal) return columns;
    return std::clamp<std::int64_t>(i + 1 - k0, 0, columns);
  }
  /// How many keys the queries up to `last` see.
  [[nodiscard]] std::int64_t seen(std::int64_t last) const noexcept {
    return attrs.is_causal && last + 1 < keys ? last + 1 : keys;
  }

  const ops::AttentionAttrs& attrs;
  AttentionRows q, k, v;
  Tensor mask;
  std::int64_t batch, heads, key_heads, length, keys, width, value_width;
  std::int64_t mask_strides[4] = {};  ///< 0 where it broadcasts
  double scale;
  RandomKey random;
};

}  // namespace dyad::runtime::cpu
