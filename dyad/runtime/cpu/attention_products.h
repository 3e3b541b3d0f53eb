#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "dyad/runtime/cpu/attention.h"
#include "dyad/runtime/cpu/word_product.h"

namespace dyad::runtime::cpu {

// The products of a tile, in one of two ways: those that a thread computes, with what it keeps from
// one tile to the next. Scores and their gradients are dense, [rows, columns].

/// By the library in f32, or by plain loops in f64; rows of half precision are widened.
template <class T>
class WideProducts {
 public:
  WideProducts(const AttentionInputs& x, const AttentionRows* grad)
      : scale_(static_cast<T>(x.scale)), q_(x.q), k_(x.k), v_(x.v), grad_(grad ? *grad : x.q) {}

  /// Queries of a tile under a causal mask, a function of the sizes: with fewer, less is computed
  /// that nobody sees, but products are smaller.
  static constexpr std::int64_t causal_rows(std::int64_t /*length*/) noexcept { return 64; }

  /// to = scale q k^T.
  void scores(const AttentionTile& t, T* to) {
    multiply_tile<T>(false, true, t.rows, t.columns, q_.width(), queries(t), q_.row(), keys(t),
                     k_.row(), false, to, t.columns, scale_);
  }
  /// to = or += weights v.
  void values(const AttentionTile& t, const T* weights, bool add, T* to, std::int64_t to_row) {
    multiply_tile<T>(false, false, t.rows, v_.width(), t.columns, weights, t.columns, values(t),
                     v_.row(), add, to, to_row);
  }
  /// to = grad v^T.
  void weight_gradients(const AttentionTile& t, T* to) {
    multiply_tile<T>(false, true, t.rows, t.columns, v_.width(), grads(t), grad_.row(), values(t),
                     v_.row(), false, to, t.columns);
  }
  /// dv += weights^T grad.
  void value_gradients(const AttentionTile& t, const T* weights, T* dv) {
    multiply_tile<T>(true, false, t.columns, v_.width(), t.rows, weights, t.columns, grads(t),
                     grad_.row(), true, dv, v_.width());
  }
  /// dk += by_scores^T q, dq = or += by_scores k.
  void score_gradients(const AttentionTile& t, const T* by_scores, T* dk, bool add, T* dq) {
    const std::int64_t d = q_.width();
    multiply_tile<T>(true, false, t.columns, d, t.rows, by_scores, t.columns, queries(t), q_.row(),
                     true, dk, d);
    multiply_tile<T>(false, false, t.rows, d, t.columns, by_scores, t.columns, keys(t), k_.row(),
                     add, dq, d);
  }

 private:
  const T* queries(const AttentionTile& t) { return q_.at(t.b, t.h, t.q0, t.rows); }
  const T* keys(const AttentionTile& t) { return k_.at(t.b, t.key_head, t.k0, t.columns); }
  const T* values(const AttentionTile& t) { return v_.at(t.b, t.key_head, t.k0, t.columns); }
  const T* grads(const AttentionTile& t) { return grad_.at(t.b, t.h, t.q0, t.rows); }

  T scale_;
  HeadRows<T> q_, k_, v_, grad_;
};

/// Rows of heads as factors of products of words, packed once for all tiles that follow. What is
/// computed in f32 and is not is widened.
class HeadFactors {
 public:
  HeadFactors(const AttentionRows& rows, WordKind kind)
      : rows_(rows),
        widens_(rows.is_half() && kind == WordKind::f32),
        wide_(rows),
        straight_(kind),
        transposed_(kind) {}

  // Each of `count` rows from number `first` on; good until it is asked for others.
  WordRows rows(std::int64_t b, std::int64_t h, std::int64_t first, std::int64_t count);
  const WordPanels& panels(std::int64_t b, std::int64_t h, std::int64_t first, std::int64_t count);
  /// Of the transpose.
  const WordPanels& transposed(std::int64_t b, std::int64_t h, std::int64_t first,
                               std::int64_t count);

 private:
  using Place = std::array<std::int64_t, 4>;  // b, h, first and count
  struct Packed {
    WordPanels panels;
    Place place{-1, -1, -1, -1};

    explicit Packed(WordKind kind) : panels(kind) {}
    /// Whether it was of others.
    bool changes(const Place& now) { return std::exchange(place, now) != now; }
  };

  WordRows where(std::int64_t b, std::int64_t h, std::int64_t first, std::int64_t count);

  const AttentionRows& rows_;
  bool widens_;
  HeadRows<float> wide_;
  Packed straight_, transposed_;
};

/// By products of words. Of bf16, what they are taken of is rounded to bf16 too: weights, and
/// gradients of scores.
class WordProducts {
 public:
  /// The kind of words, if there is one for these on this CPU.
  static std::optional<WordKind> kind_for(const AttentionInputs& x,
                                          const AttentionRows* grad) noexcept;

  WordProducts(const AttentionInputs& x, const AttentionRows* grad);

  /// In between, products lose less than what nobody sees takes.
  static constexpr std::int64_t causal_rows(std::int64_t length) noexcept {
    return length >= 64 && length <= 512 ? 24 : 64;
  }
  void scores(const AttentionTile& t, float* to);
  void values(const AttentionTile& t, const float* weights, bool add, float* to,
              std::int64_t to_row);
  void weight_gradients(const AttentionTile& t, float* to);
  void value_gradients(const AttentionTile& t, const float* weights, float* dv);
  void score_gradients(const AttentionTile& t, const float* by_scores, float* dk, bool add,
                       float* dq);

 private:
  const AttentionInputs& x_;
  WordKind kind_;
  HeadFactors q_, k_, v_, grad_;
  std::vector<Word> room_;
};

}  // namespace dyad::runtime::cpu
