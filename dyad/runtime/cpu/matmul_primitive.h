#pragma once

#include <cstddef>
#include <cstdint>

#include "dyad/runtime/cpu/gemm.h"

namespace dyad::runtime::cpu {

/// One side of a batch of products as oneDNN reads it.
struct MatmulOperand {
  const std::byte* data = nullptr;
  bool by_columns = false;   ///< columns are dense, not rows
  std::int64_t leading = 0;  ///< elements from one row to the next, or from one column
  Ints batch = {};           ///< strides along the problem's batch, 0 where it is shared
};

/// C = A B + bias, of which there may be none (null), by oneDNN's matmul primitive.
///
/// Such a primitive is code for these sizes, which takes 0.3 ms to make, so each thread keeps those
/// that it used last. Numbers of rows that keep changing, as batches and sequences do, are put
/// together from two pieces of sizes that there are few of, until they have come a few times: a
/// row's sums are made in the same order in all of them, so the bits are those of one primitive.
void run_matmul(const Gemm& problem, int threads, const MatmulOperand& a, const MatmulOperand& b,
                const void* bias, void* c);

}  // namespace dyad::runtime::cpu
