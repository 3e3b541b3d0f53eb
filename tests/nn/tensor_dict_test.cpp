#include "dyad/nn/tensor_dict.h"

#include <gmock/gmock.h>

#include "dyad/base/error.h"
#include "dyad/core/tensor_impl.h"

namespace dyad {
namespace {

using ::testing::HasSubstr;

TEST(TensorDict, KeepsTheOrderOfNames) {
  const Tensor x = make_empty(f32, {2});
  TensorDict dict{{"b", x}, {"a", x}};
  EXPECT_EQ(dict.begin()->first, "b");
  EXPECT_TRUE(dict.at("a").is_same(x));
  EXPECT_EQ(dict.find("c"), nullptr);
}

TEST(TensorDict, NamesAreUnique) {
  const Tensor x = make_empty(f32, {2});
  TensorDict dict{{"a", x}};
  EXPECT_THROW(dict.add("a", x), ValueError);
  EXPECT_EQ(dict.size(), 1u);
}

TEST(TensorDict, AMissingNameIsAnErrorThatNamesASimilarOne) {
  const Tensor x = make_empty(f32, {2});
  const TensorDict dict{{"conv1.weight", x}, {"conv1.bias", x}};
  try {
    (void)dict.at("conv1.wieght");
    FAIL();
  } catch (const IndexError& error) {
    EXPECT_THAT(error.what(), HasSubstr("no tensor is named 'conv1.wieght' among 2; did you mean "
                                        "'conv1.weight'?"));
  }
}

TEST(TensorDict, PrefixesAreAddedAndTakenOff) {
  const Tensor x = make_empty(f32, {2}), y = make_empty(f32, {3});
  TensorDict dict;
  dict.add_all("model.", {{"w", x}});
  dict.add_all("other.", {{"w", y}});
  EXPECT_TRUE(dict.at("model.w").is_same(x));
  EXPECT_EQ(dict.below("other.").size(), 1u);
  EXPECT_TRUE(dict.below("other.").at("w").is_same(y));
}

TEST(TensorDict, ATensorOfATemporaryIsAHandleOfItsOwn) {
  const auto made = [] { return TensorDict{{"w", make_empty(f32, {2})}}; };
  static_assert(std::is_same_v<decltype(made().at("w")), Tensor>);
  const Tensor& w = made().at("w");
  EXPECT_EQ(w.size(0), 2);
}

}  // namespace
}  // namespace dyad
