#pragma once

#include <cstdint>

namespace dyad::runtime::cpu {

// The loops that normalisation spends its time in, over neighbouring elements. f32 rows go to
// vector code (norm_rows.cpp), f64 rows run as written here. Sums are kept in 16 lanes, whatever
// the vectors of the CPU.

inline constexpr std::int64_t kSumLanes = 16, kSumChunk = 4096;

/// sum of `term(i)` for i in [0, n): lanes in chunks, chunks in f64.
template <class T, class Term>
[[gnu::always_inline]] inline double sum_terms(std::int64_t n, Term term) {
  double total = 0;
  for (std::int64_t begin = 0; begin < n; begin += kSumChunk) {
    const std::int64_t end = begin + kSumChunk < n ? begin + kSumChunk : n;
    T lanes[kSumLanes] = {};
    std::int64_t i = begin;
    for (; i + kSumLanes <= end; i += kSumLanes) {
      for (std::int64_t lane = 0; lane < kSumLanes; ++lane) lanes[lane] += term(i + lane);
    }
    T chunk = 0;
    for (const T lane : lanes) chunk += lane;
    for (; i < end; ++i) chunk += term(i);
    total += static_cast<double>(chunk);
  }
  return total;
}

template <class T>
[[gnu::always_inline]] inline double sum_loop(const T* x, std::int64_t n) {
  return sum_terms<T>(n, [x](std::int64_t i) { return x[i]; });
}
/// sum of (x - mean)^2.
template <class T>
[[gnu::always_inline]] inline double sum_squares_loop(const T* x, T mean, std::int64_t n) {
  return sum_terms<T>(n, [x, mean](std::int64_t i) { return (x[i] - mean) * (x[i] - mean); });
}
/// sum of a * (x - mean).
template <class T>
[[gnu::always_inline]] inline double sum_products_loop(const T* a, const T* x, T mean,
                                                       std::int64_t n) {
  return sum_terms<T>(n, [=](std::int64_t i) { return a[i] * (x[i] - mean); });
}
/// out = (x - mean) * scale + shift.
template <class T>
[[gnu::always_inline]] inline void scale_loop(const T* x, T mean, T scale, T shift, T* out,
                                              std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = (x[i] - mean) * scale + shift;
}
/// out = (x - mean) * rstd * weight + bias, element by element; bias may be null.
template <class T>
[[gnu::always_inline]] inline void scale_each_loop(const T* x, T mean, T rstd, const T* weight,
                                                   const T* bias, T* out, std::int64_t n) {
  if (bias) {
    for (std::int64_t i = 0; i < n; ++i) out[i] = (x[i] - mean) * rstd * weight[i] + bias[i];
  } else {
    for (std::int64_t i = 0; i < n; ++i) out[i] = (x[i] - mean) * rstd * weight[i];
  }
}
/// product = a * b.
template <class T>
[[gnu::always_inline]] inline void multiply_loop(const T* a, const T* b, T* product,
                                                 std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) product[i] = a[i] * b[i];
}
/// weight_grad += grad * (x - mean) * rstd, bias_grad += grad.
template <class T>
[[gnu::always_inline]] inline void add_parameter_grads_loop(const T* grad, const T* x, T mean,
                                                            T rstd, T* weight_grad, T* bias_grad,
                                                            std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    weight_grad[i] += grad[i] * ((x[i] - mean) * rstd);
    bias_grad[i] += grad[i];
  }
}
/// out = scale * h - (shift + slope * (x - mean)).
template <class T>
[[gnu::always_inline]] inline void input_grad_loop(const T* h, const T* x, T mean, T scale, T shift,
                                                   T slope, T* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    out[i] = scale * h[i] - (shift + slope * (x[i] - mean));
  }
}
/// Over rows of n channels: sums += grad, along += grad * (x - mean), channel by channel.
template <class T>
[[gnu::always_inline]] inline void add_channel_sums_loop(const T* grad, const T* x, const T* mean,
                                                         T* sums, T* along, std::int64_t rows,
                                                         std::int64_t n) {
  for (std::int64_t row = 0; row < rows; ++row, grad += n, x += n) {
    for (std::int64_t c = 0; c < n; ++c) {
      sums[c] += grad[c];
      along[c] += grad[c] * (x[c] - mean[c]);
    }
  }
}
/// Over rows of n channels: out = scale * grad - (shift + slope * (x - mean)).
template <class T>
[[gnu::always_inline]] inline void channels_grad_loop(const T* grad, const T* x, const T* mean,
                                                      const T* scale, const T* shift,
                                                      const T* slope, T* out, std::int64_t rows,
                                                      std::int64_t n) {
  for (std::int64_t row = 0; row < rows; ++row, grad += n, x += n, out += n) {
    for (std::int64_t c = 0; c < n; ++c) {
      out[c] = scale[c] * grad[c] - (shift[c] + slope[c] * (x[c] - mean[c]));
    }
  }
}

// The same for rows of f32 in vectors, and for f64.
double sum_row(const float* x, std::int64_t n);
double sum_squares(const float* x, float mean, std::int64_t n);
double sum_products(const float* a, const float* x, float mean, std::int64_t n);
void scale_row(const float* x, float mean, float scale, float shift, float* out, std::int64_t n);
void scale_each(const float* x, float mean, float rstd, const float* weight, const float* bias,
                float* out, std::int64_t n);
void multiply(const float* a, const float* b, float* product, std::int64_t n);
void add_parameter_grads(const float* grad, const float* x, float mean, float rstd,
                         float* weight_grad, float* bias_grad, std::int64_t n);
void input_grad(const float* h, const float* x, float mean, float scale, float shift, float slope,
                float* out, std::int64_t n);
double sum_row(const double* x, std::int64_t n);
double sum_squares(const double* x, double mean, std::int64_t n);
double sum_products(const double* a, const double* x, double mean, std::int64_t n);
void scale_row(const double* x, double mean, double scale, double shift, double* out,
               std::int64_t n);
void scale_each(const double* x, double mean, double rstd, const double* weight, const double* bias,
                double* out, std::int64_t n);
void multiply(const double* a, const double* b, double* product, std::int64_t n);
void add_parameter_grads(const double* grad, const double* x, double mean, double rstd,
                         double* weight_grad, double* bias_grad, std::int64_t n);
void input_grad(const double* h, const double* x, double mean, double scale, double shift,
                double slope, double* out, std::int64_t n);
void add_channel_sums(const float* grad, const float* x, const float* mean, float* sums,
                      float* along, std::int64_t rows, std::int64_t n);
void channels_grad(const float* grad, const float* x, const float* mean, const float* scale,
                   const float* shift, const float* slope, float* out, std::int64_t rows,
                   std::int64_t n);
void add_channel_sums(const double* grad, const double* x, const double* mean, double* sums,
                      double* along, std::int64_t rows, std::int64_t n);
void channels_grad(const double* grad, const double* x, const double* mean, const double* scale,
                   const double* shift, const double* slope, double* out, std::int64_t rows,
                   std::int64_t n);

}  // namespace dyad::runtime::cpu
