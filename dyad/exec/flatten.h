#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "dyad/exec/pack.h"

namespace dyad::exec::pack {

/// Calls `visit(Tensor&)` for the tensors of `value`, in order.
template <class T, class F>
void for_each_tensor(T& value, F&& visit_tensor) {
  visit(
      value, [&](auto& tensor, const Place&) { visit_tensor(tensor); },
      [](std::int64_t, NumberKind, const Place&) {});
}

/// The tensors of `value`, in order.
template <class T>
[[nodiscard]] std::vector<Tensor> flatten(const T& value) {
  std::vector<Tensor> tensors;
  for_each_tensor(value, [&](const Tensor& t) { tensors.push_back(t); });
  return tensors;
}

/// A copy of `like` whose tensors are, in order, those of `tensors` from `first` on.
template <class T>
[[nodiscard]] T rebuild(const T& like, std::span<const Tensor> tensors, std::size_t first = 0) {
  T made = like;
  for_each_tensor(made, [&](Tensor& t) { t = tensors[first++]; });
  return made;
}

}  // namespace dyad::exec::pack
