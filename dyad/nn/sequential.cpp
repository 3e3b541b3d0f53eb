#include "dyad/nn/sequential.h"

#include <string>

namespace dyad::nn {

Tensor Sequential::operator()(const Tensor& x, Loc loc) const {
  const LocScope scope(loc);
  Tensor value = x;
  for (const AnyLayer& layer : layers_) value = layer(value, loc);
  return value;
}

void Sequential::visit(Visitor& v) {
  for (std::size_t i = 0; i < layers_.size(); ++i) layers_[i].show(std::to_string(i), v);
}

}  // namespace dyad::nn
