#include "dyad/runtime/cpu/pool_rows.h"

#include "dyad/runtime/cpu/vector_clones.h"

namespace dyad::runtime::cpu {

DYAD_VECTOR_CLONES void keep_larger_dense(const float* from, float* best, std::int64_t n) {
  keep_larger_loop(from, 1, best, n);
}

DYAD_VECTOR_CLONES void keep_larger_at_dense(const float* from, float* best,
                                             std::int32_t* positions, std::int32_t at,
                                             std::int64_t n) {
  keep_larger_at_loop(from, 1, best, positions, at, n);
}

DYAD_VECTOR_CLONES void put_where_dense(const float* from, const std::int32_t* positions,
                                        std::int32_t at, float* to, std::int64_t n) {
  put_where_loop(from, 1, positions, at, to, n);
}

DYAD_VECTOR_CLONES void add_row_dense(const float* from, float* sums, std::int64_t n) {
  add_row_loop(from, 1, sums, n);
}

}  // namespace dyad::runtime::cpu
