#include "dyad/ir/type.h"

#include "dyad/core/tensor.h"
#include "dyad/core/tensor_impl.h"

namespace dyad {

Type Type::sequence_of(Type element) {
  Type type;
  type.kind_ = Kind::sequence;
  type.element_ = std::make_shared<const Type>(std::move(element));
  return type;
}

Type Type::optional_of(Type element) {
  Type type = sequence_of(std::move(element));
  type.kind_ = Kind::optional;
  return type;
}

Type Type::none() {
  Type type;
  type.kind_ = Kind::none;
  return type;
}

bool Type::same_as(const Type& other) const noexcept {
  const Type *a = this, *b = &other;
  while (a->kind_ == b->kind_ && a->element_ && b->element_) {
    a = a->element_.get();
    b = b->element_.get();
  }
  if (a->kind_ != b->kind_) return false;
  return a->kind_ != Kind::tensor || (a->dtype_ == b->dtype_ && a->shape_.same_as(b->shape_));
}

Type type_of(const Tensor& tensor) {
  return tensor.defined() ? Type(tensor.dtype(), tensor.impl()->shape) : Type::none();
}

std::string to_string(const Type& type) {
  std::string text, end;
  const Type* t = &type;
  for (; t->kind() == Type::Kind::sequence || t->kind() == Type::Kind::optional;
       t = &t->element()) {
    text += t->kind() == Type::Kind::sequence ? "seq(" : "optional(";
    end += ')';
  }
  text += t->is_none() ? "none" : type_string(t->dtype(), t->shape());
  return text + end;
}

}  // namespace dyad
