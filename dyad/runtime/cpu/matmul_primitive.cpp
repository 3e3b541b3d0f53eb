#ifndef DYAD_PLAIN_LOOPS

#include "dyad/runtime/cpu/matmul_primitive.h"

#include <algorithm>
#include <array>
#include <bit>

#include "dyad/runtime/cpu/lru.h"
#include "dyad/runtime/cpu/onednn.h"
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
class Primitives {
 public:
  onednn::Held& of(const Problem& p) {
    return held_.get(p.key(), [&] { return make_primitive(p); });
  }

  /// Of how many rows the pieces are that the problem is put together from now: 0 where it has or
  /// gets a primitive of its own.
  std::int64_t piece_rows(const Problem& p) {
    const std::int64_t piece = piece_of(p.m);
    if (!has_independent_rows(p) || p.m < piece || p.m % piece == 0) return 0;
    const PlanKey key = p.key();
    if (piece * p.n * p.k > kMostExtra || held_.find(key) != nullptr) return 0;
    int& numbers_of_rows = numbers_of_rows_.get(p.with_rows(0).key(), [] { return 0; });
    int& times = times_.get(key, [&] {
      ++numbers_of_rows;
      return 0;
    });
    return numbers_of_rows > kFewNumbers && ++times <= kTimesInPieces ? piece : 0;
  }

 private:
  /// Rows of the last piece, of which the first has a multiple: so few that little is computed
  /// twice, so many that first pieces have eight sizes at most between two powers of two.
  static std::int64_t piece_of(std::int64_t rows) {
    if (rows < 32) return 16;
    return std::max<std::int64_t>(
        32, static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(rows) / 8)));
  }
  /// Products of rows that two pieces share, above which making a primitive is quicker.
  static constexpr std::int64_t kMostExtra = std::int64_t{1} << 24;
  /// A batch, what is left of the data at the end, and the same of what is validated with.
  static constexpr int kFewNumbers = 4;
  /// As often as it takes for the pieces' extra time to reach that of making a primitive.
  static constexpr int kTimesInPieces = 4;

  /// Whether a row's bits do not depend on how many others there are. The library's kernels with
  /// AVX-512 add up a row's products in the order of k; only where columns are too few for the
  /// threads may they divide k among these, which the number of rows decides.
  static bool has_independent_rows(const Problem& p) {
    constexpr std::int64_t kColumnsOfOneThread = 64;
    return p.items == 1 && !p.a_by_columns && onednn::uses(dnnl_cpu_isa_avx512_core) &&
           (p.threads == 1 || p.n >= kColumnsOfOneThread * p.threads);
  }

  Lru<onednn::Held> held_{256};
  Lru<int> times_{1024};           // that a problem was put together
  Lru<int> numbers_of_rows_{256};  // of problems that are the same otherwise
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
  const std::int64_t piece = primitives.piece_rows(problem);

  const Ints outer(g.batch.begin(), has_axis ? g.batch.end() - 1 : g.batch.end());
  const auto bytes = static_cast<std::int64_t>(size_of(g.dtype));
  RowWalk<3> at(outer, {a.batch, b.batch, g.c_batch}, 0);
  for (std::int64_t i = 0, count = product(outer); i < count; ++i, at.next()) {
    const auto run_rows = [&](std::int64_t first, std::int64_t rows) {
      primitives.of(problem.with_rows(rows))
          .run({a.data + (at[0] + first * a.leading) * bytes, b.data + at[1] * bytes,
                static_cast<std::byte*>(c) + (at[2] + first * g.c_row) * bytes, bias});
    };
    if (piece == 0) {
      run_rows(0, g.m);
    } else {
      run_rows(0, g.m / piece * piece);
      run_rows(g.m - piece, piece);
    }
  }
}

}  // namespace dyad::runtime::cpu

#endif
