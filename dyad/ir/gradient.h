#pragma once

#include <span>

#include "dyad/core/tensor.h"
#include "dyad/ir/op_info.h"

namespace dyad {

/// What a gradient rule sees: the gradients of the outputs, the values that its row says it saves,
/// and which inputs want a gradient. The same rule serves the eager tape (tensors with data) and
/// static graphs (symbolic tensors). Gradients of broadcast or converted inputs may be given in the
/// broadcast shape and promoted dtype: the driver reduces them. Tensors are returned by reference
/// and live as long as the rule runs.
class Gradient {
 public:
  virtual ~Gradient() = default;

  /// The gradient of output i; zeros where nothing came back.
  [[nodiscard]] virtual const Tensor& grad(int i = 0) = 0;
  /// False when nothing flowed back into output i.
  [[nodiscard]] virtual bool has_grad(int i) const = 0;
  /// Input i or output i, only if the row declares it saved (InternalError otherwise); GradError
  /// when it was overwritten since.
  [[nodiscard]] virtual const Tensor& input(int i) = 0;
  [[nodiscard]] virtual const Tensor& output(int i = 0) = 0;
  /// The same where the rule reads it for the last time: from there on it takes no memory for the
  /// rule's sake, and a gradient may be overwritten (apply_over).
  [[nodiscard]] virtual Tensor take_grad(int i = 0) { return grad(i); }
  [[nodiscard]] virtual Tensor take_input(int i) { return input(i); }
  /// Shape and dtype of input i, always known. While recording, sizes carry their symbols.
  [[nodiscard]] virtual const Shape& input_shape(int i) const = 0;
  [[nodiscard]] virtual DType input_dtype(int i) const = 0;
  [[nodiscard]] virtual const Shape& output_shape(int i = 0) const = 0;
  [[nodiscard]] virtual int input_count() const = 0;
  /// True when input i wants a gradient.
  [[nodiscard]] virtual bool needs(int i) const = 0;
  /// Sets the gradient of input i.
  virtual void set(int i, Tensor gradient) = 0;
  [[nodiscard]] virtual const void* raw_attrs() const = 0;

  template <class A>
  [[nodiscard]] const A& attrs() const {
    return attrs_at<A>(raw_attrs());
  }
};

}  // namespace dyad
