#include "dyad/runtime/cpu/lstm_rows.h"

#include "dyad/runtime/cpu/vector_clones.h"
#include "dyad/runtime/cpu/vector_math.h"

namespace dyad::runtime::cpu {
namespace {

template <class T>
[[gnu::always_inline]] inline void forward(const LstmRow<T>& row, std::int64_t n) {
  T *const z = row.gates, *const c = row.c, *const h = row.h, *const y = row.y,
           *const cells = row.cells;
#pragma GCC ivdep
  for (std::int64_t j = 0; j < n; ++j) {
    const T in = vector_math::sigmoid(z[j]), forget = vector_math::sigmoid(z[n + j]),
            candidate = vector_math::tanh(z[2 * n + j]), out = vector_math::sigmoid(z[3 * n + j]);
    const T cell = forget * c[j] + in * candidate;
    const T shown = vector_math::tanh(cell) * out;
    z[j] = in;
    z[n + j] = forget;
    z[2 * n + j] = candidate;
    z[3 * n + j] = out;
    c[j] = cells[j] = cell;
    h[j] = y[j] = shown;
  }
}

template <bool first, class T>
[[gnu::always_inline]] inline void backward(const LstmGradients<T>& row, std::int64_t n) {
  const T *const grad = row.grad, *const z = row.gates, *const c = row.c,
                 *const before = row.before;
  T *const d = row.sums, *const dh = row.dh, *const dc = row.dc;
#pragma GCC ivdep
  for (std::int64_t j = 0; j < n; ++j) {
    const T in = z[j], forget = z[n + j], candidate = z[2 * n + j], out = z[3 * n + j];
    const T shown = vector_math::tanh(c[j]), of_h = dh[j] + grad[j];
    const T of_cell = dc[j] + of_h * out * (1 - shown * shown);
    d[j] = of_cell * candidate * (in * (1 - in));
    d[n + j] = (first ? T{} : of_cell * before[j]) * (forget * (1 - forget));
    d[2 * n + j] = of_cell * in * (1 - candidate * candidate);
    d[3 * n + j] = of_h * shown * (out * (1 - out));
    dc[j] = of_cell * forget;
    dh[j] = T{};
  }
}

template <class T>
[[gnu::always_inline]] inline void gradients(const LstmGradients<T>& row, std::int64_t n) {
  if (row.before == nullptr) {
    backward<true>(row, n);
  } else {
    backward<false>(row, n);
  }
}

}  // namespace

DYAD_VECTOR_CLONES void lstm_row(const LstmRow<float>& row, std::int64_t n) { forward(row, n); }
DYAD_VECTOR_CLONES void lstm_row(const LstmRow<double>& row, std::int64_t n) { forward(row, n); }
DYAD_VECTOR_CLONES void lstm_row_gradients(const LstmGradients<float>& row, std::int64_t n) {
  gradients(row, n);
}
DYAD_VECTOR_CLONES void lstm_row_gradients(const LstmGradients<double>& row, std::int64_t n) {
  gradients(row, n);
}

}  // namespace dyad::runtime::cpu
