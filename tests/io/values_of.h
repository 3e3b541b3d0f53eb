#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "dyad/core/tensor_impl.h"

namespace dyad::io {

/// The elements of a dense tensor of dtype T.
template <class T>
std::vector<T> values_of(const Tensor& x) {
  return std::vector<T>(x.data<T>(), x.data<T>() + x.impl()->numel());
}

/// The bits of the elements of a f32 tensor, to be compared exactly.
inline std::vector<std::uint32_t> bits_of(const Tensor& tensor) {
  std::vector<std::uint32_t> bits;
  for (const float value : tensor.to_vector<float>())
    bits.push_back(std::bit_cast<std::uint32_t>(value));
  return bits;
}

}  // namespace dyad::io
