#pragma once

#include "dyad/nn/visitor.h"

namespace dyad::nn {

struct BatchNormOptions {
  double eps = 1e-5;
  double momentum = 0.1;            ///< share of a batch in the running statistics
  bool affine = true;               ///< learn a scale and a shift for each channel
  bool track_running_stats = true;  ///< otherwise eval mode too takes those of the batch
  DType dtype = f32;
};

/// Normalises each channel (axis 1) of x[n, c, ...]: in training by the mean and variance of the
/// batch, which also move the running statistics; in eval mode by those (Ioffe and Szegedy, 2015).
class BatchNorm {
 public:
  /// ValueError for a size below 1.
  explicit BatchNorm(std::int64_t channels, const BatchNormOptions& options = {},
                     Loc loc = std::source_location::current());
  /// ValueError in training when a channel has a single value.
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor& v) {
    v("weight", weight);
    v("bias", bias);
    v("running_mean", running_mean);
    v("running_var", running_var);
    v("num_batches_tracked", num_batches_tracked);
    v("mode", mode);
  }

  Parameter weight, bias;            ///< [c]: 1 and 0 at first; or undefined
  Buffer running_mean, running_var;  ///< [c]; the variance is the unbiased one; or undefined
  Buffer num_batches_tracked;        ///< i64[], or undefined
  Mode mode;
  double eps, momentum;

 private:
  Tensor one_, zero_;  // [c], in the place of weight and bias
  void move_statistics(const Tensor& x, const Tensor& mean, const Tensor& var, Loc loc) const;
};

/// For rows and series, images, volumes: the same.
using BatchNorm1d = BatchNorm;
using BatchNorm2d = BatchNorm;
using BatchNorm3d = BatchNorm;

struct LayerNormOptions {
  double eps = 1e-5;
  bool affine = true;  ///< learn a scale and, with `bias`, a shift for each element
  bool bias = true;
  DType dtype = f32;
};

/// Normalises each sample over its last axes, whose sizes are `shape` (Ba et al., 2016).
class LayerNorm {
 public:
  explicit LayerNorm(const Shape& shape, const LayerNormOptions& options = {},
                     Loc loc = std::source_location::current());
  explicit LayerNorm(std::int64_t size, const LayerNormOptions& options = {},
                     Loc loc = std::source_location::current());
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor& v) {
    v("weight", weight);
    v("bias", bias);
  }

  Parameter weight;  ///< of `shape`: 1 at first; or undefined
  Parameter bias;    ///< of `shape`: 0 at first; or undefined
  double eps;

 private:
  Tensor one_;  // of `shape`, in the place of weight
};

}  // namespace dyad::nn
