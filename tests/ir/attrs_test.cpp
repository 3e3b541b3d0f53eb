#include "dyad/ir/attrs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "dyad/ir/literal.h"
#include "tests/ir/ops_for_tests.h"

namespace dyad::testing {
namespace {

const AttrsInfo& kInfo = attrs_info<EveryAttrs>;

EveryAttrs filled() {
  return {.flag = true,
          .count = -7,
          .rate = 0.1,
          .note = "a \"b\"\n",
          .dtype = DType::bf16,
          .size = Dim("n") + 1,
          .axes = {0, -1},
          .shape = {"n", 3},
          .value = values({2.5f}, {})};
}

TEST(Attrs, Text) {
  const EveryAttrs attrs = filled();
  EXPECT_EQ(to_string(kInfo, &attrs),
            "{flag = true, count = -7, rate = 0.1, note = \"a \\\"b\\\"\\n\", dtype = bf16, "
            "size = n + 1, axes = [0, -1], shape = [n, 3], value = f32[] 2.5}");
  const NoAttrs none;
  EXPECT_EQ(to_string(attrs_info<NoAttrs>, &none), "");
}

TEST(Attrs, TextOfATensorThatIsLargeOrMissing) {
  EveryAttrs attrs;
  EXPECT_TRUE(to_string(kInfo, &attrs).ends_with("value = none}"));
  attrs.value = values({1, 2, 3}, {3});
  EXPECT_TRUE(to_string(kInfo, &attrs).ends_with("value = f32[3]}"));
}

TEST(Attrs, EqualAndHashMeetEveryMember) {
  const EveryAttrs a = filled();
  const auto differs = [&](auto change) {
    EveryAttrs b = filled();
    b.value = a.value;
    EXPECT_TRUE(attrs_equal(kInfo, &a, &b));
    EXPECT_EQ(attrs_hash(kInfo, &a), attrs_hash(kInfo, &b));
    change(b);
    EXPECT_NE(attrs_hash(kInfo, &a), attrs_hash(kInfo, &b));
    return !attrs_equal(kInfo, &a, &b);
  };
  EXPECT_TRUE(differs([](EveryAttrs& b) { b.flag = false; }));
  EXPECT_TRUE(differs([](EveryAttrs& b) { b.count = 7; }));
  EXPECT_TRUE(differs([](EveryAttrs& b) { b.rate = std::nextafter(0.1, 1); }));
  EXPECT_TRUE(differs([](EveryAttrs& b) { b.note += ' '; }));
  EXPECT_TRUE(differs([](EveryAttrs& b) { b.dtype = DType::f16; }));
  EXPECT_TRUE(differs([](EveryAttrs& b) { b.size = Dim("n"); }));
  EXPECT_TRUE(differs([](EveryAttrs& b) { b.axes.push_back(1); }));
  EXPECT_TRUE(differs([](EveryAttrs& b) { b.shape[0] = "m"; }));
  EXPECT_TRUE(differs([](EveryAttrs& b) { b.value = values({2.75f}, {}); }));
}

TEST(Attrs, NaNEqualsItselfAndZerosDiffer) {
  EveryAttrs a, b;
  a.rate = b.rate = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(attrs_equal(kInfo, &a, &b));
  a.rate = 0.0;
  b.rate = -0.0;
  EXPECT_FALSE(attrs_equal(kInfo, &a, &b));
}

TEST(Attrs, TensorsAreEqualByElementsWhenSmall) {
  EveryAttrs a, b;
  a.value = values({1, 2}, {2});
  b.value = values({1, 2}, {2});
  EXPECT_TRUE(attrs_equal(kInfo, &a, &b));
  EXPECT_EQ(attrs_hash(kInfo, &a), attrs_hash(kInfo, &b));
  b.value = values({1, 2}, {1, 2});
  EXPECT_FALSE(attrs_equal(kInfo, &a, &b));
  b.value = Tensor();
  EXPECT_FALSE(attrs_equal(kInfo, &a, &b));

  a.value = values(std::vector<float>(17, 1.f), {17});
  b.value = values(std::vector<float>(17, 1.f), {17});
  EXPECT_FALSE(attrs_equal(kInfo, &a, &b));
  EXPECT_TRUE(attrs_equal(kInfo, &a, &b, true));
  b.value = a.value;
  EXPECT_TRUE(attrs_equal(kInfo, &a, &b));
}

TEST(Attrs, ElementsAreReadInLogicalOrder) {
  const Tensor base = values({1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor transposed = make_view(base, {3, 2}, {1, 3}, 0);
  const std::vector<std::byte> bytes = packed_elements(transposed);
  std::vector<float> read(6);
  std::memcpy(read.data(), bytes.data(), bytes.size());
  EXPECT_EQ(read, (std::vector<float>{1, 4, 2, 5, 3, 6}));
}

TEST(Literal, Numbers) {
  EXPECT_EQ(number_text(2), "2.0");
  EXPECT_EQ(number_text(-0.0), "-0.0");
  EXPECT_EQ(number_text(1e300), "1e+300");
  EXPECT_EQ(number_text(-std::numeric_limits<double>::infinity()), "-inf");
  EXPECT_EQ(quote("tab\t\x7f"), "\"tab\\x09\\x7f\"");
}

TEST(Literal, ElementsOfEachDType) {
  const auto text = [](DType dtype, auto value) {
    return element_text(dtype, reinterpret_cast<const std::byte*>(&value));
  };
  EXPECT_EQ(text(f32, 0.1f), "0.1");
  EXPECT_EQ(text(f64, 0.1), "0.1");
  EXPECT_EQ(text(f16, to_half(0.5f)), "0.5");
  EXPECT_EQ(text(bf16, to_bfloat16(-3.f)), "-3.0");
  EXPECT_EQ(text(i64, std::numeric_limits<std::int64_t>::min()), "-9223372036854775808");
  EXPECT_EQ(text(u8, std::uint8_t{200}), "200");
  EXPECT_EQ(text(i8, std::int8_t{-3}), "-3");
  EXPECT_EQ(text(boolean, true), "true");
  EXPECT_EQ(text(f32, std::uint32_t{0x7FC00000}), "nan");
  EXPECT_EQ(text(f32, std::uint32_t{0xFFC00001}), "nan:0xffc00001");
  EXPECT_EQ(text(f16, std::uint16_t{0x7E01}), "nan:0x7e01");
}

}  // namespace
}  // namespace dyad::testing
