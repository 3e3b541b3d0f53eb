#include "dyad/runtime/cpu/cast.h"
#include "dyad/runtime/cpu/gemm.h"
#include "dyad/runtime/cpu/lstm_rows.h"
#include "dyad/runtime/cpu/packed_product.h"
#include "dyad/runtime/cpu/recurrent.h"
#include "dyad/runtime/cpu/recurrent_activation.h"
#include "dyad/runtime/cpu/vector_clones.h"
#include "dyad/runtime/threads.h"

// Backwards through the steps: each gives the gradients of its gates' sums, from which products
// over all steps at once make those of x and the weights.

namespace dyad::runtime::cpu {
namespace {

/// to = a b.
template <class T>
[[gnu::always_inline]] inline void products_of(T* to, const T* a, const T* b, std::int64_t n) {
  for (std::int64_t j = 0; j < n; ++j) to[j] = a[j] * b[j];
}
DYAD_VECTOR_CLONES void products(float* to, const float* a, const float* b, std::int64_t n) {
  products_of(to, a, b, n);
}
DYAD_VECTOR_CLONES void products(double* to, const double* a, const double* b, std::int64_t n) {
  products_of(to, a, b, n);
}

/// to += a b.
template <class T>
[[gnu::always_inline]] inline void more_products_of(T* to, const T* a, const T* b, std::int64_t n) {
  for (std::int64_t j = 0; j < n; ++j) to[j] += a[j] * b[j];
}
DYAD_VECTOR_CLONES void more_products(float* to, const float* a, const float* b, std::int64_t n) {
  more_products_of(to, a, b, n);
}
DYAD_VECTOR_CLONES void more_products(double* to, const double* a, const double* b,
                                      std::int64_t n) {
  more_products_of(to, a, b, n);
}

/// to[j] += row[j].
template <class T>
[[gnu::always_inline]] inline void add_to_row_of(T* to, const T* row, std::int64_t n) {
  for (std::int64_t j = 0; j < n; ++j) to[j] += row[j];
}
DYAD_VECTOR_CLONES void add_to_row(float* to, const float* row, std::int64_t n) {
  add_to_row_of(to, row, n);
}
DYAD_VECTOR_CLONES void add_to_row(double* to, const double* row, std::int64_t n) {
  add_to_row_of(to, row, n);
}

/// What a gradient kernel reads and writes.
template <class T>
struct Buffers {
  const T *grad, *y, *gates, *cells;
  T* sums;  // where the gates are, if they may be written over, or null
  T *dx, *dweight_ih, *dweight_hh, *dbias_ih, *dbias_hh, *dh0, *dc0, *dpeephole;  // or null
};

template <class T>
class Backward {
 public:
  Backward(const RecurrentLayer& layer, const Buffers<T>& to, std::vector<T> dh, std::vector<T> dc)
      : l_(layer),
        to_(to),
        n_(layer.hidden),
        rows_(layer.gate_width()),
        dh_(std::move(dh)),
        dc_(std::move(dc)),
        own_sums_(to.sums == nullptr ? layer.steps * layer.samples * rows_ : 0),
        sums_(to.sums == nullptr ? own_sums_.data() : to.sums),
        is_usual_lstm_(layer.is_usual_lstm()),
        in_work_(to.sums == nullptr || is_usual_lstm_ ? 0 : layer.samples * rows_),
        hidden_sums_(layer.resets_after() ? layer.steps * layer.samples * rows_ : 0),
        before_(layer.steps * layer.samples * n_) {
    find_states_before();
  }

  void run() {
    l_.each_part(l_.parts(), [&](const RecurrentLayer::Part& part) { run_steps(part); });
    finish();
  }

 private:
  void run_steps(const RecurrentLayer::Part& part) {
    const bool splits = l_.cell == RecurrentLayer::Cell::gru && !l_.resets_after();
    const std::int64_t m = part.samples();
    const T* weight = elements_of<const T>(l_.weight_hh);
    PackedProduct to_h(dtype_of<T>, m, n_, splits ? 2 * n_ : rows_, weight, n_, false);
    PackedProduct to_reset(dtype_of<T>, splits ? m : 0, n_, n_, weight + 2 * n_ * n_, n_, false);
    std::vector<T> dreset(splits ? static_cast<std::size_t>(m * n_) : 0);
    T* const dh = dh_.data() + part.first * n_;
    for (std::int64_t s = l_.steps; s-- > 0;) {
      const std::int64_t t = l_.step(s), first = (t * l_.samples + part.first) * rows_;
      l_.each_sample(part, [&](std::int64_t i) { step(t, i); });
      if (splits) {
        std::fill(dreset.begin(), dreset.end(), T{});
        to_reset.add(sums_ + first + 2 * n_, rows_, dreset.data(), n_);
        l_.each_sample(part, [&](std::int64_t i) {
          through_reset(t, i, dreset.data() + (i - part.first) * n_);
        });
      }
      to_h.add(sums_from_h() + first, rows_, dh, n_);
    }
  }

  /// h as each step found it, [t, n, h]; zeros where a sample has no such step.
  void find_states_before() {
    const T* h0 = elements_of<const T>(l_.h0);
    const double bytes = 2.0 * static_cast<double>(n_) * sizeof(T);
    const std::int64_t all = l_.steps * l_.samples;
    parallel_for(0, all, grain_for({.bytes = bytes}, all), [&](std::int64_t lo, std::int64_t hi) {
      for (std::int64_t at = lo; at < hi; ++at) {
        const std::int64_t t = at / l_.samples, i = at % l_.samples;
        const bool active = l_.active(t, i);
        const std::int64_t from = active ? l_.previous(t, i) : -1;
        T* to = before_.data() + at * n_;
        if (from >= 0) {
          std::copy_n(to_.y + (from * l_.samples + i) * n_, n_, to);
        } else if (active && h0 != nullptr) {
          std::copy_n(h0 + i * n_, n_, to);
        } else {
          std::fill_n(to, n_, T{});
        }
      }
    });
  }
  /// c as a step found it; null for zeros.
  const T* cell_before(std::int64_t t, std::int64_t i) const {
    const std::int64_t from = l_.previous(t, i);
    if (from >= 0) return to_.cells + (from * l_.samples + i) * n_;
    const T* c0 = elements_of<const T>(l_.c0);
    return c0 != nullptr ? c0 + i * n_ : nullptr;
  }

  void step(std::int64_t t, std::int64_t i) {
    const std::int64_t at = t * l_.samples + i;
    T* const sums = sums_ + at * rows_;
    if (!l_.active(t, i)) {  // what comes from later steps passes
      std::fill_n(sums, rows_, T{});
      if (l_.resets_after()) std::fill_n(hidden_sums_.data() + at * rows_, rows_, T{});
      return;
    }
    T* dh = dh_.data() + i * n_;
    const T *const grad = to_.grad + at * n_, *const z = to_.gates + at * rows_;
    if (is_usual_lstm_) {
      lstm_row_gradients(LstmGradients<T>{grad, z, to_.cells + at * n_, cell_before(t, i), sums, dh,
                                          dc_.data() + i * n_},
                         n_);
      return;
    }
    add_to_row(dh, grad, n_);
    T* const d = to_.sums == nullptr ? sums : in_work_.data() + i * rows_;
    switch (l_.cell) {
      case RecurrentLayer::Cell::rnn:
        std::copy_n(dh, n_, d);
        through_activation(l_.f[0], l_.attrs.clip, z, d, n_);
        std::fill_n(dh, n_, T{});
        break;
      case RecurrentLayer::Cell::lstm:
        step_lstm(t, i, z, d, dh);
        break;
      case RecurrentLayer::Cell::gru:
        step_gru(at, z, d, dh);
        break;
    }
    if (d != sums) std::copy_n(d, rows_, sums);
  }

  void step_lstm(std::int64_t t, std::int64_t i, const T* z, T* d, T* dh) {
    const std::int64_t n = n_;
    const double clip = l_.attrs.clip;
    const bool coupled = l_.attrs.input_forget;
    const T* c = to_.cells + (t * l_.samples + i) * n;
    const T* before = cell_before(t, i);
    const T* p = elements_of<const T>(l_.peephole);
    T* dc = dc_.data() + i * n;
    // The output: d's part of g holds f(c) meanwhile, dh the gradient of c through it.
    T* const shown = d + 2 * n;
    std::copy_n(c, n, shown);
    activate(l_.f[2], 0, shown, n);
    products(d + 3 * n, dh, shown, n);
    products(dh, dh, z + 3 * n, n);
    through_activation(l_.f[2], 0, shown, dh, n);
    add_to_row(dc, dh, n);
    through_activation(l_.f[0], clip, z + 3 * n, d + 3 * n, n);
    if (p != nullptr) more_products(dc, d + 3 * n, p + n, n);
    products(d, dc, z + 2 * n, n);
    products(d + 2 * n, dc, z, n);
    std::fill_n(d + n, n, T{});
    if (before != nullptr) products(d + n, dc, before, n);
    if (coupled) {
      for (std::int64_t j = 0; j < n; ++j) d[j] -= d[n + j];
      std::fill_n(d + n, n, T{});
    }
    through_activation(l_.f[0], clip, z, d, coupled ? n : 2 * n);
    through_activation(l_.f[1], clip, z + 2 * n, d + 2 * n, n);
    products(dc, dc, z + n, n);
    if (p != nullptr) {
      more_products(dc, d, p, n);
      if (!coupled) more_products(dc, d + n, p + 2 * n, n);
    }
    std::fill_n(dh, n, T{});
  }

  void step_gru(std::int64_t at, const T* z, T* d, T* dh) {
    const std::int64_t n = n_;
    const T* before = before_.data() + at * n;
    for (std::int64_t j = 0; j < n; ++j) {
      d[n + j] = dh[j] * (before[j] - z[2 * n + j]);
      d[2 * n + j] = dh[j] * (1 - z[n + j]);
      dh[j] *= z[n + j];
    }
    through_activation(l_.f[0], l_.attrs.clip, z + n, d + n, n);
    through_activation(l_.f[1], l_.attrs.clip, z + 2 * n, d + 2 * n, n);
    if (!l_.resets_after()) return;
    products(d, d + 2 * n, to_.cells + at * n, n);
    through_activation(l_.f[0], l_.attrs.clip, z, d, n);
    T* from_h = hidden_sums_.data() + at * rows_;
    std::copy_n(d, 2 * n, from_h);
    products(from_h + 2 * n, d + 2 * n, z, n);
  }

  /// A gru whose r multiplies h: from the gradient of r h to those of r and h.
  void through_reset(std::int64_t t, std::int64_t i, const T* dreset) {
    if (!l_.active(t, i)) return;
    const std::int64_t at = t * l_.samples + i;
    const T* r = to_.gates + at * rows_;
    T* d = sums_ + at * rows_;
    products(d, dreset, before_.data() + at * n_, n_);
    through_activation(l_.f[0], l_.attrs.clip, r, d, n_);
    more_products(dh_.data() + i * n_, dreset, r, n_);
  }

  /// C[m, n] = A^T B over all steps and samples; A has rows of a_row.
  void over_steps(const T* a, std::int64_t a_row, std::int64_t m, const T* b, std::int64_t n,
                  T* c) {
    if (m == 0 || n == 0) return;
    Gemm g;
    g.dtype = dtype_of<T>;
    g.m = m;
    g.n = n;
    g.k = l_.steps * l_.samples;
    g.a_row = 1;
    g.a_column = a_row;
    g.b_row = n;
    g.b_column = 1;
    g.c_row = n;
    gemm(g, a, b, nullptr, c);
  }
  /// The sums of the columns of all steps' sums.
  void add_columns(const T* from, T* to) {
    if (to == nullptr) return;
    const std::int64_t rows = l_.steps * l_.samples;
    const double bytes = static_cast<double>(rows) * sizeof(T);
    parallel_for(0, rows_, std::max<std::int64_t>(64, grain_for({.bytes = bytes}, rows_)),
                 [&](std::int64_t lo, std::int64_t hi) {
                   std::fill(to + lo, to + hi, T{});
                   for (std::int64_t row = 0; row < rows; ++row) {
                     add_to_row(to + lo, from + row * rows_ + lo, hi - lo);
                   }
                 });
  }

  void finish() {
    const std::int64_t all = l_.steps * l_.samples;
    if (to_.dx != nullptr && all * l_.width > 0) {
      Gemm g;
      g.dtype = dtype_of<T>;
      g.m = all;
      g.n = l_.width;
      g.k = rows_;
      g.a_row = rows_;
      g.a_column = 1;
      g.b_row = l_.width;
      g.b_column = 1;
      g.c_row = l_.width;
      gemm(g, sums_, elements_of<T>(l_.weight_ih), nullptr, to_.dx);
    }
    over_steps(sums_, rows_, rows_, elements_of<const T>(l_.x), l_.width, to_.dweight_ih);
    const T* const from_h = sums_from_h();
    const bool splits = l_.cell == RecurrentLayer::Cell::gru && !l_.resets_after();
    over_steps(from_h, rows_, splits ? 2 * n_ : rows_, before_.data(), n_, to_.dweight_hh);
    if (splits) {
      for (std::int64_t row = 0; row < all; ++row) {
        T* h = before_.data() + row * n_;
        products(h, h, to_.gates + row * rows_, n_);
      }
      over_steps(from_h + 2 * n_, rows_, n_, before_.data(), n_, to_.dweight_hh + 2 * n_ * n_);
    }
    add_columns(sums_, to_.dbias_ih);
    if (l_.resets_after() || to_.dbias_ih == nullptr) {
      add_columns(from_h, to_.dbias_hh);
    } else if (to_.dbias_hh != nullptr) {  // the same sums
      std::copy_n(to_.dbias_ih, rows_, to_.dbias_hh);
    }
    if (to_.dh0 != nullptr) std::copy(dh_.begin(), dh_.end(), to_.dh0);
    if (to_.dc0 != nullptr) std::copy(dc_.begin(), dc_.end(), to_.dc0);
    if (to_.dpeephole != nullptr) add_peepholes();
  }

  void add_peepholes() {
    std::fill_n(to_.dpeephole, 3 * n_, T{});
    for (std::int64_t t = 0; t < l_.steps; ++t) {
      for (std::int64_t i = 0; i < l_.samples; ++i) {
        if (!l_.active(t, i)) continue;
        const std::int64_t at = t * l_.samples + i;
        const T* d = sums_ + at * rows_;
        more_products(to_.dpeephole + n_, d + 3 * n_, to_.cells + at * n_, n_);
        const T* before = cell_before(t, i);
        if (before == nullptr) continue;
        more_products(to_.dpeephole, d, before, n_);
        if (!l_.attrs.input_forget) more_products(to_.dpeephole + 2 * n_, d + n_, before, n_);
      }
    }
  }

  /// The gradients of what the steps add up from h.
  [[nodiscard]] const T* sums_from_h() const {
    return l_.resets_after() ? hidden_sums_.data() : sums_;
  }

  const RecurrentLayer& l_;
  const Buffers<T>& to_;
  std::int64_t n_, rows_;
  std::vector<T> dh_, dc_;
  Scratch<T> own_sums_;
  T* sums_;  // of the gates, [t, n, g h]
  bool is_usual_lstm_;
  Scratch<T> in_work_;  // those of the samples' present step, where they replace the gates
  Scratch<T> hidden_sums_, before_;
};

}  // namespace

void recurrent_backward(const OpCall& call) {
  const RecurrentLayer layer(call, 3);
  const Tensor grad = dense_computed(call.inputs[0]), y = dense_computed(call.inputs[12]),
               gates = dense_computed(call.inputs[13]), cells = dense_computed(call.inputs[14]);
  const Tensor grad_h = dense_computed(call.inputs[1]), grad_c = dense_computed(call.inputs[2]);
  std::vector<ComputedOutput> outputs;
  for (const Tensor& output : call.outputs) outputs.emplace_back(output);
  const auto run = [&]<class T>(T) {
    const auto given = [&](std::size_t i, const Tensor& of) -> T* {
      return of.defined() ? elements_of<T>(outputs[i].tensor()) : nullptr;
    };
    const Buffers<T> buffers{elements_of<const T>(grad),
                             elements_of<const T>(y),
                             elements_of<const T>(gates),
                             elements_of<const T>(cells),
                             call.may_spoil ? elements_of<T>(gates) : nullptr,
                             layer.attrs.with_x ? elements_of<T>(outputs[0].tensor()) : nullptr,
                             elements_of<T>(outputs[1].tensor()),
                             elements_of<T>(outputs[2].tensor()),
                             given(3, layer.bias_ih),
                             given(4, layer.bias_hh),
                             given(5, layer.h0),
                             given(6, layer.c0),
                             given(7, layer.peephole)};
    const std::int64_t count = layer.samples * layer.hidden;
    Backward<T>(layer, buffers, state_of<T>(grad_h, count), state_of<T>(grad_c, count)).run();
  };
  if (layer.x.dtype() == DType::f64) {
    run(double{});
  } else {
    run(float{});
  }
  for (const ComputedOutput& output : outputs) output.finish();
}

}  // namespace dyad::runtime::cpu
