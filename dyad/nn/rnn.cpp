#include "dyad/nn/rnn.h"

#include <fmt/format.h>

#include "dyad/base/error.h"
#include "dyad/nn/checks.h"
#include "dyad/nn/dropout.h"
#include "dyad/nn/init.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/random.h"
#include "dyad/ops/views.h"

namespace dyad::nn {

RecurrentNetwork::RecurrentNetwork(std::string_view cell, std::int64_t gates, std::int64_t in,
                                   std::int64_t hidden, const RnnOptions& given, Loc loc)
    : options(given), cell_(cell) {
  require_positive(cell, {{"in", in}, {"hidden", hidden}, {"layers", options.layers}}, loc);
  detail::require_probability(cell, options.dropout, loc, "dropout");
  const std::int64_t rows = gates * hidden;
  const auto start = [&](const Shape& shape) {
    return Parameter(init::fan_in_uniform(shape, hidden, options.dtype, loc), loc);
  };
  for (std::int64_t layer = 0; layer < options.layers; ++layer) {
    const std::int64_t width = layer == 0 ? in : hidden * static_cast<std::int64_t>(directions());
    for (std::size_t d = 0; d < directions(); ++d) {
      Direction& part = parts_.emplace_back();
      part.suffix = fmt::format("l{}{}", layer, d == 1 ? "_reverse" : "");
      part.weight_ih = start({rows, width});
      part.weight_hh = start({rows, hidden});
      if (!options.bias) continue;
      part.bias_ih = start({rows});
      part.bias_hh = start({rows});
    }
  }
}

void RecurrentNetwork::visit(Visitor& v) {
  for (Direction& part : parts_) {
    v("weight_ih_" + part.suffix, part.weight_ih);
    v("weight_hh_" + part.suffix, part.weight_hh);
    v("bias_ih_" + part.suffix, part.bias_ih);
    v("bias_hh_" + part.suffix, part.bias_hh);
  }
  v("mode", mode);
}

void RecurrentNetwork::check_state(const Tensor& state, std::string_view name, bool one_sample,
                                   Loc loc) const {
  if (!state.defined()) return;
  const auto count = static_cast<std::int64_t>(parts_.size());
  if (state.rank() == (one_sample ? 2 : 3) && state.size(0, loc) == Dim(count)) return;
  throw ShapeError(
      fmt::format("{}: {} must be [{}, {}hidden], a state for each layer and direction, found {}",
                  cell_, name, count, one_sample ? "" : "n, ", type_string(state)),
      loc.user());
}

RnnResult RecurrentNetwork::operator()(const Tensor& x, const RnnState& state, Loc loc) const {
  const LocScope scope(loc);
  const bool one_sample = x.rank() == 2;
  check_state(state.h, "h", one_sample, loc);
  check_state(state.c, "c", one_sample, loc);
  const auto with_samples = [&](const Tensor& t, std::int64_t axis) {
    return one_sample && t.defined() ? unsqueeze(t, axis, loc) : t;
  };
  Tensor y = with_samples(x, options.batch_first ? 0 : 1);
  if (options.batch_first) y = transpose(y, 0, 1, loc);
  const Tensor h0 = with_samples(state.h, 1), c0 = with_samples(state.c, 1);
  const bool lstm_cell = cell_ == "lstm";
  std::vector<Tensor> h, c;
  for (std::size_t first = 0; first < parts_.size(); first += directions()) {
    if (first > 0) y = dropout(y, options.dropout, mode.training(), loc);
    std::vector<Tensor> both;
    for (std::size_t d = 0; d < directions(); ++d) {
      const Direction& part = parts_[first + d];
      const auto at = static_cast<std::int64_t>(first + d);
      const RecurrentArgs args{.lengths = state.lengths,
                               .h0 = h0.defined() ? select(h0, 0, at, loc) : Tensor(),
                               .c0 = c0.defined() ? select(c0, 0, at, loc) : Tensor(),
                               .reverse = d == 1,
                               .activations = options.activations};
      const auto call = lstm_cell ? &lstm : cell_ == "gru" ? &gru : &rnn;
      const RecurrentResult made =
          call(y, part.weight_ih, part.weight_hh, part.bias_ih, part.bias_hh, args, loc);
      both.push_back(made.y);
      h.push_back(made.h);
      if (lstm_cell) c.push_back(made.c);
    }
    y = both.size() == 1 ? both[0] : concat(both, -1, loc);
  }
  if (options.batch_first) y = transpose(y, 0, 1, loc);
  const auto together = [&](const std::vector<Tensor>& states) {
    if (states.empty()) return Tensor();
    const Tensor all = stack(states, 0, loc);
    return one_sample ? squeeze(all, 1, loc) : all;
  };
  if (one_sample) y = squeeze(y, options.batch_first ? 0 : 1, loc);
  return {y, together(h), together(c)};
}

}  // namespace dyad::nn
