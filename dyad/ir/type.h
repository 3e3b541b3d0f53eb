#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dyad/core/dtype.h"
#include "dyad/core/shape.h"

namespace dyad {

class Tensor;

/// The type of a graph value: a tensor (dtype and shape), a sequence of one type, an optional one,
/// or none: an optional input that is absent.
class Type {
 public:
  enum class Kind : std::uint8_t { tensor, sequence, optional, none };

  Type() = default;
  Type(DType dtype, Shape shape) : dtype_(dtype), shape_(std::move(shape)) {}
  static Type sequence_of(Type element);
  static Type optional_of(Type element);
  static Type none();

  [[nodiscard]] Kind kind() const noexcept { return kind_; }
  [[nodiscard]] bool is_tensor() const noexcept { return kind_ == Kind::tensor; }
  [[nodiscard]] bool is_none() const noexcept { return kind_ == Kind::none; }
  [[nodiscard]] DType dtype() const noexcept { return dtype_; }
  [[nodiscard]] const Shape& shape() const noexcept { return shape_; }
  [[nodiscard]] int rank() const noexcept { return shape_.rank(); }
  /// What a sequence or optional holds.
  [[nodiscard]] const Type& element() const noexcept { return *element_; }
  [[nodiscard]] bool same_as(const Type& other) const noexcept;

 private:
  Kind kind_ = Kind::tensor;
  DType dtype_ = DType::f32;
  Shape shape_;
  std::shared_ptr<const Type> element_;
};

using Types = std::vector<Type>;

/// Whether values of the type can have a gradient: tensors of floating-point or complex numbers.
[[nodiscard]] inline bool is_differentiable(const Type& type) noexcept {
  return type.is_tensor() && is_differentiable(type.dtype());
}
/// The type of gradients by values of a differentiable type.
[[nodiscard]] inline Type grad_type(const Type& type) {
  return {grad_dtype(type.dtype()), type.shape()};
}

/// The type of a defined tensor; none for an undefined one.
[[nodiscard]] Type type_of(const Tensor& tensor);

/// `f32[batch, 784]`, `seq(f32[3])`, `optional(i64[])`, `none`: the form that messages print and
/// the graph parser reads.
[[nodiscard]] std::string to_string(const Type& type);

}  // namespace dyad
