#include "rows.h"

// Element by element: elementary and special functions, activations, comparisons, bits.

namespace dyad::testing {
namespace {

const std::vector<double> kReals{0.5, 2, -1, 0.1, 3, 0, -0.25};

std::vector<Row> elementary_rows() {
  return {
      {DYAD_ROW(erfcx(x)), floats()},
      {DYAD_ROW(ndtr(x)), floats()},
      {DYAD_ROW(log_ndtr(x)), floats()},
      {DYAD_ROW(ndtri(sigmoid(x))), floats()},
      {DYAD_ROW(entr(x)), floats()},
      {DYAD_ROW(i1(x)), floats()},
      {DYAD_ROW(i0e(x)), floats()},
      {DYAD_ROW(i1e(x)), floats()},
      {DYAD_ROW(sinc(x, i)), floats() + whole(1, 3)},
      {DYAD_ROW(logit(x)), floats()},
      {DYAD_ROW(logit(sigmoid(x), 0.125)), floats()},
      {DYAD_ROW(deg2rad(x)), floats()},
      {DYAD_ROW(rad2deg(x)), floats()},
      {DYAD_ROW(polygamma(i, x)), whole(0, 3) + floats()},
      {DYAD_ROW(mvlgamma(above_zero(x) + 1, i)), floats() + whole(1, 3)},
      {DYAD_ROW(zeta(above_zero(x) + 1, above_zero(y))), floats() + beside()},
      {DYAD_ROW(logaddexp2(x, y)), floats() + beside()},
      {DYAD_ROW(xlog1py(x, y)), floats() + beside()},
      {DYAD_ROW(float_power(x, y)), numbers() + beside(is_number)},
      {DYAD_ROW(float_power(x, a)), numbers() + real({0.5, 2, -1, 3})},
      {DYAD_ROW(pow(a, x)), numbers() + real({0.5, 2, -1, 3})},
      {DYAD_ROW(nextafter(x, y)), wide_floats() + alike()},
      {DYAD_ROW(ldexp(x, y)), floats() + beside(is_whole)},
      {DYAD_ROW(frexp(x)), floats()},
      {DYAD_ROW(modf(x)), floats()},
      {DYAD_ROW(addcdiv(x, y, z, a)), floats() + beside() + beside() + real(kReals)},
      {DYAD_ROW(lerp(x, y, z)), floats() + beside() + beside()},
      {DYAD_ROW(div(x, y, "floor")), numbers() + beside(is_number)},
      {DYAD_ROW(div(x, y, "trunc")), numbers() + beside(is_number)},
      {DYAD_ROW(floor_divide(x, a)), numbers() + real({0.5, 2, -3})},
      {DYAD_ROW(remainder(x, a)), numbers() + real({0.5, 2, -3})},
      {DYAD_ROW(fmod(a, x)), numbers() + real({0.5, 2, -3})},
      {DYAD_ROW(atan2(x, a)), floats() + real(kReals)},
      {DYAD_ROW(copysign(x, a)), floats() + real(kReals)},
      {DYAD_ROW(heaviside(x, a)), floats() + real(kReals)},
      {DYAD_ROW(minimum(x, a)), numbers() + real(kReals)},
      {DYAD_ROW(fmax(x, a)), floats() + real(kReals)},
      {DYAD_ROW(hypot(a, x)), floats() + real(kReals)},
      {DYAD_ROW(round(x, i)), floats() + whole(-1, 2)},
      {DYAD_ROW(clamp(x, y, z)), numbers() + beside(is_number) + beside(is_number)},
      {DYAD_ROW(clamp(x, y)), numbers() + beside(is_number)},
      {DYAD_ROW(nan_to_num(x, a, 5, -5)), floats() + real(kReals)},
      {DYAD_ROW(masked_fill(x, y, sum(x))), floats() + beside(is_bool)},
      {DYAD_ROW(where(x, y, a)), bools() + beside(any_value) + real(kReals)},
      {DYAD_ROW(prod(stack({x, y, x}), {0})), numbers(0, 3) + alike()},
      {DYAD_ROW(to(to(x, dtype), f32)), numbers() + dtypes({f16, bf16, f64, i32, u8, boolean})},
      {DYAD_ROW(cast(x, dtype)), numbers() + dtypes({f32, f16, bf16, f64, f8e4m3fn, f8e5m2})},
  };
}

std::vector<Row> activation_rows() {
  return {
      {DYAD_ROW(gelu(x, true)), floats()},
      {DYAD_ROW(quick_gelu(x)), floats()},
      {DYAD_ROW(swish(x, a)), floats() + real({0.5, 1, 2})},
      {DYAD_ROW(thresholded_relu(x, a)), floats() + real({0.25, 1})},
      {DYAD_ROW(threshold(x, a, b)), floats() + real(kReals) + real(kReals)},
      {DYAD_ROW(leaky_relu(x, a)), floats() + real({0.25, -0.5, 1})},
      {DYAD_ROW(elu(x, a)), floats() + real({0.25, 2})},
      {DYAD_ROW(celu(x, a)), floats() + real({0.25, 2})},
      {DYAD_ROW(hardtanh(x, a, b)), floats() + real({-2, -0.5}) + real({0.5, 1})},
      {DYAD_ROW(hardsigmoid(x, a, b)), floats() + real({0.25, 0.5}) + real({0.25, 0.5})},
      {DYAD_ROW(hardshrink(x, a)), floats() + real({0, 1})},
      {DYAD_ROW(softshrink(x, a)), floats() + real({0, 1})},
      {DYAD_ROW(prelu(x, y)), floats(2) + sized({1})},
      {DYAD_ROW(prelu(x, y)), floats() + alike(0, 0)},
      {DYAD_ROW(rrelu(x)), floats()},
  };
}

std::vector<Row> comparison_rows() {
  return {
      {DYAD_ROW(ne(x, y)), value() + beside(any_value)},
      {DYAD_ROW(le(x, y)), numbers() + beside(is_number)},
      {DYAD_ROW(gt(x, y)), numbers() + beside(is_number)},
      {DYAD_ROW(ge(x, y)), numbers() + beside(is_number)},
      {DYAD_ROW(eq(x, a)), numbers() + real(kReals)},
      {DYAD_ROW(logical_or(x, y)), value() + beside(any_value)},
      {DYAD_ROW(isinf(x)), floats()},
      {DYAD_ROW(isinf(x, false, true)), floats()},
      {DYAD_ROW(isposinf(x)), floats()},
      {DYAD_ROW(isneginf(x)), floats()},
      {DYAD_ROW(isclose(x, y, 0.125, 0.25)), floats() + beside()},
      {DYAD_ROW(isclose(x, y, 1e-3, 1e-3, true)), floats() + beside()},
      {DYAD_ROW(allclose(x, y, 0.25, 0.5)), floats() + beside()},
      {DYAD_ROW(equal(x, y)), value() + value()},
      {DYAD_ROW(bitcast(nan_to_num(x), i32)), of_dtype(f32)},
      {DYAD_ROW(bitcast(nan_to_num(to(x, f64)), i64)), floats()},
      {DYAD_ROW(bitcast(nan_to_num(to(x, bf16)), i16)), floats()},
      {DYAD_ROW(bitcast(to(x, i32), f32)), wholes()},
      {DYAD_ROW(bitcast(to(x, i8), u8)), wholes()},
      {DYAD_ROW(bitwise_and(x, i)), wholes() + whole(1, 7)},
      {DYAD_ROW(bitwise_or(x, i)), wholes() + whole(1, 7)},
      {DYAD_ROW(bitwise_left_shift(x, i)), wholes() + whole(0, 3)},
      {DYAD_ROW(bitwise_right_shift(x, i)), wholes() + whole(0, 3)},
  };
}

}  // namespace

void add_wide_pointwise(Instructions& list) {
  add_rows(list, elementary_rows());
  add_rows(list, activation_rows());
  add_rows(list, comparison_rows());
}

}  // namespace dyad::testing
