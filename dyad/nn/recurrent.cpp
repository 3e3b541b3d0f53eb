#include "dyad/nn/recurrent.h"

#include "dyad/nn/checks.h"
#include "dyad/nn/init.h"
#include "dyad/ops/activation.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/linalg.h"
#include "dyad/ops/views.h"

namespace dyad::nn {

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

std::pair<Tensor, Tensor> LSTMCell::operator()(const Tensor& x, const Tensor& h, const Tensor& c,
                                               Loc loc) const {
  const LocScope scope(loc);
  const Tensor gates =
      add(linear(x, weight_ih, bias_ih, loc), linear(h, weight_hh, bias_hh, loc), loc);
  const std::vector<Tensor> part = chunk(gates, 4, -1, loc);
  const Tensor kept = mul(sigmoid(part[1], loc), c, loc);
  const Tensor added = mul(sigmoid(part[0], loc), tanh(part[2], loc), loc);
  Tensor next_c = add(kept, added, loc);
  Tensor next_h = mul(sigmoid(part[3], loc), tanh(next_c, loc), loc);
  return {std::move(next_h), std::move(next_c)};
}

Tensor GRUCell::operator()(const Tensor& x, const Tensor& h, Loc loc) const {
  const LocScope scope(loc);
  const std::vector<Tensor> from_x = chunk(linear(x, weight_ih, bias_ih, loc), 3, -1, loc);
  const std::vector<Tensor> from_h = chunk(linear(h, weight_hh, bias_hh, loc), 3, -1, loc);
  const Tensor r = sigmoid(add(from_x[0], from_h[0], loc), loc);
  const Tensor z = sigmoid(add(from_x[1], from_h[1], loc), loc);
  const Tensor n = tanh(add(from_x[2], mul(r, from_h[2], loc), loc), loc);
  return add(mul(sub(1, z, loc), n, loc), mul(z, h, loc), loc);
}

}  // namespace dyad::nn
