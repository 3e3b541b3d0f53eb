#pragma once

#include <cstdint>

#include "dyad/base/inline_vector.h"
#include "dyad/core/dtype.h"

namespace dyad::runtime::cpu {

/// A batch of matrix products C[m, n] = A[m, k] B[k, n] (+ bias[n]) of one dtype. Strides are in
/// elements and may be anything for A and B; columns of C are neighbours.
struct Gemm {
  DType dtype = DType::f32;
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t a_row = 0, a_column = 0, b_row = 0, b_column = 0, c_row = 0;
  /// Sizes of the batch and the operands' strides along it (0 where an operand is shared).
  Ints batch = {}, a_batch = {}, b_batch = {}, c_batch = {};
};

/// Computes the products by the plan for this problem: a library product, or the loops below.
/// `bias` may be null. The same bits for the same problem, thread count and CPU.
void gemm(const Gemm& problem, const void* a, const void* b, const void* bias, void* c);

/// The same by a loop nest, for every number dtype: sums over k in order, f16 and bf16 in f32,
/// integers wrap. With `accumulate` the products are added to C.
void gemm_loops(const Gemm& problem, const void* a, const void* b, const void* bias, void* c,
                bool accumulate = false);

}  // namespace dyad::runtime::cpu
