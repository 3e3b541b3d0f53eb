#include "dyad/debug/tensor_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "dyad/core/create.h"
#include "dyad/core/text.h"
#include "dyad/ops/ops.h"

namespace dyad::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(TensorSummary, CountsWhatIsNotFinite) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  const debug::TensorSummary made = debug::summarize(tensor({1.0, nan, -infinity, 4.0, -2.0}), 3);
  EXPECT_EQ(made.type, "f64[5]");
  EXPECT_THAT(made.first, ElementsAre("1.0", "nan", "-inf"));
  EXPECT_TRUE(made.has_numbers);
  EXPECT_EQ(made.min, -2);
  EXPECT_EQ(made.mean, 1);
  EXPECT_EQ(made.max, 4);
  EXPECT_EQ(made.nans, 1);
  EXPECT_EQ(made.infinities, 1);
}

TEST(TensorSummary, ReadsAnyLayoutAndDtype) {
  const Tensor x = reshape(arange(6), {2, 3});
  EXPECT_THAT(debug::summarize(transpose(x, 0, 1)).first, ElementsAre("0", "3", "1", "4"));
  EXPECT_EQ(debug::summarize(tensor({true, false, true, true})).mean, 0.75);
  EXPECT_EQ(debug::summarize(to(tensor({0.5, 1.5}), bf16)).mean, 1);
  EXPECT_EQ(debug::summarize(to(tensor({1.0, 2.0}), c64)).has_numbers, false);
}

TEST(TensorSummary, TextsAndNothing) {
  const std::vector<std::string> texts{"a", "b \"c\""};
  EXPECT_THAT(debug::summarize(strings(texts)).first, ElementsAre("\"a\"", "\"b \\\"c\\\"\""));
  const debug::TensorSummary empty = debug::summarize(zeros({0, 3}));
  EXPECT_EQ(empty.type, "f32[0, 3]");
  EXPECT_THAT(empty.first, IsEmpty());
  EXPECT_FALSE(empty.has_numbers);
}

}  // namespace
}  // namespace dyad::testing
