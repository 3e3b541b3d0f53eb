#pragma once

#include <string_view>

#include "dyad/nn/visitor.h"
#include "dyad/ops/layers.h"
#include "dyad/ops/random.h"

namespace dyad::nn {
namespace detail {

/// ValueError naming the layer unless `p`, the argument of that name, is from 0 to 1.
void require_probability(std::string_view layer, double p, Loc loc, std::string_view name = "p");

/// A layer that drops something in training and changes nothing in eval mode.
template <class Self, auto Drop>
class DropoutLayer {
 public:
  /// ValueError unless 0 <= p <= 1.
  explicit DropoutLayer(double p = 0.5, Loc loc = std::source_location::current()) : p(p) {
    require_probability(class_name<Self>(), p, loc);
  }
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const {
    return Drop(x, p, mode.training(), loc);
  }
  void visit(Visitor& v) { v("mode", mode); }

  double p;
  Mode mode;
};

}  // namespace detail

/// In training each element is 0 with the probability p, the others are scaled by 1 / (1 - p); in
/// eval mode nothing changes (Srivastava et al., 2014).
class Dropout : public detail::DropoutLayer<Dropout, &dropout> {
 public:
  using DropoutLayer::DropoutLayer;
};
/// The same of whole channels of x[n, c, ...]: see feature_dropout().
class FeatureDropout : public detail::DropoutLayer<FeatureDropout, &feature_dropout> {
 public:
  using DropoutLayer::DropoutLayer;
};
using Dropout1d = FeatureDropout;
using Dropout2d = FeatureDropout;
using Dropout3d = FeatureDropout;
/// alpha_dropout(): keeps mean 0 and variance 1.
class AlphaDropout : public detail::DropoutLayer<AlphaDropout, &alpha_dropout> {
 public:
  using DropoutLayer::DropoutLayer;
};
class FeatureAlphaDropout
    : public detail::DropoutLayer<FeatureAlphaDropout, &feature_alpha_dropout> {
 public:
  using DropoutLayer::DropoutLayer;
};

}  // namespace dyad::nn
