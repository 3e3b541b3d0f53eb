#pragma once

#include <array>

#include "dyad/core/tensor.h"

namespace dyad {

class Evaluator;
struct RandomKey;

namespace ops {
/// Gamma distributed numbers with scale 1, or their logarithms, which do not vanish for a tiny
/// concentration.
[[nodiscard]] Tensor gamma_numbers(const Tensor& concentration, bool logarithm, Loc loc);
/// Has an evaluator run the operator that sets the default generator: what is recorded does it at
/// each run.
void seed_generator(Evaluator& by, const RandomKey& state, Loc loc);
}  // namespace ops

// Numbers are functions of a key (seed and offset) and the position alone, so they are the same in
// every mode and at every thread count. Functions without a key take one from the default
// generator (`manual_seed`).

/// A seed and an offset for `count` numbers, two i64 scalars; the default generator moves on.
[[nodiscard]] std::array<Tensor, 2> random_key(Dim count,
                                               Loc loc = std::source_location::current());

/// Uniform in [low, high).
[[nodiscard]] Tensor uniform(Shape shape, double low = 0, double high = 1, DType dtype = f32,
                             Loc loc = std::source_location::current());
/// Normally distributed.
[[nodiscard]] Tensor normal(Shape shape, double mean = 0, double std = 1, DType dtype = f32,
                            Loc loc = std::source_location::current());
/// The same with a mean and a standard deviation for each element: floating tensors or numbers (at
/// least one tensor), which broadcast. Gradients reach both.
[[nodiscard]] Tensor normal(const Arg& mean, const Arg& std,
                            Loc loc = std::source_location::current());
/// Uniform in [0, 1).
[[nodiscard]] Tensor rand(Sizes shape, DType dtype = f32,
                          Loc loc = std::source_location::current());
/// Standard normal.
[[nodiscard]] Tensor randn(Sizes shape, DType dtype = f32,
                           Loc loc = std::source_location::current());
/// Uniform in [0, 1), of the shape and dtype of x.
[[nodiscard]] Tensor rand_like(const Tensor& x, Loc loc = std::source_location::current());
/// Standard normal, of the shape and dtype of x.
[[nodiscard]] Tensor randn_like(const Tensor& x, Loc loc = std::source_location::current());
/// Normally distributed within [low, high], by the inverse of the distribution function; ValueError
/// unless std > 0 and low < high.
[[nodiscard]] Tensor truncated_normal(Shape shape, double mean = 0, double std = 1, double low = -2,
                                      double high = 2, DType dtype = f32,
                                      Loc loc = std::source_location::current());
/// Exponentially distributed, at least 0, with the mean 1 / rate; ValueError unless rate > 0.
[[nodiscard]] Tensor exponential(Shape shape, double rate = 1, DType dtype = f32,
                                 Loc loc = std::source_location::current());
/// -log of an exponentially distributed number: the argmax of log weights plus such numbers is a
/// draw in proportion to the weights.
[[nodiscard]] Tensor gumbel(Shape shape, DType dtype = f32,
                            Loc loc = std::source_location::current());
/// A relaxed draw of one of the classes along an axis (Jang et al., 2017): softmax((logits +
/// gumbel) / temperature); hard: one-hot, with the gradient of the relaxed one. ValueError unless
/// temperature > 0.
[[nodiscard]] Tensor gumbel_softmax(const Tensor& logits, double temperature = 1, bool hard = false,
                                    std::int64_t axis = -1,
                                    Loc loc = std::source_location::current());
/// 1 with the probability p, 0 otherwise. ValueError unless 0 <= p <= 1.
[[nodiscard]] Tensor bernoulli(Shape shape, double p, DType dtype = f32,
                               Loc loc = std::source_location::current());
/// 1 with the probability p[i], 0 otherwise, in the dtype of p (floating). ValueError, when it
/// runs, unless 0 <= p[i] <= 1.
[[nodiscard]] Tensor bernoulli(const Tensor& p, Loc loc = std::source_location::current());
/// Poisson distributed with the mean rate[i], in the dtype of rate (floating): exact below 2^20,
/// from there on a normal number with the skewness put right. Its derivative is 0. ValueError, when
/// it runs, for a rate that is negative or not finite.
[[nodiscard]] Tensor poisson(const Tensor& rate, Loc loc = std::source_location::current());
/// Gamma distributed with the concentration alpha[i] and the given rate, mean alpha / rate; in the
/// dtype of alpha (floating). ValueError unless alpha is finite and above 0. The gradient by alpha,
/// also through chi2(), student_t(), beta() and dirichlet(), is that of the draw whose distribution
/// function keeps its value (implicit reparameterisation), to about 1e-3, as in PyTorch.
[[nodiscard]] Tensor gamma(const Tensor& alpha, double rate = 1,
                           Loc loc = std::source_location::current());
/// The sums of the squares of `freedom[i]` standard normal numbers.
[[nodiscard]] Tensor chi2(const Tensor& freedom, Loc loc = std::source_location::current());
/// Student's t distribution of `freedom[i]` degrees of freedom.
[[nodiscard]] Tensor student_t(const Tensor& freedom, Loc loc = std::source_location::current());
/// Beta distributed in [0, 1]; a and b broadcast. Not 0 / 0 where both are tiny.
[[nodiscard]] Tensor beta(const Tensor& a, const Tensor& b,
                          Loc loc = std::source_location::current());
/// Parts of 1 along the last axis, whose mean is in proportion to the concentrations.
[[nodiscard]] Tensor dirichlet(const Tensor& concentration,
                               Loc loc = std::source_location::current());
/// Successes out of count[i] trials with the probability p[i], which broadcast; in the dtype of p
/// (floating). Exact up to a variance of 2^20, from there on a normal number with the skewness put
/// right. ValueError unless counts are whole and at least 0 and 0 <= p <= 1.
[[nodiscard]] Tensor binomial(const Tensor& count, const Tensor& p,
                              Loc loc = std::source_location::current());
/// exp(-|x - mean| / scale) / (2 scale), scale above 0 (ValueError).
[[nodiscard]] Tensor laplace(Shape shape, double mean = 0, double scale = 1, DType dtype = f32,
                             Loc loc = std::source_location::current());
/// 1 / (pi scale (1 + ((x - median) / scale)^2)), scale above 0 (ValueError).
[[nodiscard]] Tensor cauchy(Shape shape, double median = 0, double scale = 1, DType dtype = f32,
                            Loc loc = std::source_location::current());
/// The exponential of normal numbers.
[[nodiscard]] Tensor log_normal(Shape shape, double mean = 0, double std = 1, DType dtype = f32,
                                Loc loc = std::source_location::current());
/// Whole numbers from low to high - 1, evenly; ValueError unless low < high <= low + 2^53.
[[nodiscard]] Tensor randint(std::int64_t low, std::int64_t high, Shape shape, DType dtype = i64,
                             Loc loc = std::source_location::current());

/// randint() of the shape and dtype of x.
[[nodiscard]] Tensor randint_like(const Tensor& x, std::int64_t low, std::int64_t high,
                                  Loc loc = std::source_location::current());
/// The whole numbers from 0 to count - 1 in random order.
[[nodiscard]] Tensor randperm(Dim count, DType dtype = i64,
                              Loc loc = std::source_location::current());
/// `count` indices (i64) along a new last axis in the place of the last axis of `weights`, each in
/// proportion to the weights: floating, at least 0, their sum above 0. Without replacement no index
/// comes twice, and one of weight 0 only when the others are used up. No gradient. ValueError for a
/// count below 1, or without replacement above the number of weights; when it runs, for weights
/// that are negative or not finite, or all 0.
[[nodiscard]] Tensor multinomial(const Tensor& weights, std::int64_t count,
                                 bool replacement = false,
                                 Loc loc = std::source_location::current());

/// Training: each element is 0 with the probability p, the others are scaled by 1 / (1 - p).
/// Otherwise x. 0 <= p <= 1 (ValueError).
[[nodiscard]] Tensor dropout(const Tensor& x, double p = 0.5, bool training = true,
                             Loc loc = std::source_location::current());

}  // namespace dyad
