#include "dyad/data/digits.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "dyad/core/tensor_impl.h"
#include "tests/data/files.h"
#include "tests/shared/message_of.h"

namespace dyad::data {
namespace {

using dyad::testing::message_of;
using ::testing::HasSubstr;

TEST(Digits, AreDividedAndScaled) {
  const Digits digits = load_digits("data/digits");
  EXPECT_EQ(digits.name, "digits");
  EXPECT_EQ(type_string(digits.train_images), "f32[1400, 1, 8, 8]");
  EXPECT_EQ(type_string(digits.train_labels), "i64[1400]");
  EXPECT_EQ(type_string(digits.test_images), "f32[397, 1, 8, 8]");
  EXPECT_EQ(type_string(digits.test_labels), "i64[397]");
  // The first image's first row is 0 0 5 13 9 1 0 0 of 16.
  EXPECT_EQ(digits.train_images.data<float>()[2], 5.0f / 16);
  EXPECT_EQ(digits.train_images.data<float>()[3], 13.0f / 16);
  EXPECT_EQ(digits.train_labels.data<std::int64_t>()[9], 9);
  const auto [low, high] =
      std::minmax_element(digits.train_images.data<float>(),
                          digits.train_images.data<float>() + digits.train_images.impl()->numel());
  EXPECT_EQ(*low, 0.0f);
  EXPECT_EQ(*high, 1.0f);
}

TEST(Digits, AreFoundInASubfolder) { EXPECT_EQ(load_digits("data").name, "digits"); }

TEST(Digits, AFolderWithoutThemIsAnError) {
  EXPECT_THAT(message_of<IoError>([] { (void)load_digits("cmake"); }),
              HasSubstr("no digits in 'cmake': expected images-idx3-ubyte.gz"));
}

}  // namespace
}  // namespace dyad::data
