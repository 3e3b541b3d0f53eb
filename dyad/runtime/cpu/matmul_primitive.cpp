#ifndef DYAD_PLAIN_LOOPS

#include "dyad/runtime/cpu/matmul_primitive.h"

#include <algorithm>

#include "dyad/runtime/cpu/lru.h"
#include "dyad/runtime/cpu/onednn.h"
#include "dyad/runtime/cpu/row_pieces.h"
#include "dyad/runtime/cpu/rows.h"

namespace dyad::runtime::cpu {
namespace {

/// What a primitive is made for: products along one batch axis.
struct Problem {
  DType dtype = DType::f32;
  int threads = 1;
  std::int64_t m = 0, n = 0, k = 0, items = 1;
  std::int64_t a_batch = 0, b_batch = 0, c_batch = 0;
  std::int64_t a_leading = 0, b_leading = 0, c_row = 0;
  bool a_by_columns = false, b_by_columns = false, has_bias = false;

  [[nodiscard]] PlanKey key() const {
    return {static_cast<std::int64_t>(dtype),
            threads,
            m,
            n,
            k,
            items,
            a_batch,
            b_batch,
            c_batch,
            a_leading,
            b_leading,
            c_row,
            a_by_columns,
            b_by_columns,
            has_bias};
  }
  [[nodiscard]] Problem with_rows(std::int64_t rows) const {
    Problem other = *this;
    other.m = rows;
    return other;
  }
};

/// Sizes and strides of an operand of the primitive, batch first.
dnnl::memory::desc matrix(DType dtype, std::int64_t batch, std::int64_t batch_stride,
                          std::int64_t rows, std::int64_t columns, std::int64_t leading,
                          bool by_columns) {
  const std::int64_t row = by_columns ? 1 : leading, column = by_columns ? leading : 1;
  const bool shared = batch == 1 || batch_stride == 0;
  const std::int64_t span = std::max(rows * row, columns * column);
  return {{shared ? 1 : batch, rows, columns},
          onednn::data_type(dtype),
          {shared ? span : batch_stride, row, column}};
}

onednn::Held make_primitive(const Problem& p) {
  const auto a = matrix(p.dtype, p.items, p.a_batch, p.m, p.k, p.a_leading, p.a_by_columns);
  const auto b = matrix(p.dtype, p.items, p.b_batch, p.k, p.n, p.b_leading, p.b_by_columns);
  const auto c = matrix(p.dtype, p.items, p.c_batch, p.m, p.n, p.c_row, false);
  try {
    if (p.has_bias) {
      const dnnl::memory::desc bias({1, 1, p.n}, onednn::data_type(p.dtype), {p.n, p.n, 1});
      const dnnl::matmul::primitive_desc pd({a, b, bias, c}, onednn::engine());
      return {dnnl::matmul(pd),
              {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}, {DNNL_ARG_BIAS, bias}}};
    }
    const dnnl::matmul::primitive_desc pd({a, b, c}, onednn::engine());
    return {dnnl::matmul(pd), {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}}};
  } catch (const dnnl::error& error) {
    onednn::fail(error);
  }
}

/// The primitives that a thread keeps, and what it knows of sizes for which it has none.
struct Primitives {
  Lru<onednn::Held> held{256};
  RowPieces pieces;

  onednn::Held& of(const Problem& p) {
    return held.get(p.key(), [&] { return make_primitive(p); });
  }
  /// Of the last piece, or 0 (RowPieces).
  std::int64_t last_rows(const Problem& p) {
    if (p.items > 1 || p.a_by_columns || held.find(p.key()) != nullptr) return 0;
    return pieces.last_rows(p.with_rows(0).key(), {p.dtype, p.m, p.n, p.k, p.threads});
  }
};

}  // namespace

void run_matmul(const Gemm& g, int threads, const MatmulOperand& a, const MatmulOperand& b,
                const void* bias, void* c) {
  // The primitive takes one batch axis, which at least one operand has; the ones outside it are
  // looped over.
  const bool both_shared = !g.batch.empty() && a.batch.back() == 0 && b.batch.back() == 0;
  const bool has_axis = !g.batch.empty() && !both_shared;
  const Problem problem{.dtype = g.dtype,
                        .threads = threads,
                        .m = g.m,
                        .n = g.n,
                        .k = g.k,
                        .items = has_axis ? g.batch.back() : 1,
                        .a_batch = has_axis ? a.batch.back() : 0,
                        .b_batch = has_axis ? b.batch.back() : 0,
                        .c_batch = has_axis ? g.c_batch.back() : 0,
                        .a_leading = a.leading,
                        .b_leading = b.leading,
                        .c_row = g.c_row,
                        .a_by_columns = a.by_columns,
                        .b_by_columns = b.by_columns,
                        .has_bias = bias != nullptr};
  thread_local Primitives primitives;
  const std::int64_t last = primitives.last_rows(problem);

  const Ints outer(g.batch.begin(), has_axis ? g.batch.end() - 1 : g.batch.end());
  const auto bytes = static_cast<std::int64_t>(size_of(g.dtype));
  RowPieces::each(g.m, last, [&](std::int64_t first, std::int64_t rows) {
    onednn::Held& primitive = primitives.of(problem.with_rows(rows));
    RowWalk<3> at(outer, {a.batch, b.batch, g.c_batch}, 0);
    for (std::int64_t i = 0, count = product(outer); i < count; ++i, at.next()) {
      primitive.run({a.data + (at[0] + first * a.leading) * bytes, b.data + at[1] * bytes,
                     static_cast<std::byte*>(c) + (at[2] + first * g.c_row) * bytes, bias});
    }
  });
}

}  // namespace dyad::runtime::cpu

#endif
