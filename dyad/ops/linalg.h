#pragma once

#include "dyad/core/tensor.h"

namespace dyad {

/// Matrix product over the last two axes; the axes before them broadcast. A vector on the left is a
/// row, one on the right a column, and that axis vanishes from the result, as in NumPy. Number
/// dtypes; both alike (DTypeError).
[[nodiscard]] Tensor matmul(const Tensor& a, const Tensor& b,
                            Loc loc = std::source_location::current());

/// x @ weight^T + bias: x[..., in], weight[out, in], bias[out] or undefined. One floating dtype.
[[nodiscard]] Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                            Loc loc = std::source_location::current());

}  // namespace dyad
