#include "dyad/nn/loss.h"

namespace dyad::nn {

Tensor CrossEntropyLoss::operator()(const Tensor& logits, const Tensor& target, Loc loc) const {
  const LocScope scope(loc);
  return cross_entropy(logits, target, weight, reduction, ignore_index, label_smoothing);
}
Tensor NLLLoss::operator()(const Tensor& log_probabilities, const Tensor& target, Loc loc) const {
  const LocScope scope(loc);
  return nll_loss(log_probabilities, target, weight, reduction, ignore_index);
}
Tensor MSELoss::operator()(const Tensor& prediction, const Tensor& target, Loc loc) const {
  const LocScope scope(loc);
  return mse_loss(prediction, target, reduction);
}
Tensor L1Loss::operator()(const Tensor& prediction, const Tensor& target, Loc loc) const {
  const LocScope scope(loc);
  return l1_loss(prediction, target, reduction);
}
Tensor SmoothL1Loss::operator()(const Tensor& prediction, const Tensor& target, Loc loc) const {
  const LocScope scope(loc);
  return smooth_l1_loss(prediction, target, beta, reduction);
}
Tensor HuberLoss::operator()(const Tensor& prediction, const Tensor& target, Loc loc) const {
  const LocScope scope(loc);
  return huber_loss(prediction, target, delta, reduction);
}
Tensor BCELoss::operator()(const Tensor& prediction, const Tensor& target, Loc loc) const {
  const LocScope scope(loc);
  return binary_cross_entropy(prediction, target, weight, reduction);
}
Tensor BCEWithLogitsLoss::operator()(const Tensor& logits, const Tensor& target, Loc loc) const {
  const LocScope scope(loc);
  return binary_cross_entropy_with_logits(logits, target, weight, pos_weight, reduction);
}
Tensor KLDivLoss::operator()(const Tensor& log_probabilities, const Tensor& target, Loc loc) const {
  const LocScope scope(loc);
  return kl_div(log_probabilities, target, log_target, reduction);
}
Tensor PoissonNLLLoss::operator()(const Tensor& x, const Tensor& target, Loc loc) const {
  const LocScope scope(loc);
  return poisson_nll_loss(x, target, log_input, full, eps, reduction);
}
Tensor GaussianNLLLoss::operator()(const Tensor& x, const Tensor& target, const Tensor& var,
                                   Loc loc) const {
  const LocScope scope(loc);
  return gaussian_nll_loss(x, target, var, full, eps, reduction);
}
Tensor HingeEmbeddingLoss::operator()(const Tensor& x, const Tensor& target, Loc loc) const {
  const LocScope scope(loc);
  return hinge_embedding_loss(x, target, margin, reduction);
}
Tensor SoftMarginLoss::operator()(const Tensor& x, const Tensor& target, Loc loc) const {
  const LocScope scope(loc);
  return soft_margin_loss(x, target, reduction);
}
Tensor MarginRankingLoss::operator()(const Tensor& a, const Tensor& b, const Tensor& target,
                                     Loc loc) const {
  const LocScope scope(loc);
  return margin_ranking_loss(a, b, target, margin, reduction);
}
Tensor MultiMarginLoss::operator()(const Tensor& x, const Tensor& target, Loc loc) const {
  const LocScope scope(loc);
  return multi_margin_loss(x, target, p, margin, weight, reduction);
}
Tensor TripletMarginLoss::operator()(const Tensor& anchor, const Tensor& positive,
                                     const Tensor& negative, Loc loc) const {
  const LocScope scope(loc);
  return triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction);
}
Tensor CosineEmbeddingLoss::operator()(const Tensor& a, const Tensor& b, const Tensor& target,
                                       Loc loc) const {
  const LocScope scope(loc);
  return cosine_embedding_loss(a, b, target, margin, reduction);
}
Tensor HingeLoss::operator()(const Tensor& x, const Tensor& target, Loc loc) const {
  return hinge_loss(x, target, margin, reduction, loc);
}
Tensor MultiLabelMarginLoss::operator()(const Tensor& x, const Tensor& target, Loc loc) const {
  return multilabel_margin_loss(x, target, reduction, loc);
}
Tensor MultiLabelSoftMarginLoss::operator()(const Tensor& x, const Tensor& target, Loc loc) const {
  return multilabel_soft_margin_loss(x, target, weight, reduction, loc);
}
Tensor TripletMarginWithDistanceLoss::operator()(const Tensor& anchor, const Tensor& positive,
                                                 const Tensor& negative, Loc loc) const {
  return triplet_margin_with_distance_loss(anchor, positive, negative, distance, margin, swap,
                                           reduction, loc);
}
Tensor CTCLoss::operator()(const Tensor& log_probs, const Tensor& targets,
                           const Tensor& input_lengths, const Tensor& target_lengths,
                           Loc loc) const {
  return ctc_loss(log_probs, targets, input_lengths, target_lengths, args, loc);
}

}  // namespace dyad::nn
