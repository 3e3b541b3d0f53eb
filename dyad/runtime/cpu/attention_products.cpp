#include "dyad/runtime/cpu/attention_products.h"

namespace dyad::runtime::cpu {

WordRows HeadFactors::where(std::int64_t b, std::int64_t h, std::int64_t first,
                            std::int64_t count) {
  if (!widens_) return {.at = rows_.at(b, h, first), .row = rows_.row_bytes()};
  const float* const at = wide_.at(b, h, first, count);
  return {.at = reinterpret_cast<const std::byte*>(at),
          .row = wide_.row() * static_cast<std::int64_t>(sizeof(float))};
}

WordRows HeadFactors::rows(std::int64_t b, std::int64_t h, std::int64_t first, std::int64_t count) {
  for (std::int64_t i = 0; i < count && !widens_; ++i) rows_.fetch(b, h, first + i);
  return where(b, h, first, count);
}

const WordPanels& HeadFactors::panels(std::int64_t b, std::int64_t h, std::int64_t first,
                                      std::int64_t count) {
  if (straight_.changes({b, h, first, count})) {
    const WordRows from = where(b, h, first, count);
    straight_.panels.pack(from.at, from.row, count, rows_.width());
  }
  return straight_.panels;
}

const WordPanels& HeadFactors::transposed(std::int64_t b, std::int64_t h, std::int64_t first,
                                          std::int64_t count) {
  if (transposed_.changes({b, h, first, count})) {
    const WordRows from = where(b, h, first, count);
    transposed_.panels.pack_transposed(from.at, from.row, rows_.width(), count);
  }
  return transposed_.panels;
}

std::optional<WordKind> WordProducts::kind_for(const AttentionInputs& x,
                                               const AttentionRows* grad) noexcept {
  const auto all = [&](const auto& holds) {
    return holds(x.q) && holds(x.k) && holds(x.v) && (grad == nullptr || holds(*grad));
  };
  const bool in_pairs = all([](const AttentionRows& rows) {
    return rows.dtype() == DType::bf16 && rows.width() % 2 == 0;
  });
  if (in_pairs && has_word_products(WordKind::bf16_pair)) return WordKind::bf16_pair;
  const bool in_f32 =
      all([](const AttentionRows& rows) { return rows.dtype() == DType::f32 || rows.is_half(); });
  if (in_f32 && has_word_products(WordKind::f32)) return WordKind::f32;
  return std::nullopt;
}

WordProducts::WordProducts(const AttentionInputs& x, const AttentionRows* grad)
    : x_(x),
      kind_(*kind_for(x, grad)),
      q_(x.q, kind_),
      k_(x.k, kind_),
      v_(x.v, kind_),
      grad_(grad ? *grad : x.q, kind_) {}

void WordProducts::scores(const AttentionTile& t, float* to) {
  word_product(t.rows, t.columns, x_.width, q_.rows(t.b, t.h, t.q0, t.rows),
               k_.transposed(t.b, t.key_head, t.k0, x_.keys_from(t.k0)), false, to, t.columns,
               static_cast<float>(x_.scale));
}

void WordProducts::values(const AttentionTile& t, const float* weights, bool add, float* to,
                          std::int64_t to_row) {
  word_product(t.rows, x_.value_width, t.columns,
               as_factor(kind_, weights, t.rows, t.columns, room_),
               v_.panels(t.b, t.key_head, t.k0, x_.keys_from(t.k0)), add, to, to_row);
}

void WordProducts::weight_gradients(const AttentionTile& t, float* to) {
  word_product(t.rows, t.columns, x_.value_width, grad_.rows(t.b, t.h, t.q0, t.rows),
               v_.transposed(t.b, t.key_head, t.k0, x_.keys_from(t.k0)), false, to, t.columns);
}

void WordProducts::value_gradients(const AttentionTile& t, const float* weights, float* dv) {
  word_product(t.columns, x_.value_width, t.rows,
               as_transposed_factor(kind_, weights, t.rows, t.columns, room_),
               grad_.panels(t.b, t.h, t.q0, t.rows), true, dv, x_.value_width);
}

void WordProducts::score_gradients(const AttentionTile& t, const float* by_scores, float* dk,
                                   bool add, float* dq) {
  word_product(t.columns, x_.width, t.rows,
               as_transposed_factor(kind_, by_scores, t.rows, t.columns, room_),
               q_.panels(t.b, t.h, t.q0, t.rows), true, dk, x_.width);
  word_product(t.rows, x_.width, t.columns, as_factor(kind_, by_scores, t.rows, t.columns, room_),
               k_.panels(t.b, t.key_head, t.k0, x_.keys_from(t.k0)), add, dq, x_.width);
}

}  // namespace dyad::runtime::cpu
