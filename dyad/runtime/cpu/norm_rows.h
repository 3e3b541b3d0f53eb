#pragma once

#include <cstdint>

#include "dyad/runtime/cpu/vector_sums.h"

namespace dyad::runtime::cpu {

// The loops that normalisation spends its time in, over neighbouring elements: sums in vectors of
// the CPU's size (vector_sums.h), the others as the compiler makes them.

template <int kBytes, class T>
[[gnu::always_inline]] inline double sum_loop(const T* x, std::int64_t n) {
  double total = 0;
  vector_math::sum_terms<kBytes, T, 1>(n, &total, nullptr,
                                       [=](const auto& at, const auto& add) { add(0, at(x)); });
  return total;
}
/// sum of (x - mean)^2.
template <int kBytes, class T>
[[gnu::always_inline]] inline double sum_squares_loop(const T* x, T mean, std::int64_t n,
                                                      const T* next) {
  double total = 0;
  vector_math::sum_terms<kBytes, T, 1>(n, &total, next, [=](const auto& at, const auto& add) {
    add(0, (at(x) - mean) * (at(x) - mean));
  });
  return total;
}
/// sum of a * (x - mean).
template <int kBytes, class T>
[[gnu::always_inline]] inline double sum_products_loop(const T* a, const T* x, T mean,
                                                       std::int64_t n) {
  double total = 0;
  vector_math::sum_terms<kBytes, T, 1>(
      n, &total, nullptr, [=](const auto& at, const auto& add) { add(0, at(a) * (at(x) - mean)); });
  return total;
}
/// The sums of h = grad * weight and of h * (x - mean).
struct WeightedSums {
  double of_h = 0, along_x = 0;
};
template <int kBytes, class T>
[[gnu::always_inline]] inline WeightedSums weighted_sums_loop(const T* grad, const T* weight,
                                                              const T* x, T mean, std::int64_t n,
                                                              const T* next) {
  double totals[2];
  vector_math::sum_terms<kBytes, T, 2>(n, totals, next, [=](const auto& at, const auto& add) {
    const auto h = at(grad) * at(weight);
    add(0, h);
    add(1, h * (at(x) - mean));
  });
  return {totals[0], totals[1]};
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
/// weight_grad += grad * (x - mean) * rstd, bias_grad += grad, of one row after the other.
template <int kBytes, class T>
[[gnu::always_inline]] inline void add_parameter_grads_loop(const T* grad, const T* x,
                                                            std::int64_t rows, std::int64_t n,
                                                            const T* means, const T* rstds,
                                                            T* weight_grad, T* bias_grad) {
  using U = vector_math::Unaligned<T, kBytes>;
  constexpr std::int64_t kWidth = vector_math::kVectorLanes<T, kBytes>;
  std::int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) {
    auto& weight = *reinterpret_cast<U*>(weight_grad + i);
    auto& bias = *reinterpret_cast<U*>(bias_grad + i);
    vector_math::Vector<T, kBytes> w = weight, b = bias;
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto& g = *reinterpret_cast<const U*>(grad + row * n + i);
      w += g * ((*reinterpret_cast<const U*>(x + row * n + i) - means[row]) * rstds[row]);
      b += g;
    }
    weight = w;
    bias = b;
  }
  for (; i < n; ++i) {
    for (std::int64_t row = 0; row < rows; ++row) {
      const T g = grad[row * n + i];
      weight_grad[i] += g * ((x[row * n + i] - means[row]) * rstds[row]);
      bias_grad[i] += g;
    }
  }
}
/// out = scale * grad * weight - (shift + slope * (x - mean)); weight may be null.
template <class T>
[[gnu::always_inline]] inline void input_grad_loop(const T* grad, const T* weight, const T* x,
                                                   T mean, T scale, T shift, T slope, T* out,
                                                   std::int64_t n) {
  if (weight) {
    for (std::int64_t i = 0; i < n; ++i)
      out[i] = scale * (grad[i] * weight[i]) - (shift + slope * (x[i] - mean));
  } else {
    for (std::int64_t i = 0; i < n; ++i) out[i] = scale * grad[i] - (shift + slope * (x[i] - mean));
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

// The same, for each instruction set.
double sum_row(const float* x, std::int64_t n);
double sum_squares(const float* x, float mean, std::int64_t n, const float* next);
double sum_products(const float* a, const float* x, float mean, std::int64_t n);
WeightedSums weighted_sums(const float* grad, const float* weight, const float* x, float mean,
                           std::int64_t n, const float* next);
void scale_row(const float* x, float mean, float scale, float shift, float* out, std::int64_t n);
void scale_each(const float* x, float mean, float rstd, const float* weight, const float* bias,
                float* out, std::int64_t n);
void add_parameter_grads(const float* grad, const float* x, std::int64_t rows, std::int64_t n,
                         const float* means, const float* rstds, float* weight_grad,
                         float* bias_grad);
void input_grad(const float* grad, const float* weight, const float* x, float mean, float scale,
                float shift, float slope, float* out, std::int64_t n);
double sum_row(const double* x, std::int64_t n);
double sum_squares(const double* x, double mean, std::int64_t n, const double* next);
double sum_products(const double* a, const double* x, double mean, std::int64_t n);
WeightedSums weighted_sums(const double* grad, const double* weight, const double* x, double mean,
                           std::int64_t n, const double* next);
void scale_row(const double* x, double mean, double scale, double shift, double* out,
               std::int64_t n);
void scale_each(const double* x, double mean, double rstd, const double* weight, const double* bias,
                double* out, std::int64_t n);
void add_parameter_grads(const double* grad, const double* x, std::int64_t rows, std::int64_t n,
                         const double* means, const double* rstds, double* weight_grad,
                         double* bias_grad);
void input_grad(const double* grad, const double* weight, const double* x, double mean,
                double scale, double shift, double slope, double* out, std::int64_t n);
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
