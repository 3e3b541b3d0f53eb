#include <gtest/gtest.h>

#include "cases.h"
#include "dyad/core/create.h"
#include "dyad/ops/ops.h"

// Results of many MB are stored past the caches, whole vectors where they may lie and the rest as
// ever.

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

}  // namespace
}  // namespace dyad::testing
