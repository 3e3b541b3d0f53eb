#pragma once

#include <cstddef>
#include <cstdint>

#include "dyad/core/tensor.h"

namespace dyad::runtime::cpu {

/// A tensor as [outer][along][inner] in memory.
struct DenseLines {
  Tensor x;
  std::int64_t outer = 1, inner = 1;
};

/// `x` in the order of axes that `out`, a dense tensor of the same sizes but for `axis`, has in
/// memory: x itself where it lies so, otherwise a copy.
[[nodiscard]] DenseLines dense_lines(const Tensor& x, const Tensor& out, std::size_t axis);

}  // namespace dyad::runtime::cpu
