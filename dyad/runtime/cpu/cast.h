#pragma once

#include <cstddef>
#include <cstdint>

#include "dyad/core/tensor.h"

namespace dyad::runtime::cpu {

/// A row-major f32 copy of an f16 or bf16 tensor, for kernels that compute in f32.
[[nodiscard]] Tensor widened(const Tensor& half);
/// The same in the order of axes in which `half` lies, as the operator `cast` gives it.
[[nodiscard]] Tensor widened_as_it_lies(const Tensor& half);
/// Rounds the elements of `wide` (f32) into `half` (f16 or bf16), once each; same strides.
void narrow(const Tensor& wide, const Tensor& half);

// The same of n neighbours, on this thread.
void widen(DType half, const std::byte* from, float* to, std::int64_t n);
void narrow(DType half, const float* from, std::byte* to, std::int64_t n);

/// `t` row-major, f16 and bf16 as f32; undefined where `t` is.
[[nodiscard]] Tensor dense_computed(const Tensor& t);

/// What a kernel computes an output in: the output itself, or f32 that is rounded at the end.
class ComputedOutput {
 public:
  explicit ComputedOutput(const Tensor& output);
  [[nodiscard]] const Tensor& tensor() const noexcept { return work_; }
  /// Rounds.
  void finish() const;

 private:
  Tensor output_, work_;
};

}  // namespace dyad::runtime::cpu
