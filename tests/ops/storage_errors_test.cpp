#include <gtest/gtest.h>

#include "bad_calls.h"

namespace dyad::testing {
namespace {

TEST(Errors, OfComplexNumbersNameTheArgument) {
  expect_errors(
      {
          {Kind::dtype,
           "view_as_real(x: f32[2]): x must be one of c128 c64 but is f32; cast it with x.to(c128)",
           CALL(view_as_real(F(2)))},
          {Kind::dtype,
           "view_as_complex(x: i64[2]): x must be one of f64 f32 but is i64; cast it with "
           "x.to(f32)",
           CALL(view_as_complex(I(2)))},
          {Kind::shape,
           "view_as_complex(x: f32[2, 3]): the last axis must have size 2, the real and the "
           "imaginary part",
           CALL(view_as_complex(F(2, 3)))},
          {Kind::shape,
           "complex(f32[2], f32[3]): the shapes do not broadcast; sizes must be equal or one of "
           "them 1",
           CALL(complex(F(2), F(3)))},
          {Kind::dtype, "imag(f32[2]): real numbers have no imaginary part", CALL(imag(F(2)))},
          {Kind::dtype,
           "sin(x: c64[2]): x must be one of f64 f32 f16 bf16 i64 i32 i16 i8 u64 u32 "
           "u16 u8 bool but is c64; cast it with x.to(f32)",
           CALL(sin(complex(F(2), F(2))))},
      },
      "storage_errors_test.cpp");
}

}  // namespace
}  // namespace dyad::testing
