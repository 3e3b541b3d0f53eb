#pragma once

#include "dyad/nn/visitor.h"

namespace dyad::nn {

// Functions as layers, for Sequential and as members of a model: they hold settings only.

struct ReLU {
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
struct Tanh {
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
struct Sigmoid {
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
struct GELU {
  bool tanh_form = false;
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
struct SiLU {
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
struct SELU {
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
struct Mish {
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
struct Softsign {
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
struct Tanhshrink {
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
/// swish(x, alpha)
struct Swish {
  double alpha = 1;
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
/// hardsigmoid(x, alpha, beta)
struct Hardsigmoid {
  double alpha = 1.0 / 6;
  double beta = 0.5;
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
struct Hardswish {
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
struct ReLU6 {
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
struct LogSigmoid {
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
struct QuickGELU {
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
/// elu(x, alpha)
struct ELU {
  double alpha = 1;
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
/// celu(x, alpha)
struct CELU {
  double alpha = 1;
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
/// leaky_relu(x, slope)
struct LeakyReLU {
  double slope = 0.01;
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
/// softplus(x, beta)
struct Softplus {
  double beta = 1;
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
/// hardtanh(x, low, high)
struct Hardtanh {
  double low = -1;
  double high = 1;
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
/// hardshrink(x, lambda)
struct Hardshrink {
  double lambda = 0.5;
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
/// softshrink(x, lambda)
struct Softshrink {
  double lambda = 0.5;
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
/// where(x > threshold, x, value)
struct Threshold {
  double threshold;
  double value;
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
/// thresholded_relu(x, alpha)
struct ThresholdedReLU {
  double alpha = 1;
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
/// rrelu(x, low, high), random in training
struct RReLU {
  double low = 1.0 / 8;
  double high = 1.0 / 3;
  Mode mode = {};
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor& v) { v("mode", mode); }
};
/// glu(x, axis)
struct GLU {
  std::int64_t axis = -1;
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
/// swiglu(x, axis)
struct SwiGLU {
  std::int64_t axis = -1;
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
/// softmax(-x, axis)
struct Softmin {
  std::int64_t axis = -1;
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
/// softmax over the channels of x[n, c, h, w] or x[c, h, w]
struct Softmax2d {
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};

struct Softmax {
  std::int64_t axis = -1;
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
struct LogSoftmax {
  std::int64_t axis = -1;
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
/// hardmax(x, axis)
struct Hardmax {
  std::int64_t axis = -1;
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
/// The axes first to last as one: [n, c, h, w] -> [n, c*h*w].
struct Flatten {
  std::int64_t first = 1;
  std::int64_t last = -1;
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
struct Identity {
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};

/// x above 0, weight * x elsewhere, with slopes to learn: one, or one for each channel (axis 1).
class PReLU {
 public:
  /// ValueError for a count below 1.
  explicit PReLU(std::int64_t count = 1, double first = 0.25, DType dtype = f32,
                 Loc loc = std::source_location::current());
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor& v) { v("weight", weight); }

  Parameter weight;  ///< [count]
};

/// An axis as several: [n, c*d] -> [n, c, d] for the axis 1 and sizes {c, d}; one size may be -1.
struct Unflatten {
  std::int64_t axis;
  Shape sizes;
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};

}  // namespace dyad::nn
