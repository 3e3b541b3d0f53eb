#include "dyad/nn/loss.h"

namespace dyad::nn {

Tensor CrossEntropyLoss::operator()(const Tensor& logits, const Tensor& target, Loc loc) const {
  const LocScope scope(loc);
  return cross_entropy(logits, target, reduction, ignore_index);
}
Tensor NLLLoss::operator()(const Tensor& log_probabilities, const Tensor& target, Loc loc) const {
  const LocScope scope(loc);
  return nll_loss(log_probabilities, target, reduction, ignore_index);
}
Tensor MSELoss::operator()(const Tensor& prediction, const Tensor& target, Loc loc) const {
  const LocScope scope(loc);
  return mse_loss(prediction, target, reduction);
}

}  // namespace dyad::nn
