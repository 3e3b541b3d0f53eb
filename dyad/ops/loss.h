#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "dyad/core/tensor.h"

namespace dyad {

/// How a loss combines its elements; batchmean is the sum over the size of the first axis, for
/// kl_div() alone (ValueError).
enum class Reduction { mean, sum, none, batchmean };

namespace ops {
/// ValueError for Reduction::batchmean, which the loss does not take.
void refuse_batchmean(std::string_view loss, Reduction reduction, Loc loc);
}  // namespace ops

// Predictions and targets have equal shapes unless said (ShapeError: a broadcast here is nearly
// always a mistake); the elements' losses are combined as `reduction` says. Floating.

/// -log(softmax(logits))[target]: logits[n, c, ...] (or [c]), target[n, ...] (or []) of class
/// indices, i64 or i32. Targets equal to ignore_index count neither in the sum nor in the mean's
/// divisor. `weight`, one number for each class, scales each loss and counts in the mean's divisor.
/// label_smoothing e moves the target to 1 - e for its class plus e / c for each class. IndexError,
/// when it runs, for a class out of range; ValueError unless 0 <= label_smoothing <= 1.
/// A floating target of the shape of the logits holds the probabilities of the classes: the loss is
/// -sum(weight * target * log(softmax(logits))) over them, the mean that over all other axes.
[[nodiscard]] Tensor cross_entropy(const Tensor& logits, const Tensor& target,
                                   const Tensor& weight = {}, Reduction reduction = Reduction::mean,
                                   std::int64_t ignore_index = -100, double label_smoothing = 0,
                                   Loc loc = std::source_location::current());
/// The same on log probabilities, such as log_softmax gives, for class indices.
[[nodiscard]] Tensor nll_loss(const Tensor& log_probabilities, const Tensor& target,
                              const Tensor& weight = {}, Reduction reduction = Reduction::mean,
                              std::int64_t ignore_index = -100,
                              Loc loc = std::source_location::current());

/// (prediction - target)^2
[[nodiscard]] Tensor mse_loss(const Tensor& prediction, const Tensor& target,
                              Reduction reduction = Reduction::mean,
                              Loc loc = std::source_location::current());
/// |prediction - target|; its derivative at 0 is 0.
[[nodiscard]] Tensor l1_loss(const Tensor& prediction, const Tensor& target,
                             Reduction reduction = Reduction::mean,
                             Loc loc = std::source_location::current());
/// With d = |prediction - target|: d^2 / (2 beta) below beta, d - beta / 2 from there on; l1_loss
/// when beta is 0. ValueError for a negative beta.
[[nodiscard]] Tensor smooth_l1_loss(const Tensor& prediction, const Tensor& target, double beta = 1,
                                    Reduction reduction = Reduction::mean,
                                    Loc loc = std::source_location::current());
/// With d = |prediction - target|: d^2 / 2 up to delta, delta * (d - delta / 2) beyond. ValueError
/// unless delta is above 0.
[[nodiscard]] Tensor huber_loss(const Tensor& prediction, const Tensor& target, double delta = 1,
                                Reduction reduction = Reduction::mean,
                                Loc loc = std::source_location::current());

/// -(target * log(p) + (1 - target) * log(1 - p)) for probabilities p; a logarithm is at least
/// -100, and the derivative's divisor p * (1 - p) at least 1e-12, as in PyTorch. `weight`
/// broadcasts to the prediction.
[[nodiscard]] Tensor binary_cross_entropy(const Tensor& prediction, const Tensor& target,
                                          const Tensor& weight = {},
                                          Reduction reduction = Reduction::mean,
                                          Loc loc = std::source_location::current());
/// The same of sigmoid(logits), exact at both ends; pos_weight scales the losses of the target 1.
/// Both weights broadcast to the logits.
[[nodiscard]] Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& target,
                                                      const Tensor& weight = {},
                                                      const Tensor& pos_weight = {},
                                                      Reduction reduction = Reduction::mean,
                                                      Loc loc = std::source_location::current());
/// target * (log(target) - log_probabilities), 0 where the target is 0; with log_target the target
/// is a logarithm too. The divergence of distributions is the sum over the number of them, which
/// Reduction::batchmean gives; the mean divides by the number of elements.
[[nodiscard]] Tensor kl_div(const Tensor& log_probabilities, const Tensor& target,
                            bool log_target = false, Reduction reduction = Reduction::mean,
                            Loc loc = std::source_location::current());
/// exp(x) - target * x with log_input, otherwise x - target * log(x + eps). `full` adds Stirling's
/// approximation of log(target!) for targets above 1.
[[nodiscard]] Tensor poisson_nll_loss(const Tensor& x, const Tensor& target, bool log_input = true,
                                      bool full = false, double eps = 1e-8,
                                      Reduction reduction = Reduction::mean,
                                      Loc loc = std::source_location::current());
/// (log(var) + (x - target)^2 / var) / 2 with var at least eps (no gradient reaches a smaller one);
/// `full` adds log(2 pi) / 2. `var` broadcasts to x.
[[nodiscard]] Tensor gaussian_nll_loss(const Tensor& x, const Tensor& target, const Tensor& var,
                                       bool full = false, double eps = 1e-6,
                                       Reduction reduction = Reduction::mean,
                                       Loc loc = std::source_location::current());

// Margins. Targets are 1 or -1. Where a loss becomes 0 its derivative is 0.

/// max(0, margin - target * x)
[[nodiscard]] Tensor hinge_loss(const Tensor& x, const Tensor& target, double margin = 1,
                                Reduction reduction = Reduction::mean,
                                Loc loc = std::source_location::current());
/// x where the target is 1, max(0, margin - x) elsewhere
[[nodiscard]] Tensor hinge_embedding_loss(const Tensor& x, const Tensor& target, double margin = 1,
                                          Reduction reduction = Reduction::mean,
                                          Loc loc = std::source_location::current());
/// log(1 + exp(-target * x))
[[nodiscard]] Tensor soft_margin_loss(const Tensor& x, const Tensor& target,
                                      Reduction reduction = Reduction::mean,
                                      Loc loc = std::source_location::current());
/// max(0, margin - target * (a - b))
[[nodiscard]] Tensor margin_ranking_loss(const Tensor& a, const Tensor& b, const Tensor& target,
                                         double margin = 0, Reduction reduction = Reduction::mean,
                                         Loc loc = std::source_location::current());
/// For each row of x[n, c] (or x[c]) with its class in target[n] (or []): the mean over classes of
/// weight[target] * max(0, margin - x[target] + x[i])^p without i = target. p is 1 or 2
/// (ValueError).
[[nodiscard]] Tensor multi_margin_loss(const Tensor& x, const Tensor& target, int p = 1,
                                       double margin = 1, const Tensor& weight = {},
                                       Reduction reduction = Reduction::mean,
                                       Loc loc = std::source_location::current());

/// (sum(|a - b + eps|^p))^(1/p) over the last axis; p is above 0 (ValueError). The operands
/// broadcast.
[[nodiscard]] Tensor pairwise_distance(const Tensor& a, const Tensor& b, double p = 2,
                                       double eps = 1e-6, bool keepdim = false,
                                       Loc loc = std::source_location::current());
/// max(0, distance(anchor, positive) - distance(anchor, negative) + margin) by pairwise_distance;
/// swap takes the negative's distance from the positive where that is less.
[[nodiscard]] Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive,
                                         const Tensor& negative, double margin = 1, double p = 2,
                                         double eps = 1e-6, bool swap = false,
                                         Reduction reduction = Reduction::mean,
                                         Loc loc = std::source_location::current());
/// sum(a * b) / (max(|a|, eps) * max(|b|, eps)) along an axis; the operands broadcast. Of a zero
/// vector it is 0, with a derivative.
[[nodiscard]] Tensor cosine_similarity(const Tensor& a, const Tensor& b, std::int64_t axis = 1,
                                       double eps = 1e-8,
                                       Loc loc = std::source_location::current());
/// 1 - cosine_similarity along the last axis where the target is 1, max(0, it - margin) elsewhere.
[[nodiscard]] Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& target,
                                           double margin = 0, Reduction reduction = Reduction::mean,
                                           Loc loc = std::source_location::current());
/// For each row of x[n, c] (or x[c]) with its classes in target (i64 of the same shape, up to the
/// first negative one): the sum over its classes j and the others i of max(0, 1 - x[j] + x[i]),
/// divided by c.
[[nodiscard]] Tensor multilabel_margin_loss(const Tensor& x, const Tensor& target,
                                            Reduction reduction = Reduction::mean,
                                            Loc loc = std::source_location::current());
/// The mean over the last axis of -weight * (y log(sigmoid(x)) + (1 - y) log(sigmoid(-x))).
[[nodiscard]] Tensor multilabel_soft_margin_loss(const Tensor& x, const Tensor& target,
                                                 const Tensor& weight = {},
                                                 Reduction reduction = Reduction::mean,
                                                 Loc loc = std::source_location::current());
/// How far apart two tensors are.
using Distance = std::function<Tensor(const Tensor&, const Tensor&)>;
/// triplet_margin_loss() by any distance, pairwise_distance() when it is left out.
[[nodiscard]] Tensor triplet_margin_with_distance_loss(const Tensor& anchor, const Tensor& positive,
                                                       const Tensor& negative,
                                                       const Distance& distance = {},
                                                       double margin = 1, bool swap = false,
                                                       Reduction reduction = Reduction::mean,
                                                       Loc loc = std::source_location::current());

}  // namespace dyad
