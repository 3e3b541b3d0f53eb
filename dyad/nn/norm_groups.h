#pragma once

#include "dyad/nn/visitor.h"

namespace dyad::nn {

struct GroupNormOptions {
  double eps = 1e-5;
  bool affine = true;  ///< learn a scale and a shift for each channel
  DType dtype = f32;
};

/// Normalises the channels of x[n, c, ...] in groups (Wu and He, 2018).
class GroupNorm {
 public:
  /// ValueError for sizes below 1 and for channels that the groups do not divide.
  GroupNorm(std::int64_t groups, std::int64_t channels, const GroupNormOptions& options = {},
            Loc loc = std::source_location::current());
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor& v) {
    v("weight", weight);
    v("bias", bias);
  }

  Parameter weight, bias;  ///< [c]: 1 and 0 at first; or undefined
  std::int64_t groups;
  double eps;
};

struct InstanceNormOptions {
  double eps = 1e-5;
  bool affine = false;
  DType dtype = f32;
};

/// Normalises each channel of each sample of x[n, c, ...] (Ulyanov et al., 2016), by its own
/// statistics in training and eval mode alike.
class InstanceNorm {
 public:
  /// ValueError for a size below 1.
  explicit InstanceNorm(std::int64_t channels, const InstanceNormOptions& options = {},
                        Loc loc = std::source_location::current());
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor& v) {
    v("weight", weight);
    v("bias", bias);
  }

  Parameter weight, bias;  ///< [c]: 1 and 0 at first; or undefined
  double eps;
};
using InstanceNorm1d = InstanceNorm;
using InstanceNorm2d = InstanceNorm;
using InstanceNorm3d = InstanceNorm;

/// Divides each sample by the root mean square over its last axis, of size `size`, and multiplies
/// by learned numbers (Zhang and Sennrich, 2019).
class RMSNorm {
 public:
  /// ValueError for a size below 1.
  explicit RMSNorm(std::int64_t size, double eps = 1e-5, DType dtype = f32,
                   Loc loc = std::source_location::current());
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor& v) { v("weight", weight); }

  Parameter weight;  ///< [size]: 1 at first
  double eps;
};

/// x / (k + alpha / size * sum of squares over `size` neighbouring channels)^beta (Krizhevsky et
/// al., 2012).
struct LocalResponseNorm {
  std::int64_t size;
  double alpha = 1e-4, beta = 0.75, k = 1;
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};

}  // namespace dyad::nn
