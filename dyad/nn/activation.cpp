#include "dyad/nn/activation.h"

#include "dyad/ops/activation.h"
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

}  // namespace dyad::nn
