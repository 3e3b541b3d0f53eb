#include "dyad/runtime/cpu/recurrent.h"

#include <memory>
#include <string>
#include <type_traits>

#include "dyad/base/error.h"
#include "dyad/runtime/cpu/cast.h"
#include "dyad/runtime/cpu/copy.h"
#include "dyad/runtime/cpu/element.h"
#include "dyad/runtime/cpu/gemm.h"
#include "dyad/runtime/cpu/kernels.h"
#include "dyad/runtime/cpu/lstm_rows.h"
#include "dyad/runtime/cpu/packed_product.h"
#include "dyad/runtime/cpu/panel_product.h"
#include "dyad/runtime/cpu/recurrent_activation.h"
#include "dyad/runtime/cpu/vector_clones.h"
#include "dyad/runtime/threads.h"

// A step multiplies x and h, or the product with x is one for all steps and a step adds its product
// with h; then it runs each sample's cell over rows that are in cache. Threads take samples of
// their own through all steps where there are enough of them.

namespace dyad::runtime::cpu {

RecurrentLayer::RecurrentLayer(const OpCall& call, std::size_t first)
    : attrs(call.attrs_as<ops::RecurrentAttrs>()),
      cell(attrs.cell == "lstm"  ? Cell::lstm
           : attrs.cell == "gru" ? Cell::gru
                                 : Cell::rnn),
      hidden(call.inputs[first + 2].impl()->shape[1].number()),
      gates(ops::gates_of(attrs.cell)) {
  std::string problem;
  f = ops::parse_activations(attrs, problem);
  const auto given = [&](std::size_t i) {
    return first + i < call.inputs.size() ? dense_computed(call.inputs[first + i]) : Tensor();
  };
  x = given(0);
  weight_ih = given(1);
  weight_hh = given(2);
  bias_ih = given(3);
  bias_hh = given(4);
  h0 = given(6);
  c0 = given(7);
  peephole = given(8);
  const auto sizes = x.impl()->shape.numbers();
  steps = sizes[0];
  samples = sizes[1];
  width = sizes[2];
  lengths.assign(static_cast<std::size_t>(samples), steps);
  if (const Tensor counts = given(5); counts.defined()) {
    with_index(counts.dtype(), [&]<class I>(I) {
      std::copy_n(elements_of<const I>(counts), samples, lengths.begin());
    });
    for (const std::int64_t length : lengths) {
      if (length >= 0 && length <= steps) continue;
      throw ValueError(attrs.cell + ": lengths must be from 0 to " + std::to_string(steps) +
                           ", the steps of x, but one is " + std::to_string(length),
                       call.loc);
    }
  }
}

bool RecurrentLayer::is_usual_lstm() const noexcept {
  using Kind = ops::Activation::Kind;
  return cell == Cell::lstm && f[0].kind == Kind::sigmoid && f[1].kind == Kind::tanh &&
         f[2].kind == Kind::tanh && attrs.clip == 0 && !attrs.input_forget && !peephole.defined();
}

std::int64_t RecurrentLayer::grain() const noexcept {
  const double flops = 120.0 * static_cast<double>(gate_width());
  return grain_for({.flops = flops}, samples);
}

std::int64_t RecurrentLayer::parts() const noexcept {
  constexpr std::int64_t kSteps = 4, kSamples = 4;
  const std::int64_t threads = team_size();
  const double flops = 2.0 * static_cast<double>(samples * gate_width() * hidden);
  const bool splits = steps >= kSteps && samples >= kSamples * threads &&
                      worth_a_team(flops * static_cast<double>(steps));
  return splits ? threads : 1;
}

namespace {

/// c = f c + i g over rows z = (i, f, g, o).
template <class T>
[[gnu::always_inline]] inline void next_cell_of(T* c, const T* z, std::int64_t n) {
  for (std::int64_t j = 0; j < n; ++j) c[j] = z[n + j] * c[j] + z[j] * z[2 * n + j];
}
DYAD_VECTOR_CLONES void next_cell(float* c, const float* z, std::int64_t n) {
  next_cell_of(c, z, n);
}
DYAD_VECTOR_CLONES void next_cell(double* c, const double* z, std::int64_t n) {
  next_cell_of(c, z, n);
}

/// to += a b.
template <class T>
[[gnu::always_inline]] inline void add_products_of(T* to, const T* a, const T* b, std::int64_t n) {
  for (std::int64_t j = 0; j < n; ++j) to[j] += a[j] * b[j];
}
DYAD_VECTOR_CLONES void add_products(float* to, const float* a, const float* b, std::int64_t n) {
  add_products_of(to, a, b, n);
}
DYAD_VECTOR_CLONES void add_products(double* to, const double* a, const double* b, std::int64_t n) {
  add_products_of(to, a, b, n);
}

/// h = (1 - z) n + z h.
template <class T>
[[gnu::always_inline]] inline void mix_of(T* h, const T* z, const T* n, std::int64_t count) {
  for (std::int64_t j = 0; j < count; ++j) h[j] = (1 - z[j]) * n[j] + z[j] * h[j];
}
DYAD_VECTOR_CLONES void mix(float* h, const float* z, const float* n, std::int64_t count) {
  mix_of(h, z, n, count);
}
DYAD_VECTOR_CLONES void mix(double* h, const double* z, const double* n, std::int64_t count) {
  mix_of(h, z, n, count);
}

/// A layer's products, kept where its weights are constants.
struct LayerProducts final : KernelMemo {
  /// Those of a part's steps.
  struct Steps {
    std::unique_ptr<PackedProduct> from_x, from_h, from_reset;
  };
  std::unique_ptr<PackedProduct> from_all_x;
  std::vector<Steps> parts;
};

template <class T>
class Forward {
 public:
  /// `products` are those of an earlier call on the same weights, or none.
  Forward(const RecurrentLayer& layer, LayerProducts& products, bool constant_weights, T* y,
          T* gates, T* cells)
      : l_(layer),
        products_(products),
        constant_weights_(constant_weights),
        y_(y),
        gates_(gates),
        cells_(cells),
        h_(state_of<T>(layer.h0, layer.samples * layer.hidden)),
        c_(state_of<T>(
            layer.c0, layer.cell == RecurrentLayer::Cell::lstm ? layer.samples * layer.hidden : 0)),
        is_usual_lstm_(layer.is_usual_lstm()),
        hidden_part_(layer.resets_after()
                         ? static_cast<std::size_t>(layer.samples * layer.gate_width())
                         : 0) {}

  void run() {
    if (!adds_both_at_once()) multiply_x();
    const std::int64_t parts = l_.parts();
    products_.parts.resize(static_cast<std::size_t>(parts));
    l_.each_part(parts, [&](const RecurrentLayer::Part& part) {
      run_steps(part, products_.parts[static_cast<std::size_t>(part.number)]);
    });
  }
  [[nodiscard]] const std::vector<T>& h() const noexcept { return h_; }
  [[nodiscard]] const std::vector<T>& c() const noexcept { return c_; }

 private:
  void run_steps(const RecurrentLayer::Part& part, LayerProducts::Steps& products) {
    const bool splits = l_.cell == RecurrentLayer::Cell::gru && !l_.resets_after();
    const std::int64_t n = l_.hidden, rows = splits ? 2 * n : l_.gate_width(), m = part.samples();
    const T* weight = elements_of<const T>(l_.weight_hh);
    PackedProduct& from_h = product(products.from_h, m, rows, n, weight);
    PackedProduct& from_reset =
        product(products.from_reset, m, splits ? n : 0, n, weight + 2 * n * n);
    std::vector<T> reset(splits ? static_cast<std::size_t>(m * n) : 0);
    const std::vector<T> both = adds_both_at_once() ? bias() : std::vector<T>();
    const T* const h = h_.data() + part.first * n;
    for (std::int64_t s = 0; s < l_.steps; ++s) {
      const std::int64_t t = l_.step(s);
      T* const gates = gates_at(t, part.first);
      if (l_.resets_after()) {
        fill_biases(part);
        from_h.add(h, n, hidden_part_.data() + part.first * rows, rows);
      } else if (adds_both_at_once()) {
        product(products.from_x, m, rows, l_.width, elements_of<const T>(l_.weight_ih))
            .set(elements_of<const T>(l_.x) + (t * l_.samples + part.first) * l_.width, l_.width,
                 from_h, h, n, both.data(), gates, rows);
      } else {
        from_h.add(h, n, gates, l_.gate_width());
      }
      if (splits) {
        l_.each_sample(part, [&](std::int64_t i) {
          prepare_reset(t, i, reset.data() + (i - part.first) * n);
        });
        from_reset.add(reset.data(), n, gates + 2 * n, l_.gate_width());
      }
      l_.each_sample(part, [&](std::int64_t i) { step(t, i); });
    }
  }

  /// Products of m rows with `n` rows of k weights each: those held, if they are such.
  PackedProduct& product(std::unique_ptr<PackedProduct>& held, std::int64_t m, std::int64_t n,
                         std::int64_t k, const T* weight) {
    if (!held || !held->fits(m)) {
      held =
          std::make_unique<PackedProduct>(dtype_of<T>, m, n, k, weight, k, true, constant_weights_);
    }
    return *held;
  }

  /// Whether gates are one sum of both products, and not read again to add the one with h: where
  /// nothing comes between, and a step has rows enough to repay reading the weights of x.
  [[nodiscard]] bool adds_both_at_once() const noexcept {
    if (!std::is_same_v<T, float> || l_.cell == RecurrentLayer::Cell::gru) return false;
    constexpr std::int64_t kRows = 16;
    return l_.steps == 1 ||
           (l_.samples >= kRows && takes_panels(l_.samples, l_.gate_width(), l_.width) &&
            takes_panels(l_.samples, l_.gate_width(), l_.hidden));
  }

  /// What gates begin with: the biases, those of the hidden part too where nothing comes between.
  [[nodiscard]] std::vector<T> bias() const {
    const std::int64_t rows = l_.gate_width();
    std::vector<T> sum(static_cast<std::size_t>(rows));
    const auto add = [&](const Tensor& b) {
      if (!b.defined()) return;
      for (std::int64_t j = 0; j < rows; ++j) {
        sum[static_cast<std::size_t>(j)] += elements_of<const T>(b)[j];
      }
    };
    add(l_.bias_ih);
    if (!l_.resets_after()) add(l_.bias_hh);
    return sum;
  }

  /// Gates begin as weight_ih x + biases.
  void multiply_x() {
    const std::int64_t rows = l_.gate_width(), m = l_.steps * l_.samples;
    const T *x = elements_of<const T>(l_.x), *weight = elements_of<const T>(l_.weight_ih);
    if (m == 0 || rows == 0) return;
    if constexpr (std::is_same_v<T, double>) {
      gemm({.dtype = dtype_of<T>,
            .m = m,
            .n = rows,
            .k = l_.width,
            .a_row = l_.width,
            .a_column = 1,
            .b_row = 1,
            .b_column = l_.width,
            .c_row = rows},
           x, weight, bias().data(), gates_);
    } else {
      product(products_.from_all_x, m, rows, l_.width, weight)
          .set(x, l_.width, bias().data(), gates_, rows);
    }
  }

  void fill_biases(const RecurrentLayer::Part& part) {
    const T* bias = elements_of<const T>(l_.bias_hh);
    const std::int64_t rows = l_.gate_width();
    for (std::int64_t i = part.first; i < part.end; ++i) {
      T* const to = hidden_part_.data() + i * rows;
      if (bias == nullptr) {
        std::fill_n(to, rows, T{});
      } else {
        std::copy_n(bias, rows, to);
      }
    }
  }

  T* gates_at(std::int64_t t, std::int64_t i) {
    return gates_ + (t * l_.samples + i) * l_.gate_width();
  }

  /// A gru's r and z of a sample, and its r h.
  void prepare_reset(std::int64_t t, std::int64_t i, T* reset) {
    T* z = gates_at(t, i);
    const std::int64_t n = l_.hidden;
    activate(l_.f[0], l_.attrs.clip, z, 2 * n);
    std::fill_n(reset, n, T{});
    add_products(reset, z, h_.data() + i * n, n);
  }

  void step(std::int64_t t, std::int64_t i) {
    const std::int64_t n = l_.hidden, at = (t * l_.samples + i) * n;
    if (!l_.active(t, i)) {
      std::fill_n(gates_at(t, i), l_.gate_width(), T{});
      std::fill_n(y_ + at, n, T{});
      if (cells_ != nullptr) std::fill_n(cells_ + at, n, T{});
      return;
    }
    T* h = h_.data() + i * n;
    if (is_usual_lstm_) {
      lstm_row(LstmRow<T>{gates_at(t, i), c_.data() + i * n, h, y_ + at, cells_ + at}, n);
      return;
    }
    switch (l_.cell) {
      case RecurrentLayer::Cell::rnn:
        activate(l_.f[0], l_.attrs.clip, gates_at(t, i), n);
        std::copy_n(gates_at(t, i), n, h);
        break;
      case RecurrentLayer::Cell::lstm:
        step_lstm(gates_at(t, i), h, c_.data() + i * n);
        std::copy_n(c_.data() + i * n, n, cells_ + at);
        break;
      case RecurrentLayer::Cell::gru:
        step_gru(gates_at(t, i), h, i, at);
        break;
    }
    std::copy_n(h, n, y_ + at);
  }

  void step_lstm(T* z, T* h, T* c) {
    const std::int64_t n = l_.hidden;
    const T* p = elements_of<const T>(l_.peephole);  // i, o, f
    const bool coupled = l_.attrs.input_forget;
    if (p != nullptr) {
      add_products(z, p, c, n);
      if (!coupled) add_products(z + n, p + 2 * n, c, n);
    }
    activate(l_.f[0], l_.attrs.clip, z, coupled ? n : 2 * n);
    activate(l_.f[1], l_.attrs.clip, z + 2 * n, n);
    for (std::int64_t j = 0; coupled && j < n; ++j) z[n + j] = 1 - z[j];
    next_cell(c, z, n);
    if (p != nullptr) add_products(z + 3 * n, p + n, c, n);
    activate(l_.f[0], l_.attrs.clip, z + 3 * n, n);
    std::copy_n(c, n, h);
    activate(l_.f[2], 0, h, n);
    for (std::int64_t j = 0; j < n; ++j) h[j] *= z[3 * n + j];
  }

  void step_gru(T* z, T* h, std::int64_t i, std::int64_t at) {
    const std::int64_t n = l_.hidden;
    if (l_.resets_after()) {
      const T* from_h = hidden_part_.data() + i * 3 * n;
      for (std::int64_t j = 0; j < 2 * n; ++j) z[j] += from_h[j];
      activate(l_.f[0], l_.attrs.clip, z, 2 * n);
      std::copy_n(from_h + 2 * n, n, cells_ + at);
      add_products(z + 2 * n, z, from_h + 2 * n, n);
    }
    activate(l_.f[1], l_.attrs.clip, z + 2 * n, n);
    mix(h, z + n, z + 2 * n, n);
  }

  const RecurrentLayer& l_;
  LayerProducts& products_;
  bool constant_weights_;
  T *y_, *gates_, *cells_;
  std::vector<T> h_, c_;
  bool is_usual_lstm_;
  std::vector<T> hidden_part_;
};

void recurrent_forward(const OpCall& call) {
  const RecurrentLayer layer(call, 0);
  const ComputedOutput y(call.outputs[0]), h(call.outputs[1]), c(call.outputs[2]);
  // Copies of weights in another dtype are made anew in each call.
  const bool constant_weights = call.is_constant(1) && call.is_constant(2) &&
                                layer.weight_ih.impl() == call.inputs[1].impl() &&
                                layer.weight_hh.impl() == call.inputs[2].impl();
  LayerProducts fresh;
  LayerProducts& products = constant_weights ? call.memo_as<LayerProducts>() : fresh;
  const auto run = [&]<class T>(T) {
    const bool has_cells = call.outputs[4].impl()->shape.rank() == 3;
    Forward<T> forward(layer, products, constant_weights, elements_of<T>(y.tensor()),
                       elements_of<T>(call.outputs[3]),
                       has_cells ? elements_of<T>(call.outputs[4]) : nullptr);
    forward.run();
    std::copy(forward.h().begin(), forward.h().end(), elements_of<T>(h.tensor()));
    std::copy(forward.c().begin(), forward.c().end(), elements_of<T>(c.tensor()));
  };
  if (layer.x.dtype() == DType::f64) {
    run(double{});
  } else {
    run(float{});
  }
  for (const ComputedOutput* output : {&y, &h, &c}) output->finish();
}

/// The gates, which the gradients of the steps' sums replace one by one: but a gru whose r
/// multiplies h needs r once more at the end.
int spoiled_by_backward(const void* attrs) {
  const auto& layer = attrs_at<ops::RecurrentAttrs>(attrs);
  constexpr int kGates = 13;
  return layer.cell == "gru" && !layer.linear_before_reset ? -1 : kGates;
}

}  // namespace

std::span<const NamedKernel> recurrent_kernels() {
  static constexpr NamedKernel kernels[] = {
      {"recurrent_forward", {recurrent_forward}},
      {"recurrent_backward", {.run = recurrent_backward, .spoils = spoiled_by_backward}}};
  return kernels;
}

}  // namespace dyad::runtime::cpu
