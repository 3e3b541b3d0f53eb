#pragma once

#include <cstdint>

namespace dyad::runtime::cpu {

// The loops that softmax and log_softmax spend their time in, in vectors for f32 and f64. Rows are
// lines of n neighbouring elements, at least kSoftmaxRow, one behind the other. Columns are `width`
// lines side by side, at most kSoftmaxColumns, whose elements number k are neighbours, `step`
// elements after those before. Results may take the place of operands.

inline constexpr std::int64_t kSoftmaxColumns = 64, kSoftmaxRow = 16;

void softmax_rows(const float* x, float* out, std::int64_t n, std::int64_t rows, bool logarithm);
void softmax_rows(const double* x, double* out, std::int64_t n, std::int64_t rows, bool logarithm);

/// The gradient of x, from that of y and y.
void softmax_rows_grad(const float* grad, const float* y, float* out, std::int64_t n,
                       std::int64_t rows, bool logarithm);
void softmax_rows_grad(const double* grad, const double* y, double* out, std::int64_t n,
                       std::int64_t rows, bool logarithm);

void softmax_columns(const float* x, float* out, std::int64_t n, std::int64_t step,
                     std::int64_t width, bool logarithm);
void softmax_columns(const double* x, double* out, std::int64_t n, std::int64_t step,
                     std::int64_t width, bool logarithm);

void softmax_columns_grad(const float* grad, const float* y, float* out, std::int64_t n,
                          std::int64_t step, std::int64_t width, bool logarithm);
void softmax_columns_grad(const double* grad, const double* y, double* out, std::int64_t n,
                          std::int64_t step, std::int64_t width, bool logarithm);

}  // namespace dyad::runtime::cpu
