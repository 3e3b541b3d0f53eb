#include "dyad/nn/recurrent.h"

#include <fmt/format.h>

#include "dyad/base/error.h"
#include "dyad/nn/checks.h"
#include "dyad/nn/init.h"
#include "dyad/ops/activation.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/linalg.h"
#include "dyad/ops/views.h"

namespace dyad::nn {
namespace {

/// The state that is given, or zeros beside x.
Tensor state_or_zeros(const Tensor& state, const Tensor& x, const Parameter& weight_hh, Loc loc) {
  if (state.defined()) return state;
  Shape shape;
  for (int axis = 0; axis + 1 < x.rank(); ++axis) shape.push_back(x.size(axis, loc));
  shape.push_back(weight_hh.shape().back());
  return zeros(shape, weight_hh.dtype(), loc);
}

bool is_relu_of(const std::string& activation, Loc loc) {
  if (activation != "tanh" && activation != "relu") {
    throw ValueError(
        fmt::format("RNNCell: activation must be \"tanh\" or \"relu\", found \"{}\"", activation),
        loc.user());
  }
  return activation == "relu";
}

}  // namespace

CellParameters::CellParameters(std::string_view cell, std::int64_t gates, std::int64_t in,
                               std::int64_t hidden, const CellOptions& options, Loc loc) {
  require_positive(cell, {{"in", in}, {"hidden", hidden}}, loc);
  const std::int64_t rows = gates * hidden;
  const auto start = [&](const Shape& shape) {
    return Parameter(init::fan_in_uniform(shape, hidden, options.dtype, loc), loc);
  };
  weight_ih = start({rows, in});
  weight_hh = start({rows, hidden});
  if (options.bias) {
    bias_ih = start({rows});
    bias_hh = start({rows});
  }
}

RNNCell::RNNCell(std::int64_t in, std::int64_t hidden, const RnnCellOptions& options, Loc loc)
    : CellParameters("RNNCell", 1, in, hidden, {.bias = options.bias, .dtype = options.dtype}, loc),
      is_relu(is_relu_of(options.activation, loc)) {}

Tensor RNNCell::operator()(const Tensor& x, const Tensor& given, Loc loc) const {
  const LocScope scope(loc);
  const Tensor h = state_or_zeros(given, x, weight_hh, loc);
  const Tensor entering =
      add(linear(x, weight_ih, bias_ih, loc), linear(h, weight_hh, bias_hh, loc), loc);
  return is_relu ? relu(entering, loc) : tanh(entering, loc);
}

std::pair<Tensor, Tensor> LSTMCell::operator()(const Tensor& x, const Tensor& given_h,
                                               const Tensor& given_c, Loc loc) const {
  const LocScope scope(loc);
  const Tensor h = state_or_zeros(given_h, x, weight_hh, loc);
  const Tensor c = state_or_zeros(given_c, x, weight_hh, loc);
  const Tensor gates =
      add(linear(x, weight_ih, bias_ih, loc), linear(h, weight_hh, bias_hh, loc), loc);
  const std::vector<Tensor> part = chunk(gates, 4, -1, loc);
  const Tensor kept = mul(sigmoid(part[1], loc), c, loc);
  const Tensor added = mul(sigmoid(part[0], loc), tanh(part[2], loc), loc);
  Tensor next_c = add(kept, added, loc);
  Tensor next_h = mul(sigmoid(part[3], loc), tanh(next_c, loc), loc);
  return {std::move(next_h), std::move(next_c)};
}

Tensor GRUCell::operator()(const Tensor& x, const Tensor& given, Loc loc) const {
  const LocScope scope(loc);
  const Tensor h = state_or_zeros(given, x, weight_hh, loc);
  const std::vector<Tensor> from_x = chunk(linear(x, weight_ih, bias_ih, loc), 3, -1, loc);
  const std::vector<Tensor> from_h = chunk(linear(h, weight_hh, bias_hh, loc), 3, -1, loc);
  const Tensor r = sigmoid(add(from_x[0], from_h[0], loc), loc);
  const Tensor z = sigmoid(add(from_x[1], from_h[1], loc), loc);
  const Tensor n = tanh(add(from_x[2], mul(r, from_h[2], loc), loc), loc);
  return add(mul(sub(1, z, loc), n, loc), mul(z, h, loc), loc);
}

}  // namespace dyad::nn
