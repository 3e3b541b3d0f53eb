#pragma once

#include <cstdint>

namespace dyad::runtime::cpu {

// The loops that resampling spends its time in. f32 goes to vector code (resample_rows.cpp), f64
// runs as written here.

/// out = a * weight, or out += a * weight.
template <class T>
[[gnu::always_inline]] inline void weigh_loop(const T* a, T weight, T* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = a[i] * weight;
}
template <class T>
[[gnu::always_inline]] inline void add_weighed_loop(const T* a, T weight, T* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] += a[i] * weight;
}
/// out = a * wa + b * wb.
template <class T>
[[gnu::always_inline]] inline void blend_loop(const T* a, T wa, const T* b, T wb, T* out,
                                              std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = a[i] * wa + b[i] * wb;
}
/// out[i] = x[index[i]] * weight[i], or out[i] += that.
template <class T>
[[gnu::always_inline]] inline void pick_loop(const T* x, const std::int32_t* index, const T* weight,
                                             T* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = x[index[i]] * weight[i];
}
template <class T>
[[gnu::always_inline]] inline void add_picked_loop(const T* x, const std::int32_t* index,
                                                   const T* weight, T* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] += x[index[i]] * weight[i];
}

void weigh(const float* a, float weight, float* out, std::int64_t n);
void add_weighed(const float* a, float weight, float* out, std::int64_t n);
void blend(const float* a, float wa, const float* b, float wb, float* out, std::int64_t n);
void pick(const float* x, const std::int32_t* index, const float* weight, float* out,
          std::int64_t n);
void add_picked(const float* x, const std::int32_t* index, const float* weight, float* out,
                std::int64_t n);
void weigh(const double* a, double weight, double* out, std::int64_t n);
void add_weighed(const double* a, double weight, double* out, std::int64_t n);
void blend(const double* a, double wa, const double* b, double wb, double* out, std::int64_t n);
void pick(const double* x, const std::int32_t* index, const double* weight, double* out,
          std::int64_t n);
void add_picked(const double* x, const std::int32_t* index, const double* weight, double* out,
                std::int64_t n);

}  // namespace dyad::runtime::cpu
