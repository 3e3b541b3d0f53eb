#include "dyad/data/packed.h"

#include <cstring>

#include "dyad/core/element.h"
#include "dyad/core/tensor_impl.h"

namespace dyad::data {

Tensor packed(const Tensor& x, Loc loc) {
  const auto* from = static_cast<const std::byte*>(x.raw_data(loc));
  if (x.is_contiguous()) return x;
  Tensor copy = make_empty(x.dtype(), x.impl()->shape);
  auto* to = static_cast<std::byte*>(copy.raw_data(loc));
  const std::size_t bytes = size_of(x.dtype());
  for_each_offset(x.impl()->shape, x.strides(), [&](std::int64_t offset) {
    std::memcpy(to, from + offset * static_cast<std::int64_t>(bytes), bytes);
    to += bytes;
  });
  return copy;
}

}  // namespace dyad::data
