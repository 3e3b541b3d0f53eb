#include "dyad/nn/activation.h"

#include "dyad/nn/checks.h"
#include "dyad/nn/init.h"
#include "dyad/ops/activation.h"
#include "dyad/ops/layers.h"
#include "dyad/ops/norm.h"
#include "dyad/ops/shapes.h"
#include "dyad/ops/views.h"

namespace dyad::nn {

Tensor ReLU::operator()(const Tensor& x, Loc loc) const { return relu(x, loc); }
Tensor Tanh::operator()(const Tensor& x, Loc loc) const { return tanh(x, loc); }
Tensor Sigmoid::operator()(const Tensor& x, Loc loc) const { return sigmoid(x, loc); }
Tensor GELU::operator()(const Tensor& x, Loc loc) const { return gelu(x, tanh_form, loc); }
Tensor SiLU::operator()(const Tensor& x, Loc loc) const { return silu(x, loc); }
Tensor Softmax::operator()(const Tensor& x, Loc loc) const { return softmax(x, axis, loc); }
Tensor LogSoftmax::operator()(const Tensor& x, Loc loc) const { return log_softmax(x, axis, loc); }
Tensor Hardmax::operator()(const Tensor& x, Loc loc) const { return hardmax(x, axis, loc); }
Tensor ThresholdedReLU::operator()(const Tensor& x, Loc loc) const {
  return thresholded_relu(x, alpha, loc);
}
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
Tensor Swish::operator()(const Tensor& x, Loc loc) const { return swish(x, alpha, loc); }
Tensor Hardsigmoid::operator()(const Tensor& x, Loc loc) const {
  return hardsigmoid(x, alpha, beta, loc);
}
Tensor Hardswish::operator()(const Tensor& x, Loc loc) const { return hardswish(x, loc); }
Tensor ReLU6::operator()(const Tensor& x, Loc loc) const { return relu6(x, loc); }
Tensor LogSigmoid::operator()(const Tensor& x, Loc loc) const { return logsigmoid(x, loc); }
Tensor QuickGELU::operator()(const Tensor& x, Loc loc) const { return quick_gelu(x, loc); }
Tensor Softmin::operator()(const Tensor& x, Loc loc) const { return softmin(x, axis, loc); }
Tensor Softmax2d::operator()(const Tensor& x, Loc loc) const { return softmax(x, -3, loc); }
Tensor RReLU::operator()(const Tensor& x, Loc loc) const {
  return rrelu(x, low, high, mode.training(), loc);
}
Tensor PReLU::operator()(const Tensor& x, Loc loc) const { return prelu(x, weight, loc); }
Tensor Threshold::operator()(const Tensor& x, Loc loc) const {
  return dyad::threshold(x, threshold, value, loc);
}
PReLU::PReLU(std::int64_t count, double first, DType dtype, Loc loc) {
  require_positive("PReLU", {{"count", count}}, loc);
  weight = Parameter(init::full({count}, first, dtype, loc), loc);
}
Tensor Unflatten::operator()(const Tensor& x, Loc loc) const {
  return unflatten(x, axis, sizes, loc);
}

}  // namespace dyad::nn
