#include <algorithm>
#include <array>
#include <vector>

#include "dyad/runtime/cpu/element.h"
#include "dyad/runtime/cpu/gemm.h"
#include "dyad/runtime/cpu/rows.h"
#include "dyad/runtime/cpu/vector_clones.h"
#include "dyad/runtime/threads.h"

namespace dyad::runtime::cpu {
namespace {

/// A tile of C: 4 rows of 128 bytes, which is what stays in registers while k goes by.
constexpr std::int64_t kRows = 4;
template <class A>
constexpr std::int64_t kPanelColumns = 128 / static_cast<std::int64_t>(sizeof(A));
/// Rows that share one packed panel of B.
constexpr std::int64_t kRowsPerPanel = 64;

/// sums[r][c] = sum over k of a[r][k] * panel[k][c], for a panel of packed columns.
template <class A, class Load>
[[gnu::always_inline]] inline void tile(std::int64_t k, std::int64_t rows, Load load_a,
                                        const A* panel, A (&sums)[kRows][kPanelColumns<A>]) {
  for (auto& row : sums) std::fill(std::begin(row), std::end(row), A{});
  for (std::int64_t i = 0; i < k; ++i, panel += kPanelColumns<A>) {
    for (std::int64_t r = 0; r < kRows; ++r) {
      const A value = load_a(std::min(r, rows - 1), i);
      for (std::int64_t c = 0; c < kPanelColumns<A>; ++c) sums[r][c] += value * panel[c];
    }
  }
}

template <class T>
struct Block {
  const T* a;
  std::int64_t a_row, a_column;
  const Accumulator<T>* panel;
  const T* bias;  // at the panel's first column
  T* c;
  std::int64_t c_row;
  std::int64_t rows, columns, k;
  bool accumulate;
};

/// One panel's products for a block of rows. Not generic itself, so that it can be cloned.
template <class T>
[[gnu::always_inline]] inline void multiply_block(const Block<T>& b) {
  using A = Accumulator<T>;
  A sums[kRows][kPanelColumns<A>];
  for (std::int64_t first = 0; first < b.rows; first += kRows) {
    const std::int64_t rows = std::min(kRows, b.rows - first);
    const T* a = b.a + first * b.a_row;
    const auto load_a = [&](std::int64_t r, std::int64_t i) {
      return load(a[r * b.a_row + i * b.a_column]);
    };
    tile<A>(b.k, rows, load_a, b.panel, sums);
    for (std::int64_t r = 0; r < rows; ++r) {
      T* c = b.c + (first + r) * b.c_row;
      for (std::int64_t j = 0; j < b.columns; ++j) {
        A sum = sums[r][j];
        if (b.bias != nullptr) sum += load(b.bias[j]);
        if (b.accumulate) sum += load(c[j]);
        c[j] = store<T>(sum);
      }
    }
  }
}

DYAD_VECTOR_CLONES void multiply_panel(const Block<double>& b) { multiply_block(b); }
DYAD_VECTOR_CLONES void multiply_panel(const Block<float>& b) { multiply_block(b); }
template <class T>
void multiply_panel(const Block<T>& b) {
  multiply_block(b);
}

/// Columns [first, first + columns) of B, row by row, padded with zeros to a whole panel.
template <class T>
void pack(const Gemm& g, const T* b, std::int64_t first, std::int64_t columns,
          Accumulator<T>* panel) {
  for (std::int64_t i = 0; i < g.k; ++i, panel += kPanelColumns<Accumulator<T>>) {
    for (std::int64_t j = 0; j < columns; ++j) {
      panel[j] = load(b[i * g.b_row + (first + j) * g.b_column]);
    }
    std::fill(panel + columns, panel + kPanelColumns<Accumulator<T>>, Accumulator<T>{});
  }
}

template <class T>
void run(const Gemm& g, const T* a, const T* b, const T* bias, T* c, bool accumulate) {
  using A = Accumulator<T>;
  const std::int64_t panels = (g.n + kPanelColumns<A> - 1) / kPanelColumns<A>;
  const std::int64_t blocks = (g.m + kRowsPerPanel - 1) / kRowsPerPanel;
  const std::array<Ints, 3> strides{g.a_batch, g.b_batch, g.c_batch};
  const std::int64_t units = product(g.batch) * panels * blocks;
  const double flops = 2.0 * static_cast<double>(std::min(g.m, kRowsPerPanel) *
                                                 std::min(g.n, kPanelColumns<A>) * g.k);
  parallel_for(
      0, units, grain_for({.flops = 4 * flops}, units), [&](std::int64_t lo, std::int64_t hi) {
        std::vector<A> panel(static_cast<std::size_t>(g.k * kPanelColumns<A>));
        std::int64_t packed = -1;
        for (std::int64_t unit = lo; unit < hi; ++unit) {
          const std::int64_t block = unit % blocks,
                             column = unit / blocks % panels * kPanelColumns<A>;
          const std::int64_t columns = std::min(kPanelColumns<A>, g.n - column);
          const RowWalk<3> at(g.batch, strides, unit / blocks / panels);
          if (packed != unit / blocks) pack(g, b + at[1], column, columns, panel.data());
          packed = unit / blocks;
          const std::int64_t row = block * kRowsPerPanel;
          multiply_panel(Block<T>{a + at[0] + row * g.a_row, g.a_row, g.a_column, panel.data(),
                                  bias != nullptr ? bias + column : nullptr,
                                  c + at[2] + row * g.c_row + column, g.c_row,
                                  std::min(kRowsPerPanel, g.m - row), columns, g.k, accumulate});
        }
      });
}

}  // namespace

void gemm_loops(const Gemm& g, const void* a, const void* b, const void* bias, void* c,
                bool accumulate) {
  with_element(g.dtype, [&]<class T>(T) {
    run(g, static_cast<const T*>(a), static_cast<const T*>(b), static_cast<const T*>(bias),
        static_cast<T*>(c), accumulate);
  });
}

}  // namespace dyad::runtime::cpu
