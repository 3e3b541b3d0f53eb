#pragma once

#include "dyad/core/evaluator.h"
#include "dyad/core/tensor.h"

namespace dyad::nn {

/// A tensor that a model learns: a leaf that tracks gradients. Found, named and saved as a member
/// of a model. An undefined one is a parameter that the layer does without (a bias).
class Parameter : public Tensor {
 public:
  Parameter() noexcept = default;
  /// Marks `value` as one to differentiate by; DTypeError unless it is floating, GradError unless
  /// it is a leaf.
  Parameter(Tensor value, Loc loc = std::source_location::current()) : Tensor(std::move(value)) {
    requires_grad(true, loc);
  }
};

/// A tensor that a model keeps but does not learn, such as running statistics: saved with it.
class Buffer : public Tensor {
 public:
  Buffer() noexcept = default;
  Buffer(Tensor value) noexcept : Tensor(std::move(value)) {}
};

/// Whether a layer is being trained, as `train(model)` and `eval(model)` set it. What a compiled
/// function read of it is checked before each later call.
class Mode {
 public:
  Mode() : state_(make_ref<HostState>(1, "training")) {}
  [[nodiscard]] bool training() const { return state_->value() != 0; }
  /// For library code: without letting a recording notice.
  [[nodiscard]] bool peek() const noexcept { return state_->peek() != 0; }
  void set(bool training) const {
    static_cast<void>(state_->value());  // a recording notes what it was
    state_->set(training ? 1 : 0);
  }

 private:
  Ref<HostState> state_;
};

}  // namespace dyad::nn
