#include "dyad/runtime/cpu/element.h"

#include <cstring>

#include "dyad/core/element.h"

namespace dyad::runtime::cpu {

std::uint64_t element_bits(DType dtype, double value) {
  std::uint64_t bits = 0;
  visit_dtype(dtype, [&]<class T>(std::type_identity<T>) {
    const T element = convert_element<T>(value);
    std::memcpy(&bits, &element, sizeof element);
  });
  return bits;
}

}  // namespace dyad::runtime::cpu
