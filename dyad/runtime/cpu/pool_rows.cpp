#include "dyad/runtime/cpu/pool_rows.h"

#include <cstring>

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

namespace {

constexpr std::int64_t kLanes = 16;
using Floats [[gnu::vector_size(4 * kLanes)]] = float;
using Numbers [[gnu::vector_size(4 * kLanes)]] = std::int32_t;

}  // namespace

DYAD_VECTOR_CLONES void largest_of_window(const float* const* from, std::int32_t elements,
                                          float* to, std::int64_t n) {
  std::int64_t c = 0;
  for (; c + kLanes <= n; c += kLanes) {
    Floats best, value;
    std::memcpy(&best, from[0] + c, sizeof best);
    for (std::int32_t e = 1; e < elements; ++e) {
      std::memcpy(&value, from[e] + c, sizeof value);
      best = ((value > best) | ((value != value) & (best == best))) ? value : best;
    }
    std::memcpy(to + c, &best, sizeof best);
  }
  for (; c < n; ++c) {
    float best = from[0][c];
    for (std::int32_t e = 1; e < elements; ++e) best = beats(from[e][c], best) ? from[e][c] : best;
    to[c] = best;
  }
}

DYAD_VECTOR_CLONES void spread_window(const float* const* from, float* const* to,
                                      std::int32_t elements, const float* grad, std::int64_t n) {
  std::int64_t c = 0;
  for (; c + kLanes <= n; c += kLanes) {
    Floats best, value;
    Numbers at{};
    std::memcpy(&best, from[0] + c, sizeof best);
    for (std::int32_t e = 1; e < elements; ++e) {
      std::memcpy(&value, from[e] + c, sizeof value);
      const Numbers larger = (value > best) | ((value != value) & (best == best));
      best = larger ? value : best;
      at = larger ? Numbers{} + e : at;
    }
    std::memcpy(&value, grad + c, sizeof value);
    for (std::int32_t e = 0; e < elements; ++e) {
      const Floats given = at == Numbers{} + e ? value : Floats{};
      std::memcpy(to[e] + c, &given, sizeof given);
    }
  }
  for (; c < n; ++c) {
    std::int32_t at = 0;
    for (std::int32_t e = 1; e < elements; ++e) at = beats(from[e][c], from[at][c]) ? e : at;
    for (std::int32_t e = 0; e < elements; ++e) to[e][c] = at == e ? grad[c] : 0.0f;
  }
}

DYAD_VECTOR_CLONES void add_row_dense(const float* from, float* sums, std::int64_t n) {
  add_row_loop(from, 1, sums, n);
}

}  // namespace dyad::runtime::cpu
