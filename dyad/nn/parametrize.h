#pragma once

#include <string>
#include <utility>

#include "dyad/nn/visitor.h"

namespace dyad::nn {

// A layer whose weight is computed from other parameters: `WeightNorm(Linear(4, 3))` is called, and
// found in a model, like the layer; its own tensors keep their names, and what the weight is
// computed from has the names that PyTorch's parametrizations give it.

namespace detail {

/// weight = g * v / |v|, with the norm over all axes but one.
class WeightNormParameters {
 public:
  WeightNormParameters(const Tensor& weight, std::int64_t axis, Loc loc);
  [[nodiscard]] Tensor weight(Loc loc) const;
  void visit(Visitor& v) {
    v("parametrizations.weight.original0", g);
    v("parametrizations.weight.original1", v_);
  }

  Parameter g;   ///< the lengths: 1 along the other axes
  Parameter v_;  ///< the directions, of the shape of the weight
  std::int64_t axis;
};

/// weight / sigma, the largest singular value of the weight as a matrix whose rows are `axis`, by
/// power iteration.
class SpectralNormParameters {
 public:
  SpectralNormParameters(const Tensor& weight, std::int64_t iterations, std::int64_t axis,
                         double eps, Loc loc);
  [[nodiscard]] Tensor weight(Loc loc) const;
  void visit(Visitor& v) {
    v("parametrizations.weight.original", original);
    v("parametrizations.weight.0._u", left);
    v("parametrizations.weight.0._v", right);
    v("mode", mode);
  }

  Parameter original;
  Buffer left, right;  ///< the singular vectors so far
  Mode mode;
  std::int64_t iterations, axis;
  double eps;

 private:
  void iterate(const Tensor& matrix, std::int64_t count, Loc loc) const;
};

template <class L, class P>
class Parametrized {
 public:
  /// Calls the layer with the weight that its parameters give.
  template <class... In>
  auto operator()(const In&... inputs) const {
    L called = layer_;
    static_cast<Tensor&>(called.weight) = parameters.weight(Loc());
    return called(inputs...);
  }
  /// The weight as it is now.
  [[nodiscard]] Tensor weight(Loc loc = std::source_location::current()) const {
    return parameters.weight(loc);
  }
  void visit(Visitor& v) {
    nn::visit(layer_, v);
    parameters.visit(v);
  }

  P parameters;

 protected:
  Parametrized(L layer, P made) : parameters(std::move(made)), layer_(std::move(layer)) {
    layer_.weight = Parameter();
  }

 private:
  L layer_;  // without a weight
};

}  // namespace detail

/// Weight normalisation (Salimans and Kingma, 2016): the weight is g * v / |v|, with a length g for
/// each index along `axis`.
template <class L>
class WeightNorm : public detail::Parametrized<L, detail::WeightNormParameters> {
 public:
  explicit WeightNorm(L layer, std::int64_t axis = 0, Loc loc = std::source_location::current())
      : detail::Parametrized<L, detail::WeightNormParameters>(layer, {layer.weight, axis, loc}) {}
};

struct SpectralNormOptions {
  std::int64_t iterations = 1;  ///< at each call in training
  std::int64_t axis = 0;        ///< of the weight, what the rows are; 1 for transposed convolutions
  double eps = 1e-12;
};

/// Spectral normalisation (Miyato et al., 2018): the weight is divided by its largest singular
/// value, which a step of power iteration follows at each call in training mode. ShapeError for a
/// weight of fewer than two axes, ValueError for fewer than one iteration.
template <class L>
class SpectralNorm : public detail::Parametrized<L, detail::SpectralNormParameters> {
 public:
  explicit SpectralNorm(L layer, const SpectralNormOptions& options = {},
                        Loc loc = std::source_location::current())
      : detail::Parametrized<L, detail::SpectralNormParameters>(
            layer, {layer.weight, options.iterations, options.axis, options.eps, loc}) {}
};

}  // namespace dyad::nn
