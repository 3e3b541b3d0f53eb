#include "dyad/runtime/cpu/cast.h"

#include "dyad/core/tensor_impl.h"
#include "dyad/runtime/cpu/copy.h"
#include "dyad/runtime/cpu/element.h"
#include "dyad/runtime/threads.h"

namespace dyad::runtime::cpu {
namespace {

bool is_half_dtype(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

}  // namespace

Tensor widened(const Tensor& half) {
  const Tensor dense = contiguous_copy(half);
  Tensor wide = make_empty(DType::f32, half.impl()->shape);
  const std::int64_t n = wide.impl()->numel();
  auto* to = reinterpret_cast<float*>(wide.impl()->data);
  with_floating(half.impl()->dtype, [&]<class T>(T) {
    const T* from = reinterpret_cast<const T*>(dense.impl()->data);
    parallel_for(0, n, grain_for({.bytes = 6, .flops = 20}, n),
                 [&](std::int64_t lo, std::int64_t hi) {
                   for (std::int64_t i = lo; i < hi; ++i) to[i] = static_cast<float>(load(from[i]));
                 });
  });
  return wide;
}

void narrow(const Tensor& wide, const Tensor& half) {
  const std::int64_t n = half.impl()->numel();
  const auto* from = reinterpret_cast<const float*>(wide.impl()->data);
  with_floating(half.impl()->dtype, [&]<class T>(T) {
    T* to = reinterpret_cast<T*>(half.impl()->data);
    parallel_for(0, n, grain_for({.bytes = 6, .flops = 20}, n),
                 [&](std::int64_t lo, std::int64_t hi) {
                   for (std::int64_t i = lo; i < hi; ++i) to[i] = store<T>(from[i]);
                 });
  });
}

Tensor dense_computed(const Tensor& t) {
  if (!t.defined()) return {};
  return is_half_dtype(t.dtype()) ? widened(t) : contiguous_copy(t);
}

ComputedOutput::ComputedOutput(const Tensor& output) : output_(output), work_(output) {
  if (is_half_dtype(output.dtype())) {
    work_ = make_empty_strided(DType::f32, output.impl()->shape, output.impl()->strides);
  }
}

void ComputedOutput::finish() const {
  if (!work_.is_same(output_)) narrow(work_, output_);
}

}  // namespace dyad::runtime::cpu
