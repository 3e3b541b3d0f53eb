#include "dyad/nn/norm.h"

#include <fmt/format.h>

#include <utility>

#include "dyad/autograd/grad_mode.h"
#include "dyad/base/error.h"
#include "dyad/nn/checks.h"
#include "dyad/nn/init.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/norm.h"
#include "dyad/ops/op_support.h"

namespace dyad::nn {

BatchNorm::BatchNorm(std::int64_t channels, const BatchNormOptions& options, Loc loc)
    : eps(options.eps), momentum(options.momentum) {
  require_positive("BatchNorm", {{"channels", channels}}, loc);
  one_ = init::full({channels}, 1, options.dtype, loc);
  zero_ = init::full({channels}, 0, options.dtype, loc);
  if (options.affine) {
    weight = Parameter(std::exchange(one_, {}), loc);
    bias = Parameter(std::exchange(zero_, {}), loc);
  }
  if (!options.track_running_stats) return;
  running_mean = Buffer(init::full({channels}, 0, options.dtype, loc));
  running_var = Buffer(init::full({channels}, 1, options.dtype, loc));
  num_batches_tracked = Buffer(init::full({}, 0, i64, loc));
}

Tensor BatchNorm::operator()(const Tensor& x, Loc loc) const {
  const LocScope scope(loc);
  const Tensor& scale = weight.defined() ? weight : one_;
  const Tensor& shift = bias.defined() ? bias : zero_;
  const bool tracks = running_mean.defined();
  if (tracks && !mode.training()) {
    return batch_norm(x, scale, shift, running_mean, running_var, eps, loc);
  }
  const auto [y, mean, var] = batch_norm_train(x, scale, shift, eps, loc);
  if (tracks) move_statistics(x, mean, var, loc);
  return y;
}

void BatchNorm::move_statistics(const Tensor& x, const Tensor& mean, const Tensor& var,
                                Loc loc) const {
  Dim count = x.size(0, loc);
  for (int axis = 2; axis < x.rank(); ++axis) count *= x.size(axis, loc);
  if (ops::is_below(count, 2)) {
    throw ValueError(fmt::format("BatchNorm({}): training needs more than one value for each "
                                 "channel, found {}; use a larger batch or eval(model)",
                                 type_string(x), to_string(ops::size_now(count))),
                     loc.user());
  }
  const NoGrad no_grad;
  // The batch's are in f32 where the model is narrower, and so is what they move.
  const DType dtype = var.dtype();
  const Tensor n = size_tensor(count, loc).to(dtype, loc);
  const Tensor unbiased = mul(var, div(n, sub(n, 1, loc), loc), loc);
  const auto move = [&](Tensor running, const Tensor& batch) {
    const Tensor rest = mul(running.to(dtype, loc), 1 - momentum, loc);
    running.copy_(add(rest, mul(batch, momentum, loc), loc).to(running.dtype(), loc), loc);
  };
  move(running_mean, mean);
  move(running_var, unbiased);
  Tensor(num_batches_tracked).add_(1, loc);
}

LayerNorm::LayerNorm(const Shape& shape, const LayerNormOptions& options, Loc loc)
    : eps(options.eps) {
  one_ = init::full(shape, 1, options.dtype, loc);
  if (!options.affine) return;
  weight = Parameter(std::exchange(one_, {}), loc);
  if (options.bias) bias = Parameter(init::full(shape, 0, options.dtype, loc), loc);
}

LayerNorm::LayerNorm(std::int64_t size, const LayerNormOptions& options, Loc loc)
    : LayerNorm(Shape{Dim(size)}, options, loc) {}

Tensor LayerNorm::operator()(const Tensor& x, Loc loc) const {
  const LocScope scope(loc);
  return layer_norm(x, weight.defined() ? weight : one_, bias, eps, loc);
}

}  // namespace dyad::nn
