#pragma once

#include "dyad/runtime/cpu/gemm.h"

namespace dyad::runtime::cpu {

/// How one matrix lies in memory, as a library takes it.
enum class Placement : std::uint8_t {
  rows,     ///< rows dense, one after the other
  columns,  ///< columns dense: the transpose of the above
  other,    ///< neither: copied first
};

/// How a problem is computed.
struct GemmPlan {
  enum class Method : std::uint8_t {
    loops,    ///< our own loop nest
    product,  ///< oneDNN's plain product, one call for each batch item
    blas,     ///< OpenBLAS's product, some rows on each thread
    matmul,   ///< oneDNN's matmul primitive, batched
  };
  Method method = Method::loops;
  Placement a = Placement::rows, b = Placement::rows;
  int threads = 1;
  bool by_columns = false;  ///< each thread makes some columns of the result, by itself
};

/// The plan for a problem: a pure function of its sizes, dtype, stride classes, the threads allowed
/// and the CPU. Eager execution and compiled graphs both come here, so they get the same bits.
[[nodiscard]] GemmPlan plan_gemm(const Gemm& problem, int threads);

}  // namespace dyad::runtime::cpu
