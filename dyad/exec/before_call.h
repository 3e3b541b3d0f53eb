#pragma once

#include <unordered_map>
#include <utility>
#include <vector>

#include "dyad/exec/path.h"

namespace dyad::exec {

/// What a recorded call found in memory from outside that it wrote, and in the gradients that it
/// touched: to compute the call again from where it began.
class BeforeCall {
 public:
  /// `written`, a tensor of memory that lives as long as this, is about to be written.
  void keep(const Tensor& written);
  void keep_grad(const GradLeaf& leaf, const Tensor& grad);

  /// The tensor as the call found it; itself where nothing was written.
  [[nodiscard]] Tensor find(const Tensor& tensor) const;
  /// The gradient as the call found it; undefined where there was none.
  [[nodiscard]] Tensor find_grad(const GradLeaf& leaf) const;

 private:
  std::unordered_map<const Storage*, Ref<Storage>> copy_of_;
  std::vector<std::pair<GradLeaf, Tensor>> grads_;
};

}  // namespace dyad::exec
