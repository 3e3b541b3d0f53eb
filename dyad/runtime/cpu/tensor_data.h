#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dyad/core/tensor.h"
#include "dyad/core/tensor_impl.h"

namespace dyad::runtime::cpu {

/// The sizes of a concrete tensor.
[[nodiscard]] inline std::span<const std::int64_t> sizes_of(const Tensor& t) {
  return t.impl()->shape.numbers();
}

/// Where the first element of a concrete tensor is; null where the tensor is undefined.
template <class T>
[[nodiscard]] T* elements_of(const Tensor& t) noexcept {
  return t.defined() ? reinterpret_cast<T*>(t.impl()->data) : nullptr;
}

/// The elements of an index tensor (i32 or i64, any strides), row-major.
[[nodiscard]] std::vector<std::int64_t> index_values(const Tensor& index);

/// `[1, 2]`: the place of an element, or of a line along the last axis, of a row-major array.
[[nodiscard]] std::string place_in(std::span<const std::int64_t> sizes, std::int64_t at);

}  // namespace dyad::runtime::cpu
