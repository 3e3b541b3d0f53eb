#include <gtest/gtest.h>

#include "bad_calls.h"

namespace dyad::testing {
namespace {

TEST(Errors, OfQuantisationNameTheArgument) {
  expect_errors(
      {
          {Kind::shape, "quantize_linear(x: f32[2, 3]): scale has 4 elements but axis 1 of x has 3",
           CALL(quantize_linear(F(2, 3), F(4)))},
          {Kind::shape,
           "quantize_linear(x: f32[2, 3]): zero_point is u8[1, 2, 3]; it must be a scalar, a "
           "vector along an axis, or have the axes of x",
           CALL(quantize_linear(F(2, 3), 0.5, make(u8, {1, 2, 3})))},
          {Kind::shape,
           "quantize_linear(x: f32[2, 6]): axis 1 has 6 elements, 3 blocks of 2, but scale is "
           "f32[2, 4]",
           CALL(quantize_linear(F(2, 6), F(2, 4), {}, {.block_size = 2}))},
          {Kind::shape,
           "quantize_linear(x: f32[2, 6]): blocks need scale and zero_point with the axes of x, "
           "but they are f32[6] and u8[6]",
           CALL(quantize_linear(F(2, 6), F(6), {}, {.block_size = 2}))},
          {Kind::shape, "quantize_linear(x: f32[2, 6]): block_size = -1 must not be negative",
           CALL(quantize_linear(F(2, 6), F(2, 6), {}, {.block_size = -1}))},
          {Kind::dtype,
           "quantize_linear(x: f32[2]): the result is to be i8 but zero_point is u8[]; they have "
           "one dtype",
           CALL(quantize_linear(F(2), 0.5, make(u8, {}), {.dtype = i8}))},
          {Kind::dtype,
           "quantize_linear(x: f32[2], scale: f32[], zero_point: u8[], precision = i32): precision "
           "must be a floating dtype but is i32",
           CALL(quantize_linear(F(2), make(f32, {}), make(u8, {}), {.precision = i32}))},
          {Kind::dtype,
           "dequantize_linear(x: u8[2], scale: f32[], zero_point: u8[], dtype = i32): the result "
           "must be floating but is i32",
           CALL(dequantize_linear(make(u8, {2}), make(f32, {}), make(u8, {}), {.dtype = i32}))},
          {Kind::shape,
           "dequantize_linear(x: u8[2, 3]): scale has 2 elements but axis 1 of x has 3",
           CALL(dequantize_linear(make(u8, {2, 3}), F(2)))},
          {Kind::value,
           "fake_quantize(x: f32[2], scale: f32[], zero_point: i32[], low = 7, high = 7): low = 7 "
           "must be below high = 7",
           CALL(fake_quantize(F(2), make(f32, {}), make(i32, {}), 7, 7))},
          {Kind::dtype,
           "dynamic_quantize_linear(x: i64[3]): x must be f32 but is i64; cast it with x.to(f32)",
           CALL(dynamic_quantize_linear(I(3)))},
      },
      "quantized_errors_test.cpp");
}

TEST(Errors, OfBitsReadAsAnotherDtype) {
  expect_errors(
      {
          {Kind::dtype,
           "bitcast(x: f32[2], dtype = i64): elements of f32 have 32 bits and cannot be read as "
           "i64; to() converts numbers instead of reading bits",
           CALL(bitcast(F(2), i64))},
          {Kind::dtype,
           "bitcast(x: u8[2], dtype = bool): bits that are neither 0 nor 1 are no bool; use ne(x, "
           "0)",
           CALL(bitcast(make(u8, {2}), boolean))},
          {Kind::dtype,
           "bitcast(x: i4[2], dtype = i8): elements of i4 have 4 bits and cannot be read as i8; "
           "to() converts numbers instead of reading bits",
           CALL(bitcast(make(i4, {2}), i8))},
      },
      "quantized_errors_test.cpp");
}

TEST(Errors, OfIntegerProductsNameTheArgument) {
  const auto byte = [](const Make& make, Shape shape) { return make(u8, std::move(shape)); };
  expect_errors(
      {
          {Kind::shape,
           "matmul_integer(a: u8[2, 3], b: u8[4, 2], a_zero_point: none, b_zero_point: none): "
           "columns of a = 3 but rows of b = 4",
           [&](const Make& m) { (void)matmul_integer(byte(m, {2, 3}), byte(m, {4, 2})); }},
          {Kind::shape,
           "matmul_integer(a: u8[], b: u8[4, 2], a_zero_point: none, b_zero_point: none): a has 0 "
           "axes, a matrix product needs 1 or more",
           [&](const Make& m) { (void)matmul_integer(byte(m, {}), byte(m, {4, 2})); }},
          {Kind::shape,
           "qlinear_matmul(a: u8[3], a_scale: f32[], a_zero_point: u8[], b: u8[3, 2], b_scale: "
           "f32[], b_zero_point: u8[], scale: f32[], zero_point: u8[]): a has 1 axis, a matrix "
           "product needs 2 or more",
           [&](const Make& m) {
             const Tensor scale = m(f32, {}), point = m(u8, {});
             (void)qlinear_matmul({byte(m, {3}), scale, point}, {byte(m, {3, 2}), scale, point},
                                  scale, point);
           }},
          {Kind::shape,
           "matmul_integer(a: u8[2, 3], b: u8[3, 2], a_zero_point: u8[3], b_zero_point: none): "
           "a_zero_point must be a scalar or have one number for each of the 2 rows, but is [3]",
           [&](const Make& m) {
             (void)matmul_integer(byte(m, {2, 3}), byte(m, {3, 2}), byte(m, {3}));
           }},
          {Kind::shape,
           "matmul_integer(a: u8[2, 3], b: u8[3, 2], a_zero_point: none, b_zero_point: u8[2, 1]): "
           "b_zero_point is [2, 1], which does not fit [3, 2]: it has one number for each column",
           [&](const Make& m) {
             (void)matmul_integer(byte(m, {2, 3}), byte(m, {3, 2}), {}, byte(m, {2, 1}));
           }},
          {Kind::dtype,
           "matmul_integer(a: u8[2, 3], b: u8[3, 2], a_zero_point: i8[], b_zero_point: none): "
           "a_zero_point is i8 but a is u8; they have one dtype",
           [&](const Make& m) {
             (void)matmul_integer(byte(m, {2, 3}), byte(m, {3, 2}), m(i8, {}));
           }},
          {Kind::shape,
           "conv_integer(x: u8[1, 3, 4, 4], weight: u8[2, 4, 3, 3], x_zero_point: none, "
           "weight_zero_point: none): x has 3 channels but weight takes 4",
           [&](const Make& m) {
             (void)conv_integer(byte(m, {1, 3, 4, 4}), byte(m, {2, 4, 3, 3}));
           }},
          {Kind::shape,
           "qlinear_matmul(a: u8[2, 3], a_scale: f32[], a_zero_point: u8[], b: u8[3, 2], b_scale: "
           "f32[3], b_zero_point: u8[], scale: f32[], zero_point: u8[]): b_scale must be a scalar "
           "or have one number for each of the 2 columns, but is [3]",
           [&](const Make& m) {
             (void)qlinear_matmul({byte(m, {2, 3}), m(f32, {}), byte(m, {})},
                                  {byte(m, {3, 2}), m(f32, {3}), byte(m, {})}, m(f32, {}),
                                  byte(m, {}));
           }},
          {Kind::shape,
           "qlinear_conv(x: u8[1, 2, 4], x_scale: f32[], x_zero_point: u8[], weight: u8[3, 2, 2], "
           "weight_scale: f32[], weight_zero_point: u8[], scale: f32[], zero_point: u8[], bias: "
           "i32[2], stride = [1], low = [0], high = [0], dilation = [1]): bias must be [3], the "
           "output channels, but is [2]",
           [&](const Make& m) {
             (void)qlinear_conv({byte(m, {1, 2, 4}), m(f32, {}), byte(m, {})},
                                {byte(m, {3, 2, 2}), m(f32, {}), byte(m, {})}, m(f32, {}),
                                byte(m, {}), m(i32, {2}));
           }},
      },
      "quantized_errors_test.cpp");
}

}  // namespace
}  // namespace dyad::testing
