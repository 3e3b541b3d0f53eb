#pragma once

#include <cstdint>
#include <type_traits>

#include "dyad/runtime/cpu/stream.h"
#include "dyad/runtime/cpu/vector_sums.h"

namespace dyad::runtime::cpu {

using vector_math::Fetched;

// The loops that normalisation spends its time in, over neighbouring elements: sums in vectors of
// the CPU's size (vector_sums.h), the others as the compiler makes them.

template <int kBytes, class T>
[[gnu::always_inline]] inline double sum_loop(const T* x, std::int64_t n) {
  double total = 0;
  vector_math::sum_terms<kBytes, T, 1>(n, &total, {},
                                       [=](const auto& at, const auto& add) { add(0, at(x)); });
  return total;
}
/// sum of (x - mean)^2.
template <int kBytes, class T>
[[gnu::always_inline]] inline double sum_squares_loop(const T* x, T mean, std::int64_t n,
                                                      Fetched<T> next) {
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
      n, &total, {}, [=](const auto& at, const auto& add) { add(0, at(a) * (at(x) - mean)); });
  return total;
}
/// The sums of h = grad * weight and of h * (x - mean).
struct WeightedSums {
  double of_h = 0, along_x = 0;
};
/// These of a row, and on the way what comes to the gradients of the parameters:
/// weight_grad += grad * (x - mean) * rstd, bias_grad += grad. weight may be null.
template <int kBytes, class T>
[[gnu::always_inline]] inline WeightedSums row_grads_loop(const T* grad, const T* weight,
                                                          const T* x, T mean, T rstd,
                                                          std::int64_t n, Fetched<T> next,
                                                          T* weight_grad, T* bias_grad) {
  double totals[2];
  const auto pass = [&](auto is_weighted) __attribute__((always_inline)) {
    vector_math::sum_terms<kBytes, T, 2>(n, totals, next, [=](const auto& at, const auto& add) {
      const auto g = at(grad);
      const auto centered = at(x) - mean;
      auto h = g;
      if constexpr (is_weighted) h *= at(weight);
      add(0, h);
      add(1, h * centered);
      // Both are read before either is written: where they lie a multiple of 4 KB apart, a CPU
      // takes the second for what was just stored.
      const auto weights = at(weight_grad);
      const auto biases = at(bias_grad);
      at(weight_grad) = weights + g * (centered * rstd);
      at(bias_grad) = biases + g;
    });
  };
  weight ? pass(std::true_type{}) : pass(std::false_type{});
  return {totals[0], totals[1]};
}
/// out = (x - mean) * scale + shift.
template <class T>
[[gnu::always_inline]] inline void scale_loop(const T* x, T mean, T scale, T shift, T* out,
                                              std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = (x[i] - mean) * scale + shift;
}
/// out = (x - mean) * rstd * weight + bias, element by element; bias may be null.
template <int kBytes, class T>
[[gnu::always_inline]] inline void scale_each_loop(const T* x, T mean, T rstd, const T* weight,
                                                   const T* bias, T* out, std::int64_t n,
                                                   bool past_caches) {
  const auto pass = [&](auto has_bias) __attribute__((always_inline)) {
    store_each<kBytes>(out, n, past_caches, [=](const auto& at, const auto& put) {
      auto y = (at(x) - mean) * rstd * at(weight);
      if constexpr (has_bias) y += at(bias);
      put(y);
    });
  };
  bias ? pass(std::true_type{}) : pass(std::false_type{});
}
/// out = scale * grad * weight - (shift + slope * (x - mean)); weight may be null.
template <int kBytes, class T>
[[gnu::always_inline]] inline void input_grad_loop(const T* grad, const T* weight, const T* x,
                                                   T mean, T scale, T shift, T slope, T* out,
                                                   std::int64_t n, bool past_caches) {
  const auto pass = [&](auto is_weighted) __attribute__((always_inline)) {
    store_each<kBytes>(out, n, past_caches, [=](const auto& at, const auto& put) {
      auto h = at(grad);
      if constexpr (is_weighted) h *= at(weight);
      put(scale * h - (shift + slope * (at(x) - mean)));
    });
  };
  weight ? pass(std::true_type{}) : pass(std::false_type{});
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
double sum_squares(const float* x, float mean, std::int64_t n, Fetched<float> next);
double sum_products(const float* a, const float* x, float mean, std::int64_t n);
WeightedSums row_grads(const float* grad, const float* weight, const float* x, float mean,
                       float rstd, std::int64_t n, Fetched<float> next, float* weight_grad,
                       float* bias_grad);
void scale_row(const float* x, float mean, float scale, float shift, float* out, std::int64_t n);
void scale_each(const float* x, float mean, float rstd, const float* weight, const float* bias,
                float* out, std::int64_t n, bool past_caches);
void input_grad(const float* grad, const float* weight, const float* x, float mean, float scale,
                float shift, float slope, float* out, std::int64_t n, bool past_caches);
double sum_row(const double* x, std::int64_t n);
double sum_squares(const double* x, double mean, std::int64_t n, Fetched<double> next);
double sum_products(const double* a, const double* x, double mean, std::int64_t n);
WeightedSums row_grads(const double* grad, const double* weight, const double* x, double mean,
                       double rstd, std::int64_t n, Fetched<double> next, double* weight_grad,
                       double* bias_grad);
void scale_row(const double* x, double mean, double scale, double shift, double* out,
               std::int64_t n);
void scale_each(const double* x, double mean, double rstd, const double* weight, const double* bias,
                double* out, std::int64_t n, bool past_caches);
void input_grad(const double* grad, const double* weight, const double* x, double mean,
                double scale, double shift, double slope, double* out, std::int64_t n,
                bool past_caches);
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
