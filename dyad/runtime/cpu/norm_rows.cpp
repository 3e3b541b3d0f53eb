#include "dyad/runtime/cpu/norm_rows.h"

#include "dyad/runtime/cpu/vector_clones.h"

namespace dyad::runtime::cpu {

DYAD_VECTOR_VERSIONS(double, sum_row, (const float* x, std::int64_t n), sum_loop, (x, n))
DYAD_VECTOR_VERSIONS(double, sum_squares,
                     (const float* x, float mean, std::int64_t n, Fetched<float> next),
                     sum_squares_loop, (x, mean, n, next))
DYAD_VECTOR_VERSIONS(double, sum_products,
                     (const float* a, const float* x, float mean, std::int64_t n),
                     sum_products_loop, (a, x, mean, n))
DYAD_VECTOR_VERSIONS(WeightedSums, row_grads,
                     (const float* grad, const float* weight, const float* x, float mean,
                      float rstd, std::int64_t n, Fetched<float> next, float* weight_grad,
                      float* bias_grad),
                     row_grads_loop, (grad, weight, x, mean, rstd, n, next, weight_grad, bias_grad))
DYAD_VECTOR_VERSIONS(double, sum_row, (const double* x, std::int64_t n), sum_loop, (x, n))
DYAD_VECTOR_VERSIONS(double, sum_squares,
                     (const double* x, double mean, std::int64_t n, Fetched<double> next),
                     sum_squares_loop, (x, mean, n, next))
DYAD_VECTOR_VERSIONS(double, sum_products,
                     (const double* a, const double* x, double mean, std::int64_t n),
                     sum_products_loop, (a, x, mean, n))
DYAD_VECTOR_VERSIONS(WeightedSums, row_grads,
                     (const double* grad, const double* weight, const double* x, double mean,
                      double rstd, std::int64_t n, Fetched<double> next, double* weight_grad,
                      double* bias_grad),
                     row_grads_loop, (grad, weight, x, mean, rstd, n, next, weight_grad, bias_grad))

DYAD_VECTOR_CLONES void scale_row(const float* x, float mean, float scale, float shift, float* out,
                                  std::int64_t n) {
  scale_loop(x, mean, scale, shift, out, n);
}

DYAD_VECTOR_VERSIONS(void, scale_each,
                     (const float* x, float mean, float rstd, const float* weight,
                      const float* bias, float* out, std::int64_t n, bool past_caches),
                     scale_each_loop, (x, mean, rstd, weight, bias, out, n, past_caches))
DYAD_VECTOR_VERSIONS(void, input_grad,
                     (const float* grad, const float* weight, const float* x, float mean,
                      float scale, float shift, float slope, float* out, std::int64_t n,
                      bool past_caches),
                     input_grad_loop,
                     (grad, weight, x, mean, scale, shift, slope, out, n, past_caches))
DYAD_VECTOR_VERSIONS(void, scale_each,
                     (const double* x, double mean, double rstd, const double* weight,
                      const double* bias, double* out, std::int64_t n, bool past_caches),
                     scale_each_loop, (x, mean, rstd, weight, bias, out, n, past_caches))
DYAD_VECTOR_VERSIONS(void, input_grad,
                     (const double* grad, const double* weight, const double* x, double mean,
                      double scale, double shift, double slope, double* out, std::int64_t n,
                      bool past_caches),
                     input_grad_loop,
                     (grad, weight, x, mean, scale, shift, slope, out, n, past_caches))

void scale_row(const double* x, double mean, double scale, double shift, double* out,
               std::int64_t n) {
  scale_loop(x, mean, scale, shift, out, n);
}

DYAD_VECTOR_CLONES void add_channel_sums(const float* grad, const float* x, const float* mean,
                                         float* sums, float* along, std::int64_t rows,
                                         std::int64_t n) {
  add_channel_sums_loop(grad, x, mean, sums, along, rows, n);
}

DYAD_VECTOR_CLONES void channels_grad(const float* grad, const float* x, const float* mean,
                                      const float* scale, const float* shift, const float* slope,
                                      float* out, std::int64_t rows, std::int64_t n) {
  channels_grad_loop(grad, x, mean, scale, shift, slope, out, rows, n);
}

void add_channel_sums(const double* grad, const double* x, const double* mean, double* sums,
                      double* along, std::int64_t rows, std::int64_t n) {
  add_channel_sums_loop(grad, x, mean, sums, along, rows, n);
}

void channels_grad(const double* grad, const double* x, const double* mean, const double* scale,
                   const double* shift, const double* slope, double* out, std::int64_t rows,
                   std::int64_t n) {
  channels_grad_loop(grad, x, mean, scale, shift, slope, out, rows, n);
}

}  // namespace dyad::runtime::cpu
