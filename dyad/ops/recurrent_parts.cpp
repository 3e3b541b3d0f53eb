#include "dyad/ops/recurrent_parts.h"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "dyad/ops/activation.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/linalg.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/views.h"

namespace dyad::ops {
namespace {

struct NamedActivation {
  std::string_view name;
  Activation defaults;
  int numbers;
};
constexpr NamedActivation kActivations[] = {
    {"relu", {Activation::Kind::relu}, 0},
    {"tanh", {Activation::Kind::tanh}, 0},
    {"sigmoid", {Activation::Kind::sigmoid}, 0},
    {"affine", {Activation::Kind::affine, 1, 0}, 2},
    {"leaky_relu", {Activation::Kind::leaky_relu, 0.01}, 1},
    {"thresholded_relu", {Activation::Kind::thresholded_relu, 1}, 1},
    {"scaled_tanh", {Activation::Kind::scaled_tanh, 1, 1}, 2},
    {"hard_sigmoid", {Activation::Kind::hard_sigmoid, 0.2, 0.5}, 2},
    {"elu", {Activation::Kind::elu, 1}, 1},
    {"softsign", {Activation::Kind::softsign}, 0},
    {"softplus", {Activation::Kind::softplus}, 0},
};

Tensor activated(const Activation& f, const Tensor& x) {
  switch (f.kind) {
    case Activation::Kind::relu:
      return relu(x);
    case Activation::Kind::tanh:
      return tanh(x);
    case Activation::Kind::sigmoid:
      return sigmoid(x);
    case Activation::Kind::affine:
      return x * f.alpha + f.beta;
    case Activation::Kind::leaky_relu:
      return where(x > 0, x, x * f.alpha);
    case Activation::Kind::thresholded_relu:
      return where(x > f.alpha, x, 0);
    case Activation::Kind::scaled_tanh:
      return tanh(x * f.beta) * f.alpha;
    case Activation::Kind::hard_sigmoid:
      return clamp(x * f.alpha + f.beta, 0, 1);
    case Activation::Kind::elu:
      return where(x > 0, x, expm1(minimum(x, 0)) * f.alpha);
    case Activation::Kind::softsign:
      return x / (1 + abs(x));
    case Activation::Kind::softplus:
      return relu(x) + log1p(exp(-abs(x)));
  }
  return x;
}

/// A step's inputs and states; computes in the dtype of the weights.
class Cell {
 public:
  Cell(const RecurrentAttrs& attrs, TensorRefs in, DType dtype) : attrs_(attrs) {
    std::string problem;
    f_ = parse_activations(attrs, problem);
    for (std::size_t i = 0; i < 9; ++i) {
      if (i < in.size() && in[i]->defined()) in_[i] = i == 5 ? *in[i] : to(*in[i], dtype);
    }
  }

  [[nodiscard]] const Tensor& input(std::size_t i) const { return in_[i]; }
  [[nodiscard]] int gates() const { return gates_of(attrs_.cell); }

  /// Gates after their activations; sets h and c to the next ones, and `hidden_part` for a gru.
  Tensor step(const Tensor& from_x, Tensor& h, Tensor& c, Tensor& hidden_part) const {
    if (attrs_.cell == "gru") return step_gru(from_x, h, hidden_part);
    const Tensor sums = from_x + linear(h, in_[2], in_[4]);
    if (attrs_.cell == "rnn") return h = gate(0, sums);
    std::vector<Tensor> z = chunk(sums, 4, -1);
    std::vector<Tensor> p;
    if (in_[8].defined()) p = chunk(in_[8], 3);
    const auto peep = [&](const Tensor& x, std::size_t k, const Tensor& cell) {
      return p.empty() ? x : x + p[k] * cell;
    };
    const Tensor i = gate(0, peep(z[0], 0, c)), g = gate(1, z[2]);
    const Tensor f = attrs_.input_forget ? 1 - i : gate(0, peep(z[1], 2, c));
    c = f * c + i * g;
    const Tensor o = gate(0, peep(z[3], 1, c));
    h = o * activated(f_[2], c);
    return concat({i, f, g, o}, -1);
  }

 private:
  [[nodiscard]] Tensor gate(std::size_t k, const Tensor& x) const {
    return activated(f_[k], attrs_.clip > 0 ? clamp(x, -attrs_.clip, attrs_.clip) : x);
  }
  Tensor step_gru(const Tensor& from_x, Tensor& h, Tensor& hidden_part) const {
    const std::vector<Tensor> x = chunk(from_x, 3, -1), w = chunk(in_[2], 3);
    std::vector<Tensor> b(3);
    if (in_[4].defined()) b = chunk(in_[4], 3);
    const Tensor r = gate(0, x[0] + linear(h, w[0], b[0]));
    const Tensor z = gate(0, x[1] + linear(h, w[1], b[1]));
    Tensor n;
    if (attrs_.linear_before_reset) {
      hidden_part = linear(h, w[2], b[2]);
      n = gate(1, x[2] + r * hidden_part);
    } else {
      n = gate(1, x[2] + linear(r * h, w[2], b[2]));
    }
    h = (1 - z) * n + z * h;
    return concat({r, z, n}, -1);
  }

  const RecurrentAttrs& attrs_;
  std::vector<Activation> f_;
  Tensor in_[9];
};

}  // namespace

int gates_of(std::string_view cell) noexcept {
  return cell == "lstm" ? 4 : cell == "gru" ? 3 : cell == "rnn" ? 1 : 0;
}

std::vector<Activation> parse_activations(const RecurrentAttrs& attrs, std::string& problem) {
  const std::size_t wanted = attrs.cell == "lstm" ? 3 : attrs.cell == "gru" ? 2 : 1;
  std::string text = attrs.activations;
  if (text.empty())
    text = wanted == 3 ? "sigmoid tanh tanh" : wanted == 2 ? "sigmoid tanh" : "tanh";
  std::vector<Activation> found;
  for (std::size_t at = 0; problem.empty();) {
    at = text.find_first_not_of(' ', at);
    if (at == std::string::npos) break;
    const std::size_t end = std::min(text.find_first_of(" (", at), text.size());
    const std::string name = text.substr(at, end - at);
    const auto* known = std::find_if(std::begin(kActivations), std::end(kActivations),
                                     [&](const NamedActivation& a) { return a.name == name; });
    at = end;
    if (known == std::end(kActivations)) {
      problem = "activations: there is no \"" + name + "\"; the names are";
      for (const NamedActivation& a : kActivations) problem += " " + std::string(a.name);
      break;
    }
    Activation f = known->defaults;
    if (at < text.size() && text[at] == '(') {
      const std::size_t close = text.find(')', at);
      double* const numbers[] = {&f.alpha, &f.beta};
      int count = 0;
      bool good = close != std::string::npos;
      for (const char* p = text.data() + at + 1; good && p < text.data() + close;) {
        if (*p == ' ' || *p == ',') {
          ++p;
          continue;
        }
        good = count < known->numbers;
        if (!good) break;
        const auto [next, error] = std::from_chars(p, text.data() + close, *numbers[count++]);
        good = error == std::errc();
        p = next;
      }
      if (!good) {
        problem = "activations: " + name + " takes " + std::to_string(known->numbers) +
                  " numbers in parentheses, \"" + text.substr(end) + "\" is something else";
        break;
      }
      at = close + 1;
    }
    const bool by_sign = f.kind == Activation::Kind::leaky_relu ||
                         f.kind == Activation::Kind::elu ||
                         f.kind == Activation::Kind::thresholded_relu;
    if (by_sign && f.alpha < 0) problem = "activations: alpha of " + name + " must not be negative";
    found.push_back(f);
  }
  if (problem.empty() && found.size() != wanted) {
    problem = "activations = \"" + attrs.activations + "\" must name " + std::to_string(wanted) +
              " for " + attrs.cell;
  }
  return found;
}

std::vector<Tensor> recurrent_parts(const RecurrentAttrs& attrs, TensorRefs in, Loc loc) {
  const DType outer = in[0]->dtype(), dtype = outer == f64 ? f64 : f32;
  const Cell cell(attrs, in, dtype);
  const Tensor& x = cell.input(0);
  const std::int64_t steps = x.size(0, loc).value(loc);
  const Dim hidden = cell.input(2).size(1, loc);
  const Shape state{x.size(1, loc), hidden};
  Tensor h = cell.input(6).defined() ? cell.input(6) : zeros(state, dtype);
  Tensor c = cell.input(7).defined() ? cell.input(7) : zeros(state, dtype);
  const Tensor from_x = linear(x, cell.input(1), cell.input(3));
  const auto count = static_cast<std::size_t>(steps);
  std::vector<Tensor> y(count), gates(count), cells(count);
  for (std::int64_t s = 0; s < steps; ++s) {
    const std::int64_t t = attrs.reverse ? steps - 1 - s : s;
    const auto at = static_cast<std::size_t>(t);
    Tensor next_h = h, next_c = c, hidden_part;
    gates[at] = cell.step(select(from_x, 0, t), next_h, next_c, hidden_part);
    cells[at] = attrs.cell == "gru" ? hidden_part : next_c;
    y[at] = next_h;
    if (cell.input(5).defined()) {
      const Tensor active = unsqueeze(cell.input(5) > t, 1);
      y[at] = where(active, next_h, 0);
      gates[at] = where(active, gates[at], 0);
      if (cells[at].defined()) cells[at] = where(active, cells[at], 0);
      next_h = where(active, next_h, h);
      next_c = where(active, next_c, c);
    }
    h = next_h;
    c = next_c;
  }
  const Tensor none = zeros({0}, dtype);
  const bool lstm = attrs.cell == "lstm";
  const auto all = [&](const std::vector<Tensor>& parts, Dim width) {
    return parts.empty() ? zeros({0, state[0], width}, dtype) : stack(parts);
  };
  const bool has_cells = lstm || (attrs.cell == "gru" && attrs.linear_before_reset);
  return {to(all(y, hidden), outer), to(h, outer), to(lstm ? c : none, outer),
          all(gates, hidden * cell.gates()), has_cells ? all(cells, hidden) : none};
}

}  // namespace dyad::ops
