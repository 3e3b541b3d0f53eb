#include "dyad/ir/recorded.h"

namespace dyad {

const GraphValue* recorded_value(const Tensor& tensor) noexcept {
  return static_cast<const GraphValue*>(tensor.impl()->recorded.get());
}

const Shape& shape_of(const Tensor& tensor) {
  const GraphValue* recorded = recorded_value(tensor);
  return recorded ? recorded->value.type().shape() : tensor.impl()->shape;
}

}  // namespace dyad
