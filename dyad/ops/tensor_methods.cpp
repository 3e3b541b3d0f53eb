#include "dyad/core/evaluator.h"
#include "dyad/core/tensor.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/reduce.h"
#include "dyad/ops/views.h"

namespace dyad {

Tensor& Tensor::copy_(const Arg& value, Loc loc) {
  const Tensor converted = dyad::to(value.tensor(), dtype(), loc);
  Evaluator::current().write(*this, dyad::expand(converted, ops::sizes_of(*this, loc), loc), loc);
  return *this;
}
Tensor& Tensor::fill_(double value, Loc loc) {
  Evaluator::current().write(*this, full_like(*this, value, loc), loc);
  return *this;
}

Tensor Tensor::to(DType dtype, Loc loc) const { return dyad::to(*this, dtype, loc); }
Tensor Tensor::contiguous(Loc loc) const { return dyad::contiguous(*this, loc); }
Tensor Tensor::detach(Loc loc) const { return dyad::detach(*this, loc); }
Tensor Tensor::clone(Loc loc) const { return dyad::clone(*this, loc); }
Tensor Tensor::reshape(Shape shape, Loc loc) const {
  return dyad::reshape(*this, std::move(shape), loc);
}
Tensor Tensor::transpose(std::int64_t a, std::int64_t b, Loc loc) const {
  return dyad::transpose(*this, a, b, loc);
}
Tensor Tensor::permute(Ints axes, Loc loc) const {
  return dyad::permute(*this, std::move(axes), loc);
}
Tensor Tensor::t(Loc loc) const {
  if (rank() != 2) {
    throw ShapeError("t(" + type_string(*this) +
                         "): a matrix is needed, which has 2 axes; transpose() takes any two",
                     loc.user());
  }
  return dyad::transpose(*this, 0, 1, loc);
}
Tensor Tensor::flatten(std::int64_t first, std::int64_t last, Loc loc) const {
  return dyad::flatten(*this, first, last, loc);
}
Tensor Tensor::squeeze(std::int64_t axis, Loc loc) const { return dyad::squeeze(*this, axis, loc); }
Tensor Tensor::unsqueeze(std::int64_t axis, Loc loc) const {
  return dyad::unsqueeze(*this, axis, loc);
}
Tensor Tensor::expand(Shape shape, Loc loc) const {
  return dyad::expand(*this, std::move(shape), loc);
}
Tensor Tensor::select(std::int64_t axis, Dim index, Loc loc) const {
  return dyad::select(*this, axis, index, loc);
}
Tensor Tensor::slice(std::int64_t axis, Dim begin, Dim end, std::int64_t step, Loc loc) const {
  return dyad::slice(*this, axis, begin, end, step, loc);
}
Tensor Tensor::operator[](Dim index) const { return dyad::select(*this, 0, index, Loc()); }
Tensor Tensor::sum(Ints axes, bool keepdim, Loc loc) const {
  return dyad::sum(*this, std::move(axes), keepdim, loc);
}
Tensor Tensor::mean(Ints axes, bool keepdim, Loc loc) const {
  return dyad::mean(*this, std::move(axes), keepdim, loc);
}
Tensor Tensor::max(Ints axes, bool keepdim, Loc loc) const {
  return dyad::max(*this, std::move(axes), keepdim, loc);
}
Tensor Tensor::min(Ints axes, bool keepdim, Loc loc) const {
  return dyad::min(*this, std::move(axes), keepdim, loc);
}
Tensor Tensor::argmax(std::int64_t axis, bool keepdim, Loc loc) const {
  return dyad::argmax(*this, axis, keepdim, false, loc);
}

}  // namespace dyad
