#include "dyad/exec/argument_layout.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace dyad::exec {

bool has_gaps(const TensorImpl& tensor) {
  if (tensor.contiguous) return false;
  std::vector<std::pair<std::int64_t, std::int64_t>> axes;  // stride and size
  for (std::size_t axis = 0; axis < tensor.strides.size(); ++axis) {
    if (const std::int64_t size = tensor.shape[axis].number(); size > 1)
      axes.emplace_back(tensor.strides[axis], size);
  }
  std::ranges::sort(axes);
  std::int64_t dense = 1;
  for (const auto& [stride, size] : axes) {
    if (stride != dense) return true;
    dense *= size;
  }
  return false;
}

std::vector<ArgumentLayout> layouts_of(std::span<const Tensor> arguments) {
  std::vector<ArgumentLayout> layouts;
  layouts.reserve(arguments.size());
  for (const Tensor& argument : arguments)
    layouts.push_back({argument.impl()->strides, argument.impl()->contiguous});
  return layouts;
}

std::size_t first_same(std::span<const Tensor> tensors, std::size_t position) {
  const auto same = [&](const Tensor& other) { return other.is_same(tensors[position]); };
  return static_cast<std::size_t>(std::ranges::find_if(tensors, same) - tensors.begin());
}

}  // namespace dyad::exec
