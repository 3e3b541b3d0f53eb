#pragma once

#include "dyad/core/tensor.h"

namespace dyad::runtime::cpu {

/// A row-major f32 copy of an f16 or bf16 tensor, for kernels that compute in f32.
[[nodiscard]] Tensor widened(const Tensor& half);
/// Rounds the elements of `wide` (f32) into `half` (f16 or bf16), once each; same strides.
void narrow(const Tensor& wide, const Tensor& half);

}  // namespace dyad::runtime::cpu
