#include <gtest/gtest.h>

#include "bad_calls.h"
#include "cases.h"
#include "dyad/core/create.h"

namespace dyad::testing {
namespace {

const std::vector<BadCall> kPointwiseCalls = {
    {Kind::value, "polygamma(x: f32[2], n = -1): the order n must be from 0 to 20",
     CALL(polygamma(-1, F(2)))},
    {Kind::value, "softplus(x: f32[2], beta = 0.0): beta = 0.0 must be above 0",
     CALL(softplus(F(2), 0))},
    {Kind::value, "celu(f32[2]): alpha must not be 0", CALL(celu(F(2), 0))},
    {Kind::value, "hardtanh(x: f32[2], low = 1.0): low = 1.0 must be below high = 1.0",
     CALL(hardtanh(F(2), 1, 1))},
    {Kind::value, "shrink(x: f32[2], lambda = -1.0): lambda = -1.0 must be at least 0",
     CALL(hardshrink(F(2), -1))},
    {Kind::shape, "glu(f32[2, 3], axis = -1): the size 3 of the axis must be even",
     CALL(glu(F(2, 3)))},
    {Kind::shape, "swiglu(f32[3, 2], axis = 0): the size 3 of the axis must be even",
     CALL(swiglu(F(3, 2), 0))},
    {Kind::shape,
     "prelu(x: f32[2, 3], weight: f32[3, 1]): the weight is one slope or one for each channel, of "
     "rank 0 or 1; where(x > 0, x, x * weight) takes any",
     CALL(prelu(F(2, 3), F(3, 1)))},
    {Kind::index, "hardmax(x: f32[2, 3], axis = 2): axis 2 is out of range for 2 axes (-2 to 1)",
     CALL(hardmax(F(2, 3), 2))},
    {Kind::dtype,
     "bitwise_and(a: f32[2], b: f32[2]): a must be one of i64 i32 i16 i8 u64 u32 u16 u8 bool but "
     "is "
     "f32; cast it with a.to(i64)",
     CALL(bitwise_and(F(2), F(2)))},
    {Kind::dtype, "pow(a: bool[2], b: bool[2]): bool tensors have no powers; cast one with to()",
     CALL(pow(make(boolean, {2}), make(boolean, {2})))},
    {Kind::dtype,
     "fmod(a: bool[2], b: bool[2]): bool tensors are not divided with a remainder; cast one with "
     "to()",
     CALL(fmod(make(boolean, {2}), make(boolean, {2})))},
    {Kind::dtype,
     "bitwise_left_shift(a: bool[2], count: bool[2]): bool tensors have no bits to shift; cast one "
     "with to()",
     CALL(bitwise_left_shift(make(boolean, {2}), make(boolean, {2})))},
    {Kind::dtype,
     "frac(x: i64[2]): x must be one of f64 f32 f16 bf16 but is i64; cast it with x.to(f32)",
     CALL(frac(I(2)))},
};

TEST(Errors, OfPointwiseFunctions) { expect_errors(kPointwiseCalls, "pointwise_errors_test.cpp"); }

class Bits : public Interpreted {};

TEST_F(Bits, AreOperatorsToo) {
  const Tensor a = arange(4), mask = a > 1;
  EXPECT_EQ((a & 2).to_vector<double>(), (std::vector<double>{0, 0, 2, 2}));
  EXPECT_EQ((a | 2).to_vector<double>(), (std::vector<double>{2, 3, 2, 3}));
  EXPECT_EQ((a ^ 3).to_vector<double>(), (std::vector<double>{3, 2, 1, 0}));
  EXPECT_EQ((~a).to_vector<double>(), (std::vector<double>{-1, -2, -3, -4}));
  EXPECT_EQ((mask & ~(a == 3)).to_vector<double>(), (std::vector<double>{0, 0, 1, 0}));
  EXPECT_EQ((a & 2).dtype(), i64);
  EXPECT_EQ((mask ^ mask).dtype(), boolean);
}

/// Numbers of the host are operands like others, and decide the dtype beside bool.
TEST_F(Bits, OfBoolMeetNumbers) {
  const Tensor mask = tensor({true, false});
  EXPECT_EQ(type_string(maximum(mask, false)), "bool[2]");
  EXPECT_EQ(type_string(fmin(mask, mask)), "bool[2]");
  EXPECT_EQ(type_string(pow(mask, 2)), "i64[2]");
  EXPECT_EQ(type_string(pow(mask, 0.5)), "f32[2]");
  EXPECT_EQ(type_string(remainder(mask, 2)), "i64[2]");
  EXPECT_EQ(bitwise_left_shift(mask, 3).to_vector<double>(), (std::vector<double>{8, 0}));
  EXPECT_EQ(floor_divide(mask, -2).to_vector<double>(), (std::vector<double>{-1, 0}));
  EXPECT_EQ(type_string(heaviside(mask, mask)), "bool[2]");
}

}  // namespace
}  // namespace dyad::testing
