#include "dyad/runtime/cpu/element.h"

#include <cstring>

#include "dyad/core/element.h"

namespace dyad::runtime::cpu {

Word16 element_bits(DType dtype, double value) {
  Word16 bits{};
  visit_element(dtype, [&]<class T>(std::type_identity<T>) {
    const T element = convert_element<T>(value);
    std::memcpy(&bits, &element, sizeof element);
  });
  return bits;
}

}  // namespace dyad::runtime::cpu
