#pragma once

#include <vector>

#include "dyad/core/tensor_impl.h"

namespace dyad::io {

/// The elements of a dense tensor of dtype T.
template <class T>
std::vector<T> values_of(const Tensor& x) {
  return std::vector<T>(x.data<T>(), x.data<T>() + x.impl()->numel());
}

}  // namespace dyad::io
