#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cases.h"
#include "dyad/core/create.h"
#include "dyad/ir/literal.h"
#include "dyad/ops/ops.h"

// What takes or gives many MB has the bits of the same in small: results that are stored past the
// caches, whole vectors where they may lie and the rest as ever, and rows that are computed some at
// a time.

namespace dyad::testing {
namespace {

/// Of all lines at once and of a few of them: the same bits.
void expect_same_lines(Tensor (*transform)(const Tensor&), const Tensor& lines, const char* what) {
  const Tensor all = transform(lines);
  const std::int64_t count = lines.size(0).value();
  for (const std::int64_t begin : {std::int64_t{0}, count / 3, count - 19}) {
    const Tensor few = transform(slice(lines, 0, begin, begin + 19));
    EXPECT_EQ(elements(view_as_real(few)), elements(view_as_real(slice(all, 0, begin, begin + 19))))
        << what << ", lines from " << begin;
  }
}

TEST(LargeFft, HasTheBitsOfSmallOnes) {
  const auto along_rows = [](const Tensor& x) { return fft(x); };
  const auto along_columns = [](const Tensor& x) {
    return swapaxes(fft(swapaxes(x, 0, 1), {}, 0), 0, 1);
  };
  const auto half = [](const Tensor& x) { return rfft(real(x)); };
  for (const DType dtype : {f32, f64}) {
    const std::int64_t parts = dtype == f32 ? 2 : 1;
    for (const auto& [lines, n] : {std::pair(520, 2048), {1100, 1000}, {35, 32768}, {150, 8190}}) {
      const Tensor x = complex(randn({lines * parts, n}, dtype), randn({lines * parts, n}, dtype));
      expect_same_lines(along_rows, x, "fft");
      expect_same_lines(along_columns, x, "fft along columns");
      expect_same_lines(half, x, "rfft");
    }
  }
}

TEST(LargeLogSumExp, HasTheBitsOfSmallOnes) {
  for (const DType dtype : {f32, f64, bf16}) {
    for (const auto& [rows, n] : {std::pair(2048, 257), {3, 400000}, {600001, 1}}) {
      Tensor x = normal({rows, n}).to(dtype) * 3;
      const double inf = std::numeric_limits<double>::infinity();
      x.select(0, rows - 1).fill_(-inf);
      x.select(0, rows - 2).slice(0, 0, 1).fill_(inf);
      x.select(0, 0).slice(0, 0, 1).fill_(std::numeric_limits<double>::quiet_NaN());
      const Tensor all = logsumexp(x, {1}), kept = logsumexp(x.reshape({1, rows, n}), {-1}, true);
      EXPECT_EQ(kept.shape(), (Shape{1, rows, 1}));
      EXPECT_EQ(packed_elements(kept.reshape({rows})), packed_elements(all)) << rows;
      for (const std::int64_t row : {0, 1, rows / 2, rows - 2, rows - 1}) {
        const Tensor one = logsumexp(x.slice(0, row, row + 1), {1});
        EXPECT_EQ(packed_elements(one), packed_elements(all.slice(0, row, row + 1)))
            << rows << ", row " << row;
      }
      EXPECT_EQ(all.select(0, rows - 1).item<double>(), -inf);
      EXPECT_TRUE(std::isnan(all.select(0, 0).item<double>()));
    }
  }
}

}  // namespace
}  // namespace dyad::testing
