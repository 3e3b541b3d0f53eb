#include "dyad/runtime/cpu/cast.h"

#include <bit>
#include <cstdint>

#include "dyad/base/error.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/runtime/cpu/copy.h"
#include "dyad/runtime/cpu/vector_clones.h"
#include "dyad/runtime/layout.h"
#include "dyad/runtime/threads.h"

namespace dyad::runtime::cpu {
namespace {

// What to_float(), to_bfloat16() and to_half() compute (dyad/core/dtype.h), without branches.

DYAD_VECTOR_CLONES void widen_row(const BFloat16* from, float* to, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    to[i] = std::bit_cast<float>(static_cast<std::uint32_t>(from[i].bits) << 16);
  }
}

DYAD_VECTOR_CLONES void widen_row(const Half* from, float* to, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint32_t bits = from[i].bits, magnitude = bits & 0x7FFFu;
    const float tiny = static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24f;
    std::uint32_t value = (magnitude << 13) + (112u << 23);
    value = magnitude >= 0x7C00u ? (magnitude << 13) | 0x7F800000u : value;
    value = magnitude > 0x7C00u ? value | 0x400000u : value;
    value = magnitude < 0x400u ? std::bit_cast<std::uint32_t>(tiny) : value;
    to[i] = std::bit_cast<float>(value | (bits & 0x8000u) << 16);
  }
}

DYAD_VECTOR_CLONES void narrow_row(const float* from, BFloat16* to, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(from[i]);
    const std::uint32_t nan = (bits >> 16) | 0x40u;
    const std::uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
    to[i].bits = static_cast<std::uint16_t>((bits & 0x7FFFFFFFu) > 0x7F800000u ? nan : rounded);
  }
}

DYAD_VECTOR_CLONES void narrow_row(const float* from, Half* to, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(from[i]);
    const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
    // Adding 0.5 aligns a value that will be subnormal so that the FPU rounds at 2^-24.
    const float aligned = std::bit_cast<float>(magnitude) + 0.5f;
    std::uint32_t value = (magnitude - 0x38000000u + 0xFFFu + ((magnitude >> 13) & 1u)) >> 13;
    value = magnitude < 0x38800000u ? std::bit_cast<std::uint32_t>(aligned) - 0x3F000000u : value;
    value = magnitude >= 0x477FF000u ? 0x7C00u : value;
    value = magnitude > 0x7F800000u ? 0x7E00u | ((magnitude >> 13) & 0x3FFu) : value;
    to[i].bits = static_cast<std::uint16_t>(value | ((bits >> 16) & 0x8000u));
  }
}

/// Calls `f` with an element of the half precision `dtype`.
template <class F>
void with_half(DType dtype, F f) {
  if (!is_narrow(dtype)) throw InternalError("a kernel took another dtype for a half");
  if (dtype == DType::f16) {
    f(Half{});
  } else {
    f(BFloat16{});
  }
}

/// Elements that lie without gaps, the same way on both sides.
void widen_all(const Tensor& half, const Tensor& wide) {
  const std::int64_t n = wide.impl()->numel();
  auto* to = reinterpret_cast<float*>(wide.impl()->data);
  with_half(half.impl()->dtype, [&]<class T>(T) {
    const auto* from = reinterpret_cast<const T*>(half.impl()->data);
    parallel_for(0, n, grain_for({.bytes = 6}, n),
                 [&](std::int64_t lo, std::int64_t hi) { widen_row(from + lo, to + lo, hi - lo); });
  });
}

}  // namespace

void widen(DType half, const std::byte* from, float* to, std::int64_t n) {
  with_half(half, [&]<class T>(T) { widen_row(reinterpret_cast<const T*>(from), to, n); });
}

void narrow(DType half, const float* from, std::byte* to, std::int64_t n) {
  with_half(half, [&]<class T>(T) { narrow_row(from, reinterpret_cast<T*>(to), n); });
}

Tensor widened(const Tensor& half) {
  Tensor wide = make_empty(DType::f32, half.impl()->shape);
  widen_all(contiguous_copy(half), wide);
  return wide;
}

Tensor widened_as_it_lies(const Tensor& half) {
  const Shape& shape = half.impl()->shape;
  const Strides strides = pointwise_layout(std::span(&half, 1), shape);
  Tensor dense = half;
  if (!lies_with(half, strides)) {
    dense = make_empty_strided(half.impl()->dtype, shape, strides);
    copy_tensor(half, dense);
  }
  Tensor wide = make_empty_strided(DType::f32, shape, strides);
  widen_all(dense, wide);
  return wide;
}

void narrow(const Tensor& wide, const Tensor& half) {
  const std::int64_t n = half.impl()->numel();
  const auto* from = reinterpret_cast<const float*>(wide.impl()->data);
  with_half(half.impl()->dtype, [&]<class T>(T) {
    T* to = reinterpret_cast<T*>(half.impl()->data);
    parallel_for(0, n, grain_for({.bytes = 6}, n), [&](std::int64_t lo, std::int64_t hi) {
      narrow_row(from + lo, to + lo, hi - lo);
    });
  });
}

Tensor dense_computed(const Tensor& t) {
  if (!t.defined()) return {};
  return is_narrow(t.dtype()) ? widened(t) : contiguous_copy(t);
}

ComputedOutput::ComputedOutput(const Tensor& output) : output_(output), work_(output) {
  if (is_narrow(output.dtype())) {
    work_ = make_empty_strided(DType::f32, output.impl()->shape, output.impl()->strides);
  }
}

void ComputedOutput::finish() const {
  if (!work_.is_same(output_)) narrow(work_, output_);
}

}  // namespace dyad::runtime::cpu
