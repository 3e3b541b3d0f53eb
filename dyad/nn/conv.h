#pragma once

#include "dyad/nn/visitor.h"

namespace dyad::nn {

struct Conv2dOptions {
  Pair stride = 1;
  Pair padding = 0;
  Pair dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
  DType dtype = f32;
};

/// Convolution of images: x[n, in, h, w] -> [n, out, oh, ow], see conv2d. Starts evenly in
/// +-1/sqrt(in / groups * kernel).
class Conv2d {
 public:
  /// ValueError for sizes below 1 and for channels that groups do not divide.
  Conv2d(std::int64_t in, std::int64_t out, Pair kernel, const Conv2dOptions& options = {},
         Loc loc = std::source_location::current());
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor& v) {
    v("weight", weight);
    v("bias", bias);
  }

  Parameter weight;  ///< [out, in / groups, kernel rows, kernel columns]
  Parameter bias;    ///< [out], or undefined
  Pair stride, padding, dilation;
  std::int64_t groups;
};

/// The largest of each window of x[n, c, h, w]; stride 0 means the kernel's size.
class MaxPool2d {
 public:
  explicit MaxPool2d(Pair kernel, Pair stride = 0, Pair padding = 0)
      : kernel(kernel), stride(stride), padding(padding) {}
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}

  Pair kernel, stride, padding;
};

/// The mean of each window of x[n, c, h, w]; stride 0 means the kernel's size.
class AvgPool2d {
 public:
  explicit AvgPool2d(Pair kernel, Pair stride = 0, Pair padding = 0)
      : kernel(kernel), stride(stride), padding(padding) {}
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}

  Pair kernel, stride, padding;
};

}  // namespace dyad::nn
