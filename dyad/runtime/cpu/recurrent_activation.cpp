#include "dyad/runtime/cpu/recurrent_activation.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "dyad/runtime/cpu/vector_clones.h"
#include "dyad/runtime/cpu/vector_math.h"

namespace dyad::runtime::cpu {
namespace {

using ops::Activation;
using Kind = ops::Activation::Kind;

template <class T, class F>
[[gnu::always_inline]] inline void each(T* z, std::int64_t n, F f) {
  for (std::int64_t i = 0; i < n; ++i) z[i] = f(z[i]);
}

template <class T>
[[gnu::always_inline]] inline void activate_all(Kind kind, T a, T b, T clip, T* z, std::int64_t n) {
  if (clip > 0) {
    each(z, n, [=](T x) { return x < -clip ? -clip : x > clip ? clip : x; });
  }
  switch (kind) {
    case Kind::relu:
      return each(z, n, [](T x) { return x < 0 ? T{} : x; });
    case Kind::tanh:
      return each(z, n, [](T x) { return vector_math::tanh(x); });
    case Kind::sigmoid:
      return each(z, n, [](T x) { return vector_math::sigmoid(x); });
    case Kind::affine:
      return each(z, n, [=](T x) { return a * x + b; });
    case Kind::leaky_relu:
      return each(z, n, [=](T x) { return x > 0 ? x : a * x; });
    case Kind::thresholded_relu:
      return each(z, n, [=](T x) { return x > a ? x : T{}; });
    case Kind::scaled_tanh:
      return each(z, n, [=](T x) { return a * vector_math::tanh(b * x); });
    case Kind::hard_sigmoid:
      return each(z, n, [=](T x) { return std::min(std::max(a * x + b, T(0)), T(1)); });
    case Kind::elu:
      return each(z, n, [=](T x) { return x > 0 ? x : a * std::expm1(x); });
    case Kind::softsign:
      return each(z, n, [](T x) { return x / (1 + std::abs(x)); });
    case Kind::softplus:
      return each(z, n, [](T x) { return (x > 0 ? x : T{}) + std::log1p(std::exp(-std::abs(x))); });
  }
}

template <class T, class F>
[[gnu::always_inline]] inline void scale_each(const T* y, T* grad, std::int64_t n, F slope) {
  for (std::int64_t i = 0; i < n; ++i) grad[i] *= slope(y[i]);
}

/// Every one of the functions tells its slope by its value.
template <class T>
[[gnu::always_inline]] inline void scale_all(Kind kind, T a, T b, const T* y, T* grad,
                                             std::int64_t n) {
  switch (kind) {
    case Kind::relu:
      return scale_each(y, grad, n, [](T v) { return v > 0 ? T(1) : T{}; });
    case Kind::tanh:
      return scale_each(y, grad, n, [](T v) { return 1 - v * v; });
    case Kind::sigmoid:
      return scale_each(y, grad, n, [](T v) { return v * (1 - v); });
    case Kind::affine:
      return scale_each(y, grad, n, [=](T) { return a; });
    case Kind::leaky_relu:
      return scale_each(y, grad, n, [=](T v) { return v > 0 ? T(1) : a; });
    case Kind::thresholded_relu:
      return scale_each(y, grad, n, [](T v) { return v != 0 ? T(1) : T{}; });
    case Kind::scaled_tanh:
      return scale_each(y, grad, n, [=](T v) { return a == 0 ? T{} : b * (a - v * (v / a)); });
    case Kind::hard_sigmoid:
      return scale_each(y, grad, n, [=](T v) { return v > 0 && v < 1 ? a : T{}; });
    case Kind::elu:
      return scale_each(y, grad, n, [=](T v) { return v > 0 ? T(1) : v + a; });
    case Kind::softsign:
      return scale_each(y, grad, n, [](T v) { return (1 - std::abs(v)) * (1 - std::abs(v)); });
    case Kind::softplus:
      return scale_each(y, grad, n, [](T v) { return -std::expm1(-v); });
  }
}

DYAD_VECTOR_CLONES void activate_clones(Kind kind, float a, float b, float clip, float* z,
                                        std::int64_t n) {
  activate_all(kind, a, b, clip, z, n);
}
DYAD_VECTOR_CLONES void activate_clones(Kind kind, double a, double b, double clip, double* z,
                                        std::int64_t n) {
  activate_all(kind, a, b, clip, z, n);
}
DYAD_VECTOR_CLONES void scale_clones(Kind kind, float a, float b, const float* y, float* grad,
                                     std::int64_t n) {
  scale_all(kind, a, b, y, grad, n);
}
DYAD_VECTOR_CLONES void scale_clones(Kind kind, double a, double b, const double* y, double* grad,
                                     std::int64_t n) {
  scale_all(kind, a, b, y, grad, n);
}

template <class T>
void scale_by_slope(const Activation& f, double clip, const T* y, T* grad, std::int64_t n) {
  scale_clones(f.kind, static_cast<T>(f.alpha), static_cast<T>(f.beta), y, grad, n);
  if (clip <= 0) return;
  // The functions are monotonic: what was clipped has one of the values at the bounds.
  T ends[2] = {static_cast<T>(-clip), static_cast<T>(clip)};
  activate(f, 0, ends, 2);
  // Up to rounding: the values may come from another computation of the same function.
  const T slack = 4 * std::numeric_limits<T>::epsilon();
  T low = std::min(ends[0], ends[1]), high = std::max(ends[0], ends[1]);
  low += slack * std::abs(low);
  high -= slack * std::abs(high);
  for (std::int64_t i = 0; i < n; ++i) {
    if (y[i] <= low || y[i] >= high) grad[i] = 0;
  }
}

}  // namespace

void activate(const Activation& f, double clip, float* z, std::int64_t n) {
  activate_clones(f.kind, static_cast<float>(f.alpha), static_cast<float>(f.beta),
                  static_cast<float>(clip), z, n);
}
void activate(const Activation& f, double clip, double* z, std::int64_t n) {
  activate_clones(f.kind, f.alpha, f.beta, clip, z, n);
}
void through_activation(const Activation& f, double clip, const float* y, float* grad,
                        std::int64_t n) {
  scale_by_slope(f, clip, y, grad, n);
}
void through_activation(const Activation& f, double clip, const double* y, double* grad,
                        std::int64_t n) {
  scale_by_slope(f, clip, y, grad, n);
}

}  // namespace dyad::runtime::cpu
