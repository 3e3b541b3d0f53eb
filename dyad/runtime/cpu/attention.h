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

/// The inputs of attention from q on.
struct AttentionInputs {
  AttentionInputs(const OpCall& call, std::size_t first);

  /// Scores of queries q0.. and keys k0.. of one head, [rows, columns], before the softmax: scaled,
  /// capped, masked, -inf where the mask says so. Of row i, only `visible` ones mean anything.
  template <class T>
  void scores(HeadRows<T>& queries, HeadRows<T>& keys_of, std::int64_t b, std::int64_t h,
              std::int64_t q0, std::int64_t rows, std::int64_t k0, std::int64_t columns,
              T* to) const;
  /// Multiplies a tile of the same place by what dropout does to it.
  template <class T>
  void drop(std::int64_t b, std::int64_t h, std::int64_t q0, std::int64_t rows, std::int64_t k0,
            std::int64_t columns, T* tile) const;
  /// Heads of q to one of k and v.
  [[nodiscard]] std::int64_t group() const noexcept { return heads / key_heads; }
  /// Heads of k and v that head h of q meets.
  [[nodiscard]] std::int64_t key_head(std::int64_t h) const noexcept { return h / group(); }
  /// Queries of a tile: a function of the sizes. With smaller ones more tiles of a causal mask are
  /// passed over.
  [[nodiscard]] std::int64_t tile_rows() const noexcept {
    return std::min(
        attrs.is_causal && length > kAttentionRows / 2 ? kAttentionRows / 2 : kAttentionRows,
        length);
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
