#pragma once

#include <cstdint>
#include <span>

#include "dyad/core/dtype.h"
#include "dyad/core/tensor.h"

namespace dyad::runtime {

/// Copies elements of one dtype between two strided arrays of the same sizes, on the team where
/// that pays; transposes go through tiles. The arrays do not overlap.
void copy_elements(DType dtype, std::span<const std::int64_t> sizes, void* to,
                   std::span<const std::int64_t> to_strides, const void* from,
                   std::span<const std::int64_t> from_strides);

/// Copies `from` into `to`, two concrete tensors of one dtype; `from` is broadcast to the shape of
/// `to`.
void copy_tensor(const Tensor& from, const Tensor& to);

/// `tensor` itself when it is row-major without gaps, otherwise a copy that is.
[[nodiscard]] Tensor contiguous_copy(const Tensor& tensor);

}  // namespace dyad::runtime
