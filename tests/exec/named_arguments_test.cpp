// Maps by name and texts among the arguments and results of functions.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>

#include "dyad/core/create.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/control_flow.h"
#include "dyad/ops/ops.h"
#include "exec_for_tests.h"

namespace dyad {
namespace {

using exec::bits;
using ::testing::HasSubstr;
using Named = std::map<std::string, Tensor>;

TEST(NamedArguments, AreServedByOneRecordingWhereNamesAreTheSame) {
  const auto fn = [](const Named& batch) {
    return Named{{"sum", batch.at("x") + batch.at("y")}, {"twice", batch.at("x") * 2}};
  };
  const auto fast = compile(fn);
  for (const double value : {1.0, 2.0, 3.0, 4.0}) {
    const Named batch{{"x", full({3}, value)}, {"y", ones({3})}};
    const Named got = fast(batch), wanted = fn(batch);
    ASSERT_EQ(got.size(), 2u);
    EXPECT_EQ(bits(got.at("sum")), bits(wanted.at("sum")));
    EXPECT_EQ(bits(got.at("twice")), bits(wanted.at("twice")));
  }
  EXPECT_EQ(fast.explain().recordings.size(), 1u);
  EXPECT_EQ(fast.explain().eager, 0);
}

TEST(NamedArguments, OtherNamesMakeAnotherRecordingThatTellsSo) {
  const auto fast = compile([](const Named& batch) {
    const auto minus = batch.find("minus");
    return minus == batch.end() ? batch.at("plus") : -minus->second;
  });
  EXPECT_EQ(bits(fast(Named{{"plus", ones({2})}})), bits(full({2}, 1.0)));
  EXPECT_EQ(bits(fast(Named{{"minus", ones({2})}})), bits(full({2}, -1.0)));
  EXPECT_EQ(bits(fast(Named{{"plus", full({2}, 3.0)}})), bits(full({2}, 3.0)));
  ASSERT_EQ(fast.explain().recordings.size(), 2u);
  EXPECT_THAT(fast.explain().recordings[1].reason, HasSubstr("argument 0 had other names"));
}

TEST(NamedArguments, AreNamedInReasons) {
  const auto fast = compile([](const Named& batch) { return batch.at("x") * 2; });
  (void)fast(Named{{"x", ones({2})}});
  (void)fast(Named{{"x", ones({2}).to(f64)}});
  EXPECT_THAT(fast.explain().recordings.at(1).reason, HasSubstr("argument 0.x"));
}

TEST(NamedArguments, TextsMakeARecordingEach) {
  const auto fast = compile(
      [](const Tensor& x, const std::string& mode) { return mode == "double" ? x * 2 : x; });
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(bits(fast(ones({2}), "double")), bits(full({2}, 2.0)));
    EXPECT_EQ(bits(fast(ones({2}), std::string("as it is"))), bits(full({2}, 1.0)));
  }
  ASSERT_EQ(fast.explain().recordings.size(), 2u);
  EXPECT_THAT(fast.explain().recordings[1].reason, HasSubstr("argument 1 was another text"));
}

TEST(NamedArguments, SizesShapesAndNothingMakeARecordingEach) {
  const auto fast =
      compile([](const Tensor& x, Dim rows, const Shape& shape, const Ints& axes,
                 const std::optional<Tensor>& factor, const std::vector<bool>& flags) {
        const Tensor y = sum(x, axes) * rows + zeros(shape);
        return factor && flags[1] ? y * *factor : y;
      });
  const std::vector<bool> flags{false, true};
  const Tensor x = ones({3, 4});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(bits(fast(x, x.size(0), Shape{2, 4}, Ints{0}, std::nullopt, flags)),
              bits(full({2, 4}, 9)));
    EXPECT_EQ(bits(fast(x, x.size(0), Shape{2, 4}, Ints{0}, std::optional<Tensor>(), flags)),
              bits(full({2, 4}, 9)));
    EXPECT_EQ(bits(fast(x, x.size(1), Shape{2, 4}, Ints{0}, x[0], flags)), bits(full({2, 4}, 12)));
    EXPECT_EQ(bits(fast(x, x.size(0), Shape{3}, Ints{1}, std::nullopt, flags)),
              bits(full({3}, 12)));
  }
  const auto recordings = fast.explain().recordings;
  ASSERT_EQ(recordings.size(), 3u);
  EXPECT_THAT(recordings[1].reason, HasSubstr("argument 1 was 3, is 4"));
  EXPECT_THAT(recordings[2].reason, HasSubstr("argument 2"));
}

TEST(NamedArguments, ATextThatIsANullPointerIsAnError) {
  const auto fast = compile([](const Tensor& x, const char*) { return x * 2; });
  EXPECT_EQ(bits(fast(ones({2}), "double")), bits(full({2}, 2.0)));
  const char* const none = nullptr;
  try {
    (void)fast(ones({2}), none);
    FAIL() << "nothing was thrown";
  } catch (const ValueError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("argument 1 of a compiled function is a null pointer, no text"));
  }
  EXPECT_EQ(bits(fast(ones({2}), "double")), bits(full({2}, 2.0)));
}

TEST(NamedArguments, AreStatesOfLoops) {
  const auto fn = [](const Tensor& xs) {
    return scan(
               [](const Named& state, const Tensor& x) {
                 const Tensor sum = state.at("sum") + x;
                 return std::pair(Named{{"last", x}, {"sum", sum}}, sum * 2);
               },
               Named{{"last", zeros({2})}, {"sum", zeros({2})}}, xs)
        .first.at("sum");
  };
  const Tensor xs = reshape(arange(8), {4, 2}).to(f32);
  EXPECT_EQ(bits(compile(fn)(xs)), bits(fn(xs)));
  EXPECT_EQ(bits(fn(xs)), bits(sum(xs, {0})));
}

}  // namespace
}  // namespace dyad
