#include "dyad/nn/activation.h"

#include "dyad/nn/checks.h"
#include "dyad/nn/init.h"
#include "dyad/ops/activation.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/norm.h"
#include "dyad/ops/views.h"

namespace dyad::nn {

Tensor ReLU::operator()(const Tensor& x, Loc loc) const { return relu(x, loc); }
Tensor Tanh::operator()(const Tensor& x, Loc loc) const { return tanh(x, loc); }
Tensor Sigmoid::operator()(const Tensor& x, Loc loc) const { return sigmoid(x, loc); }
Tensor GELU::operator()(const Tensor& x, Loc loc) const { return gelu(x, tanh_form, loc); }
Tensor SiLU::operator()(const Tensor& x, Loc loc) const { return silu(x, loc); }
Tensor Softmax::operator()(const Tensor& x, Loc loc) const { return softmax(x, axis, loc); }
Tensor LogSoftmax::operator()(const Tensor& x, Loc loc) const { return log_softmax(x, axis, loc); }
Tensor Flatten::operator()(const Tensor& x, Loc loc) const { return flatten(x, first, last, loc); }
Tensor Identity::operator()(const Tensor& x, Loc) const { return x; }

Tensor ELU::operator()(const Tensor& x, Loc loc) const { return elu(x, alpha, loc); }
Tensor CELU::operator()(const Tensor& x, Loc loc) const { return celu(x, alpha, loc); }
Tensor LeakyReLU::operator()(const Tensor& x, Loc loc) const { return leaky_relu(x, slope, loc); }
Tensor Softplus::operator()(const Tensor& x, Loc loc) const { return softplus(x, beta, loc); }
Tensor Hardtanh::operator()(const Tensor& x, Loc loc) const { return hardtanh(x, low, high, loc); }
Tensor Hardshrink::operator()(const Tensor& x, Loc loc) const { return hardshrink(x, lambda, loc); }
Tensor Softshrink::operator()(const Tensor& x, Loc loc) const { return softshrink(x, lambda, loc); }
Tensor GLU::operator()(const Tensor& x, Loc loc) const { return glu(x, axis, loc); }
Tensor SwiGLU::operator()(const Tensor& x, Loc loc) const { return swiglu(x, axis, loc); }
Tensor SELU::operator()(const Tensor& x, Loc loc) const { return selu(x, loc); }
Tensor Mish::operator()(const Tensor& x, Loc loc) const { return mish(x, loc); }
Tensor Softsign::operator()(const Tensor& x, Loc loc) const { return softsign(x, loc); }
Tensor Tanhshrink::operator()(const Tensor& x, Loc loc) const { return tanhshrink(x, loc); }
Tensor Hardsigmoid::operator()(const Tensor& x, Loc loc) const {
  return hardsigmoid(x, 1.0 / 6, 0.5, loc);
}
Tensor Hardswish::operator()(const Tensor& x, Loc loc) const { return hardswish(x, loc); }
Tensor ReLU6::operator()(const Tensor& x, Loc loc) const { return relu6(x, loc); }
Tensor LogSigmoid::operator()(const Tensor& x, Loc loc) const { return logsigmoid(x, loc); }
Tensor QuickGELU::operator()(const Tensor& x, Loc loc) const { return quick_gelu(x, loc); }
Tensor Softmin::operator()(const Tensor& x, Loc loc) const {
  return softmax(neg(x, loc), axis, loc);
}
Tensor Softmax2d::operator()(const Tensor& x, Loc loc) const { return softmax(x, -3, loc); }
Tensor PReLU::operator()(const Tensor& x, Loc loc) const { return prelu(x, weight, loc); }
Tensor Threshold::operator()(const Tensor& x, Loc loc) const {
  const LocScope scope(loc);
  return where(x > threshold, x, value);
}
PReLU::PReLU(std::int64_t count, double first, DType dtype, Loc loc) {
  require_positive("PReLU", {{"count", count}}, loc);
  weight = Parameter(init::full({count}, first, dtype, loc), loc);
}
Tensor Unflatten::operator()(const Tensor& x, Loc loc) const {
  const LocScope scope(loc);
  const auto at = static_cast<std::int64_t>(axis < 0 ? axis + x.rank() : axis);
  Shape shape;
  for (int i = 0; i < x.rank(); ++i) {
    if (i != at) {
      shape.push_back(x.size(i));
      continue;
    }
    for (const Dim size : sizes) shape.push_back(size);
  }
  return reshape(x, shape, loc);
}

}  // namespace dyad::nn
