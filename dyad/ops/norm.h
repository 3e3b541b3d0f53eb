#pragma once

#include <array>

#include "dyad/core/tensor.h"

namespace dyad {

/// exp(x) / sum(exp(x)) along an axis, without overflow. Floating only.
[[nodiscard]] Tensor softmax(const Tensor& x, std::int64_t axis = -1,
                             Loc loc = std::source_location::current());
/// log(softmax(x)), exact for small probabilities. Floating only.
[[nodiscard]] Tensor log_softmax(const Tensor& x, std::int64_t axis = -1,
                                 Loc loc = std::source_location::current());

/// (x - mean) / sqrt(var + eps) * weight + bias, with the mean and the (biased) variance over the
/// last axes of x, as many as weight has. weight and bias have their sizes; bias may be undefined.
[[nodiscard]] Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                                double eps = 1e-5, Loc loc = std::source_location::current());

/// x / sqrt(mean(x^2) + eps) * weight, with the mean over the last axes of x, as many as weight
/// has.
[[nodiscard]] Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps = 1e-5,
                              Loc loc = std::source_location::current());

/// (x - mean) / sqrt(var + eps) * weight + bias, with the mean and the (biased) variance over each
/// of `groups` runs of channels (axis 1 of x, which groups divides) and all axes after them. weight
/// and bias have the size of the channels; each may be undefined.
[[nodiscard]] Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& weight = {},
                                const Tensor& bias = {}, double eps = 1e-5,
                                Loc loc = std::source_location::current());
/// The same for each channel alone.
[[nodiscard]] Tensor instance_norm(const Tensor& x, const Tensor& weight = {},
                                   const Tensor& bias = {}, double eps = 1e-5,
                                   Loc loc = std::source_location::current());

/// For inference: (x - mean) / sqrt(var + eps) * weight + bias, each of the four of size c, the
/// size of axis 1 of x.
[[nodiscard]] Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                const Tensor& mean, const Tensor& var, double eps = 1e-5,
                                Loc loc = std::source_location::current());
/// For training: the same with mean and (biased) variance of the batch, over all axes but axis 1.
/// Returns the result, the mean and the variance, these two of f16 and bf16 in f32.
[[nodiscard]] std::array<Tensor, 3> batch_norm_train(const Tensor& x, const Tensor& weight,
                                                     const Tensor& bias, double eps = 1e-5,
                                                     Loc loc = std::source_location::current());

}  // namespace dyad
