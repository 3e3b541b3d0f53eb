#pragma once

#include <string_view>

#include "dyad/core/tensor.h"

namespace dyad::nn::init {

// Initial values: always computed at once, with the default generator (`manual_seed`), also while a
// graph is defined or a function recorded, so that parameters are tensors with data.

[[nodiscard]] Tensor uniform(const Shape& shape, double bound, DType dtype = f32,
                             Loc loc = std::source_location::current());
[[nodiscard]] Tensor normal(const Shape& shape, double std, DType dtype = f32,
                            Loc loc = std::source_location::current());
[[nodiscard]] Tensor full(const Shape& shape, double value, DType dtype = f32,
                          Loc loc = std::source_location::current());

/// Evenly in +-1/sqrt(fan_in): He's rule with a = sqrt(5) (He et al., 2015), as PyTorch starts
/// linear and convolution layers.
[[nodiscard]] Tensor fan_in_uniform(const Shape& shape, std::int64_t fan_in, DType dtype = f32,
                                    Loc loc = std::source_location::current());

// The same in place, for a parameter that exists: `nn::init::kaiming_normal_(layer.weight)`. Each
// gives its tensor. Names, defaults and formulas are PyTorch's.

Tensor& uniform_(Tensor& x, double low = 0, double high = 1,
                 Loc loc = std::source_location::current());
Tensor& normal_(Tensor& x, double mean = 0, double std = 1,
                Loc loc = std::source_location::current());
/// Normal, but only from [low, high]. ValueError unless low < high and std is above 0.
Tensor& truncated_normal_(Tensor& x, double mean = 0, double std = 1, double low = -2,
                          double high = 2, Loc loc = std::source_location::current());
Tensor& constant_(Tensor& x, double value, Loc loc = std::source_location::current());
Tensor& ones_(Tensor& x, Loc loc = std::source_location::current());
Tensor& zeros_(Tensor& x, Loc loc = std::source_location::current());
/// Ones on the diagonal of a matrix (ShapeError for other ranks), zeros elsewhere.
Tensor& eye_(Tensor& x, Loc loc = std::source_location::current());
/// A convolution's weight [out, in, kernel...] that passes on its input: 1 at [i, i, middle...] in
/// each group. ShapeError unless it has 3 to 5 axes, ValueError unless groups divide out.
Tensor& dirac_(Tensor& x, std::int64_t groups = 1, Loc loc = std::source_location::current());
/// Normal with a share of zeros in each column of a matrix (Martens, 2010). ShapeError for other
/// ranks, ValueError unless 0 <= sparsity <= 1.
Tensor& sparse_(Tensor& x, double sparsity, double std = 0.01,
                Loc loc = std::source_location::current());
/// gain * Q of a random matrix [first axis, the others] (Saxe et al., 2014): orthonormal rows or
/// columns. ShapeError for less than two axes.
Tensor& orthogonal_(Tensor& x, double gain = 1, Loc loc = std::source_location::current());

/// How many inputs and outputs an element of a weight [out, in, kernel...] meets. ShapeError for
/// less than two axes.
struct Fan {
  std::int64_t in, out;
};
[[nodiscard]] Fan fan_of(const Tensor& weight, Loc loc = std::source_location::current());
/// What activations are to be scaled with to keep their variance: 1 for "linear", "sigmoid" and
/// convolutions, 5/3 for "tanh", sqrt(2) for "relu", sqrt(2 / (1 + slope^2)) for "leaky_relu", 3/4
/// for "selu". ValueError for other names.
[[nodiscard]] double gain_of(std::string_view nonlinearity, double slope = 0.01,
                             Loc loc = std::source_location::current());
/// Evenly in +-gain * sqrt(6 / (fan in + fan out)), or normal with gain * sqrt(2 / (fan in + fan
/// out)) (Glorot and Bengio, 2010).
Tensor& xavier_uniform_(Tensor& x, double gain = 1, Loc loc = std::source_location::current());
Tensor& xavier_normal_(Tensor& x, double gain = 1, Loc loc = std::source_location::current());

enum class FanMode { in, out };
struct KaimingOptions {
  double slope = 0;  ///< of leaky_relu below 0
  FanMode fan = FanMode::in;
  std::string_view nonlinearity = "leaky_relu";
};
/// Evenly in +-gain * sqrt(3 / fan), or normal with gain / sqrt(fan) (He et al., 2015).
Tensor& kaiming_uniform_(Tensor& x, const KaimingOptions& options = {},
                         Loc loc = std::source_location::current());
Tensor& kaiming_normal_(Tensor& x, const KaimingOptions& options = {},
                        Loc loc = std::source_location::current());

}  // namespace dyad::nn::init
