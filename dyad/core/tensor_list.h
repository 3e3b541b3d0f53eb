#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "dyad/core/tensor.h"

namespace dyad {

/// A fixed number of tensors, undefined at first, as an operator has inputs or outputs: up to four
/// need no memory of their own. Does not move, because spans point into it.
class TensorList {
 public:
  explicit TensorList(std::size_t count) : count_(count) {
    if (count > few_.size()) many_.resize(count);
  }
  TensorList(const TensorList&) = delete;
  TensorList& operator=(const TensorList&) = delete;

  [[nodiscard]] std::span<Tensor> all() noexcept {
    return {count_ > few_.size() ? many_.data() : few_.data(), count_};
  }
  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  Tensor& operator[](std::size_t i) noexcept { return all()[i]; }

 private:
  std::array<Tensor, 4> few_;
  std::vector<Tensor> many_;
  std::size_t count_;
};

}  // namespace dyad
