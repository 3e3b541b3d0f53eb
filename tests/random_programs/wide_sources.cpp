#include "rows.h"

// Filled, counted, drawn: values from sizes and numbers.

namespace dyad::testing {
namespace {

std::vector<Row> filling_rows() {
  return {
      {DYAD_ROW(ones(sizes, dtype)),
       value(1) + size(0) + whole(0, 3) + dtypes({f32, i64, boolean})},
      {DYAD_ROW(zeros(sizes, dtype)), value(1) + size(-1) + dtypes({f32, f64, i32})},
      {DYAD_ROW(ones_like(x)), value()},
      {DYAD_ROW(full_like(x, a)), value() + real({0, 2, -1})},
      {DYAD_ROW(full_like(x, a, dtype)), value() + real({0, 2, 1}) + dtypes({f32, i64, f16})},
      {DYAD_ROW(arange(i, j, k)), whole(-2, 1) + whole(2, 6) + whole(1, 2)},
      {DYAD_ROW(arange(a, b, 0.25, dtype)), real({0, -0.5}) + real({1, 2}) + dtypes({f32, f64})},
      {DYAD_ROW(linspace(a, b, l)), value(1) + size(0) + real({0, -0.5}) + real({1, 2})},
      {DYAD_ROW(logspace(0, 1, l)), value(1) + size(0)},
      {DYAD_ROW(eye(l, m, k)), value(1) + size(0) + size(-1) + whole(-1, 1)},
      {DYAD_ROW(tril_indices(i, j)), whole(0, 3) + whole(0, 3)},
      {DYAD_ROW(triu_indices(i, j, k)), whole(0, 3) + whole(0, 3) + whole(-1, 1)},
      {DYAD_ROW(hann_window(l)), value(1) + size(0)},
      {DYAD_ROW(hamming_window(l, false)), value(1) + size(0)},
      {DYAD_ROW(blackman_window(l)), value(1) + size(0)},
      {DYAD_ROW(bartlett_window(l)), value(1) + size(0)},
      {DYAD_ROW(kaiser_window(l)), value(1) + size(0)},
      {DYAD_ROW(causal_mask(l, m)), value(1) + size(0) + size(-1)},
      {DYAD_ROW(length_mask(remainder(x, 4), 3)), wholes(1, 1)},
      {DYAD_ROW(alibi_bias(2, l, m)), value(1) + size(0) + size(-1)},
      {DYAD_ROW(fftfreq(l)), value(1) + size(0)},
      {DYAD_ROW(rfftfreq(l, 0.5)), value(1) + size(0)},
      {DYAD_ROW(mel_weight_matrix(i, 8, 100, 1, 40)), whole(1, 3)},
      {DYAD_ROW(size_tensor(x.numel() * 2)), value()},
      {DYAD_ROW(sum(x) / x.numel()), floats()},
  };
}

std::vector<Row> drawing_rows() {
  return {
      {DYAD_ROW(uniform(sizes, -1, 2, dtype)), value(1) + size(0) + dtypes({f32, f64})},
      {DYAD_ROW(dyad::rand(sizes)), value(1) + size(0) + whole(1, 3)},
      {DYAD_ROW(normal(sizes, 0.5, 2)), value(1) + size(0) + whole(1, 3)},
      {DYAD_ROW(normal(x, above_zero(y))), floats() + beside()},
      {DYAD_ROW(randn_like(x)), floats()},
      {DYAD_ROW(randint_like(x, -2, 3)), numbers()},
      {DYAD_ROW(truncated_normal(sizes)), value(1) + size(0) + whole(1, 3)},
      {DYAD_ROW(exponential(sizes, 2)), value(1) + size(0) + whole(1, 3)},
      {DYAD_ROW(laplace(sizes)), value(1) + size(0)},
      {DYAD_ROW(cauchy(sizes)), value(1) + size(0)},
      {DYAD_ROW(log_normal(sizes)), value(1) + size(0)},
      {DYAD_ROW(gumbel(sizes)), value(1) + size(0)},
      {DYAD_ROW(gumbel_softmax(x, 0.75, false, i)), floats(1) + axis()},
      {DYAD_ROW(gumbel_softmax(x, 0.75, true, i)), floats(1) + axis()},
      {DYAD_ROW(bernoulli(sizes, 0.25)), value(1) + size(0)},
      {DYAD_ROW(poisson(above_zero(x))), floats()},
      {DYAD_ROW(dyad::gamma(above_zero(x))), floats()},
      {DYAD_ROW(chi2(above_zero(x))), floats()},
      {DYAD_ROW(student_t(above_zero(x))), floats()},
      {DYAD_ROW(dyad::beta(above_zero(x), above_zero(y))), floats() + alike()},
      {DYAD_ROW(dirichlet(above_zero(x))), floats(1)},
      {DYAD_ROW(binomial(floor(above_zero(y)), sigmoid(x))), floats() + alike()},
      {DYAD_ROW(multinomial(above_zero(x), i, true)), floats(1, 2) + whole(1, 3)},
      {DYAD_ROW(multinomial(above_zero(x), 1)), floats(1, 2)},
      {DYAD_ROW(dropout(x, 0.25, false)), floats()},
      {DYAD_ROW(feature_dropout(x, a)), floats(2) + real({0.25, 0.5})},
      {DYAD_ROW(alpha_dropout(x, a)), floats() + real({0.25, 0.5})},
      {DYAD_ROW(feature_alpha_dropout(x, a)), floats(2) + real({0.25, 0.5})},
      {DYAD_ROW(rrelu(x, 0.125, 0.5, true)), floats()},
  };
}

}  // namespace

void add_wide_sources(Instructions& list) {
  add_rows(list, filling_rows());
  add_rows(list, drawing_rows());
}

}  // namespace dyad::testing
