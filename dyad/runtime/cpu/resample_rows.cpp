#include "dyad/runtime/cpu/resample_rows.h"

#include "dyad/runtime/cpu/vector_clones.h"

namespace dyad::runtime::cpu {

DYAD_VECTOR_CLONES void weigh(const float* a, float weight, float* out, std::int64_t n) {
  weigh_loop(a, weight, out, n);
}

DYAD_VECTOR_CLONES void add_weighed(const float* a, float weight, float* out, std::int64_t n) {
  add_weighed_loop(a, weight, out, n);
}

DYAD_VECTOR_CLONES void blend(const float* a, float wa, const float* b, float wb, float* out,
                              std::int64_t n) {
  blend_loop(a, wa, b, wb, out, n);
}

DYAD_VECTOR_CLONES void pick(const float* x, const std::int32_t* index, const float* weight,
                             float* out, std::int64_t n) {
  pick_loop(x, index, weight, out, n);
}

DYAD_VECTOR_CLONES void add_picked(const float* x, const std::int32_t* index, const float* weight,
                                   float* out, std::int64_t n) {
  add_picked_loop(x, index, weight, out, n);
}

void weigh(const double* a, double weight, double* out, std::int64_t n) {
  weigh_loop(a, weight, out, n);
}

void add_weighed(const double* a, double weight, double* out, std::int64_t n) {
  add_weighed_loop(a, weight, out, n);
}

void blend(const double* a, double wa, const double* b, double wb, double* out, std::int64_t n) {
  blend_loop(a, wa, b, wb, out, n);
}

void pick(const double* x, const std::int32_t* index, const double* weight, double* out,
          std::int64_t n) {
  pick_loop(x, index, weight, out, n);
}

void add_picked(const double* x, const std::int32_t* index, const double* weight, double* out,
                std::int64_t n) {
  add_picked_loop(x, index, weight, out, n);
}

}  // namespace dyad::runtime::cpu
