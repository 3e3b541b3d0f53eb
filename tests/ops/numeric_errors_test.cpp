#include <gtest/gtest.h>

#include "bad_calls.h"

namespace dyad::testing {
namespace {

const std::vector<BadCall> kNumericCalls = {
    {Kind::dtype,
     "gcd(a: f32[2], b: f32[2]): a must be one of i64 i32 i16 i8 u64 u32 u16 u8 but is f32; cast "
     "it with a.to(i64)",
     CALL(gcd(F(2), F(2)))},
    {Kind::value,
     "sinc(x: f32[2], derivative = 9): the order of the derivative must be from 0 to 8",
     CALL(sinc(F(2), 9))},
    {Kind::value, "logit(f32[2], eps = 0.700000): eps must be from 0 to 0.5",
     CALL(logit(F(2), 0.7))},
    {Kind::value, "isclose(rtol = -1.000000, atol = 0.000000): tolerances must be at least 0",
     CALL(isclose(F(2), F(2), -1, 0))},
    {Kind::dtype,
     "nextafter(x: f32[2], y: i64[2]): y must be one of f64 f32 but is i64; cast it with y.to(f32)",
     CALL(nextafter(F(2), I(2)))},
};

TEST(Errors, OfFunctionsOfNumbers) { expect_errors(kNumericCalls, "numeric_errors_test.cpp"); }

}  // namespace
}  // namespace dyad::testing
