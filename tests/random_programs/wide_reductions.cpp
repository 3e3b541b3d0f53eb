#include "rows.h"

// Along axes: sums and moments, extremes, ways through rows, order; statistics of samples.

namespace dyad::testing {
namespace {

std::vector<Row> sum_rows() {
  return {
      {DYAD_ROW(dyad::std(x, axes)), floats() + axes(), 2},
      {DYAD_ROW(dyad::std(x, {i}, 0, true)), floats(1) + axis()},
      {DYAD_ROW(std_mean(x, axes)), floats() + axes()},
      {DYAD_ROW(var_mean(x, {i}, 0, true)), floats(1) + axis()},
      {DYAD_ROW(sum(x, axes, false, dtype)), numbers() + axes() + dtypes({f32, f64, i64})},
      {DYAD_ROW(mean(x, axes, true, dtype)), numbers() + axes() + dtypes({f32, f64})},
      {DYAD_ROW(prod(x, axes, false, dtype)), numbers() + axes() + dtypes({f32, f64, i64})},
      {DYAD_ROW(log_sum(above_zero(x), axes)), floats() + axes()},
      {DYAD_ROW(nanmin(x, axes)), floats() + axes()},
      {DYAD_ROW(nanprod(x, axes)), floats() + axes()},
      {DYAD_ROW(nanvar(x, axes)), floats() + axes()},
      {DYAD_ROW(nanstd(x, axes)), floats() + axes()},
      {DYAD_ROW(aminmax(x, axes)), numbers() + axes()},
      {DYAD_ROW(ptp(x, axes)), numbers() + axes()},
      {DYAD_ROW(average(x, above_zero(y), axes)), floats() + alike() + axes()},
      {DYAD_ROW(average(x, above_zero(y), {-1})), floats(1) + sized({-1})},
      {DYAD_ROW(vector_norm(x, a, axes)), floats() + real({1, 2, 0.5, 3}) + axes()},
      {DYAD_ROW(norm(x, 0, axes, true)), floats() + axes()},
      {DYAD_ROW(norm(x, std::numeric_limits<double>::infinity(), axes)), floats() + axes()},
      {DYAD_ROW(dist(x, y, a)), floats() + beside() + real({1, 2, 3})},
      {DYAD_ROW(matrix_norm(x)), floats(2)},
      {DYAD_ROW(matrix_norm(x, 1)), floats(2)},
      {DYAD_ROW(matrix_norm(x, -1, {0, 1})), floats(2)},
      {DYAD_ROW(mean_variance_normalization(x, axes)), floats() + axes()},
      {DYAD_ROW(normalize(x, a, i)), floats(1) + real({1, 3}) + axis()},
      {DYAD_ROW(renorm(x, a, i, 1.5)), floats(2) + real({1, 2}) + axis()},
      {DYAD_ROW(local_response_norm(x, i)), floats(3) + whole(1, 3)},
  };
}

std::vector<Row> way_rows() {
  return {
      {DYAD_ROW(cumsum(x, i, true, false)), numbers(1) + axis()},
      {DYAD_ROW(cumsum(x, i, false, true)), numbers(1) + axis()},
      {DYAD_ROW(cumsum(x, i, dtype)), numbers(1) + axis() + dtypes({f32, f64, i64})},
      {DYAD_ROW(cumprod(x, i, true, true)), numbers(1) + axis()},
      {DYAD_ROW(cumprod(x, i, dtype)), numbers(1) + axis() + dtypes({f32, f64, i64})},
      {DYAD_ROW(logcumsumexp(x, i, true)), floats(1) + axis()},
      {DYAD_ROW(linear_scan(x, y, i, true)), floats(1, 3) + alike() + axis()},
      {DYAD_ROW(cummin(x, i)), numbers(1) + axis()},
      {DYAD_ROW(nancumsum(x, i)), floats(1) + axis()},
      {DYAD_ROW(nancumprod(x, i)), floats(1) + axis()},
      {DYAD_ROW(diff(x, 2, i)), numbers(1, 3) + axis()},
      {DYAD_ROW(diff(x, 1, 0, y)), numbers(1, 3) + alike()},
      {DYAD_ROW(gradient(x, 0.5, i)), floats(1, 3) + axis()},
      {DYAD_ROW(gradient(x, cumsum(above_zero(y), 0), 0)), floats(1, 1) + alike()},
      {DYAD_ROW(trapezoid(x, 0.5, i)), floats(1, 3) + axis()},
      {DYAD_ROW(trapezoid(x, y, i)), floats(1, 3) + alike() + axis()},
      {DYAD_ROW(cumulative_trapezoid(x, 0.5, i)), floats(1, 3) + axis()},
      {DYAD_ROW(cumulative_trapezoid(x, y, i)), floats(1, 3) + alike() + axis()},
      {DYAD_ROW(unwrap(x * 4, 6.25, i)), floats(1, 3) + axis()},
      {DYAD_ROW(interp(x, cumsum(above_zero(y), 0), z)), floats(0, 2) + alike(1, 1) + alike(1, 1)},
      {DYAD_ROW(polyval(x, y)), floats(1, 1) + alike(0, 2)},
  };
}

std::vector<Row> order_rows() {
  return {
      {DYAD_ROW(min_with_indices(x, i)), numbers(1) + axis()},
      {DYAD_ROW(max_with_indices(x, i, true)), numbers(1) + axis()},
      {DYAD_ROW(argmax(x)), numbers()},
      {DYAD_ROW(argmin(x)), numbers()},
      {DYAD_ROW(argmax(x, i, true, true)), numbers(1) + axis()},
      {DYAD_ROW(nanargmax(x, i)), floats(1) + axis()},
      {DYAD_ROW(nanargmin(x, i)), floats(1) + axis()},
      {DYAD_ROW(nanargmax(x)), floats()},
      {DYAD_ROW(sort(x, i, true)), numbers(1) + axis()},
      {DYAD_ROW(argsort(x, i, true)), numbers(1) + axis()},
      {DYAD_ROW(msort(x)), numbers(1)},
      {DYAD_ROW(lexsort({x, y}, i)), numbers(1, 3) + alike() + axis()},
      {DYAD_ROW(topk(x, j, i, false)), numbers(1) + axis() + whole(0, 2)},
      {DYAD_ROW(topk(x, j, i, true, false)), numbers(1) + axis() + whole(0, 2)},
      {DYAD_ROW(kthvalue(x, j, i)), numbers(1) + axis() + whole(1, 2)},
      {DYAD_ROW(kthvalue(x, m, i, true)), numbers(1) + axis() + size(0)},
      {DYAD_ROW(mode(x, i)), numbers(1) + axis()},
      {DYAD_ROW(median(x)), numbers(1)},
      {DYAD_ROW(median(x, i, true)), numbers(1) + axis()},
      {DYAD_ROW(nanmedian(x)), floats(1)},
      {DYAD_ROW(nanmedian(x, i)), floats(1) + axis()},
      {DYAD_ROW(quantile(x, a, i, true, "lower")), floats(1) + real({0.25, 0.75}) + axis()},
      {DYAD_ROW(quantile(x, a, i, false, "higher")), floats(1) + real({0.25, 0.75}) + axis()},
      {DYAD_ROW(quantile(x, a, i, false, "midpoint")), floats(1) + real({0.25, 0.75}) + axis()},
      {DYAD_ROW(quantile(x, a, i, false, "nearest")), floats(1) + real({0.25, 0.75}) + axis()},
      {DYAD_ROW(quantile(x, a)), floats(1) + real({0, 0.3, 1})},
      {DYAD_ROW(quantile(x, sigmoid(y), i)), floats(1, 3) + alike(0, 1) + axis()},
      {DYAD_ROW(percentile(x, 30, i)), floats(1) + axis()},
      {DYAD_ROW(nanquantile(x, a, i)), floats(1) + real({0.25, 0.75}) + axis()},
      {DYAD_ROW(isin(x, y)), numbers() + alike(0, 2)},
      {DYAD_ROW(searchsorted(sort(x, 0).values, y, true)), numbers(1, 1) + alike(0, 2)},
      {DYAD_ROW(bucketize(y, sort(x, 0).values)), numbers(1, 1) + alike(0, 2)},
      {DYAD_ROW(digitize(y, sort(x, 0).values)), numbers(1, 1) + alike(0, 2)},
      {DYAD_ROW(histc(x, 4)), floats()},
      {DYAD_ROW(histc(x, 3, -1, 1)), floats()},
      {DYAD_ROW(histogram(x, 3)), floats()},
      {DYAD_ROW(histogram(x, linspace(-1, a, 4, x.dtype()))), floats() + real({0.5, 2})},
      {DYAD_ROW(bincount(remainder(x, 5), 3)), wholes(1, 1)},
      {DYAD_ROW(bincount(remainder(x, 5), to(x, f32), 5)), wholes(1, 1)},
      {DYAD_ROW(unique(x)), numbers(0, 3)},
      {DYAD_ROW(unique(x, true, i)), numbers(1, 3) + axis()},
      {DYAD_ROW(unique_consecutive(x)), numbers(0, 3)},
      {DYAD_ROW(union1d(x, y)), numbers(0, 2) + alike(0, 2)},
      {DYAD_ROW(intersect1d(x, y)), numbers(0, 2) + alike(0, 2)},
      {DYAD_ROW(setdiff1d(x, y)), numbers(0, 2) + alike(0, 2)},
      {DYAD_ROW(setxor1d(x, y)), numbers(0, 2) + alike(0, 2)},
      {DYAD_ROW(hardmax(x, i)), floats(1) + axis()},
  };
}

}  // namespace

void add_wide_reductions(Instructions& list) {
  add_rows(list, sum_rows());
  add_rows(list, way_rows());
  add_rows(list, order_rows(), {.picks = true});
}

}  // namespace dyad::testing
