#include "dyad/ir/scalar.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "dyad/base/error.h"
#include "dyad/ir/scalar_evaluate.h"

namespace dyad::scalar {
namespace {

template <class To, class From>
To run(const ScalarProgram& p, std::initializer_list<From> inputs) {
  std::vector<std::uint64_t> bits;
  for (From v : inputs) bits.push_back(to_bits(v));
  return from_bits<To>(evaluate(p, bits).at(0));
}

TEST(Scalar, EqualInstructionsAreShared) {
  ScalarProgram p;
  const Scalar x = p.input(ScalarType::f32), y = p.input(ScalarType::f32);
  EXPECT_EQ((x + y).id(), (x + y).id());
  EXPECT_NE((x - y).id(), (y - x).id());
  EXPECT_EQ((x == y).id(), (y == x).id());
  EXPECT_EQ((x * 0.5).id(), (x * 0.5f).id());
}

TEST(Scalar, ConstantsFoldAndTakeTheirTypeFromTheOtherOperand) {
  ScalarProgram p;
  const Scalar x = p.input(ScalarType::f32);
  const Scalar c = x.like(3.0) * 2.0 + 1.0;
  ASSERT_TRUE(c.is_constant());
  EXPECT_EQ(p.instructions()[c.id()].imm, to_bits(7.0f));
  const Scalar n = p.input(ScalarType::i64);
  EXPECT_EQ((n + 1).type(), ScalarType::i64);
  EXPECT_EQ((1.0 / x).type(), ScalarType::f32);
  EXPECT_EQ((x < 1).type(), ScalarType::boolean);
}

template <class T>
void expect_exact_powers(double first, double last) {
  ScalarProgram p;
  const Scalar x = p.input(dtype_of<T>), n = p.input(dtype_of<T>);
  p.output(ldexp(x, n));
  for (const T factor : {T(0.251), T(1), T(1.3), T(-1.9999999), T(3.9)}) {
    for (double exponent = first; exponent <= last; ++exponent) {
      const T expected = std::ldexp(factor, static_cast<int>(exponent));
      EXPECT_EQ((run<T, T>(p, {factor, static_cast<T>(exponent)})), expected)
          << double(factor) << " * 2^" << exponent;
    }
  }
  EXPECT_TRUE(std::isnan(run<T, T>(p, {std::numeric_limits<T>::quiet_NaN(), T(3)})));
}

TEST(Scalar, LdexpRoundsOnceWhereResultsAreSubnormal) {
  expect_exact_powers<float>(-250, 250);
  expect_exact_powers<double>(-1200, 1200);
}

TEST(Scalar, LdexpTakesFloatsOfOneType) {
  ScalarProgram p;
  const Scalar x = p.input(ScalarType::f32), n = p.input(ScalarType::i32);
  EXPECT_THROW((void)ldexp(x, n), DTypeError);
  EXPECT_THROW((void)ldexp(n, n), DTypeError);
}

TEST(Scalar, RewritesKeepEveryBit) {
  ScalarProgram p;
  const Scalar x = p.input(ScalarType::f32), y = p.input(ScalarType::f32);
  EXPECT_EQ((-(-x)).id(), x.id());
  EXPECT_EQ(abs(-x).id(), abs(x).id());
  EXPECT_EQ(select(x < y, y, y).id(), y.id());
  EXPECT_EQ(select(true, x, y).id(), x.id());
  EXPECT_NE((x + 0.0).id(), x.id());  // -0 + 0 is 0
}

TEST(Scalar, PruneDropsWhatNoOutputNeeds) {
  ScalarProgram p;
  const Scalar x = p.input(ScalarType::f32), unused = p.input(ScalarType::f32);
  (void)(unused * 3.0);
  (void)p.param(4, ScalarType::f32);
  p.output(x + 1.0);
  p.prune();
  EXPECT_EQ(p.text(),
            "%0: f32 = input 0\n%1: f32 = input 1\n%2: f32 = constant 0x1p+0\n%3: f32 = add %0, "
            "%2\nreturn %3\n");
  EXPECT_EQ(p.param_count(), 0);
  EXPECT_EQ(p.cost(), 1);
}

TEST(Scalar, InlinedProgramComputesTheSame) {
  ScalarProgram square_plus;
  {
    const Scalar x = square_plus.input(ScalarType::f32);
    square_plus.output(x * x + square_plus.param(0, ScalarType::f32));
    square_plus.output(x * x);
  }
  ScalarProgram p;
  const Scalar x = p.input(ScalarType::f32);
  const Scalar half = x * 0.5;
  const auto outputs = p.inlined(square_plus, std::span(&half, 1));
  ASSERT_EQ(outputs.size(), 2u);
  p.output(outputs[0] - outputs[1]);
  const std::uint64_t in = to_bits(6.0f), slot = to_bits(2.5f);
  EXPECT_EQ(from_bits<float>(evaluate(p, {&in, 1}, {&slot, 1})[0]), 2.5f);
}

TEST(Scalar, LocsAreKeptButDoNotChangeTheText) {
  ScalarProgram a, b;
  a.set_loc(Loc::intern("model.cpp", 7));
  a.output(a.input(ScalarType::f32) * 2.0);
  b.output(b.input(ScalarType::f32) * 2.0);
  EXPECT_EQ(a.text(), b.text());
  EXPECT_NE(a.text(true).find("at model.cpp:7"), std::string::npos);
}

TEST(Scalar, TypesMustAgree) {
  ScalarProgram p;
  const Scalar x = p.input(ScalarType::f32), n = p.input(ScalarType::i64),
               b = p.input(ScalarType::boolean);
  const auto message = [](auto&& f) -> std::string {
    try {
      f();
    } catch (const DTypeError& e) {
      return e.message();
    }
    return "nothing thrown";
  };
  EXPECT_EQ(message([&] { (void)(x + n); }),
            "scalar add(f32, i64): operands differ in type; convert one of them");
  EXPECT_EQ(message([&] { (void)(n * 0.5); }),
            "scalar constant(number): a fraction cannot become i64");
  EXPECT_EQ(message([&] { (void)(b + b); }),
            "scalar add(bool, bool): takes numbers; convert booleans first");
  EXPECT_EQ(message([&] { (void)(sqrt(n)); }), "scalar sqrt(i64): takes floating-point numbers");
  EXPECT_EQ(
      message([&] { select(b, 1.0, 0.0); }),
      "scalar select(bool, number, number): no operand has a type; give one with x.like(number)");
  EXPECT_EQ(message([&] { select(x, x, x); }),
            "scalar select(f32, f32, f32): the condition must be a boolean");
  EXPECT_EQ(message([&] { bitcast(x, ScalarType::i64); }),
            "scalar bitcast(f32): cannot become i64, which has another width");
  EXPECT_EQ(message([&] { (void)compute_type(DType::c64); }),
            "a kernel cannot compute with elements of type c64");
}

TEST(Scalar, IntegerDivisionNeverTraps) {
  ScalarProgram p;
  const Scalar a = p.input(ScalarType::i32), b = p.input(ScalarType::i32);
  p.output(a / b);
  ScalarProgram q;
  const Scalar c = q.input(ScalarType::i32), d = q.input(ScalarType::i32);
  q.output(c % d);
  constexpr std::int32_t lowest = std::numeric_limits<std::int32_t>::min();
  EXPECT_EQ((run<std::int32_t, std::int32_t>(p, {-7, 2})), -3);
  EXPECT_EQ((run<std::int32_t, std::int32_t>(p, {7, 0})), 0);
  EXPECT_EQ((run<std::int32_t, std::int32_t>(p, {lowest, -1})), lowest);
  EXPECT_EQ((run<std::int32_t, std::int32_t>(q, {-7, 2})), -1);
  EXPECT_EQ((run<std::int32_t, std::int32_t>(q, {7, 0})), 0);
  EXPECT_EQ((run<std::int32_t, std::int32_t>(q, {lowest, -1})), 0);
}

TEST(Scalar, FloatToIntegerTruncatesAndSaturates) {
  ScalarProgram p;
  p.output(convert(p.input(ScalarType::f32), ScalarType::i32));
  EXPECT_EQ((run<std::int32_t, float>(p, {-1.9f})), -1);
  EXPECT_EQ((run<std::int32_t, float>(p, {3e9f})), std::numeric_limits<std::int32_t>::max());
  EXPECT_EQ((run<std::int32_t, float>(p, {-3e9f})), std::numeric_limits<std::int32_t>::min());
  EXPECT_EQ((run<std::int32_t, float>(p, {NAN})), 0);
  EXPECT_EQ((run<std::int32_t, float>(p, {INFINITY})), std::numeric_limits<std::int32_t>::max());
}

TEST(Scalar, CastRoundsAsStoring) {
  const auto through = [](DType dtype, double value) {
    ScalarProgram p;
    p.output(convert(cast(p.input(ScalarType::f64), dtype), ScalarType::f64));
    return run<double, double>(p, {value});
  };
  EXPECT_EQ(through(DType::f16, 2049.0), 2048.0);  // ties to even
  EXPECT_EQ(through(DType::f16, 1e6), INFINITY);
  EXPECT_EQ(through(DType::bf16, 257.0), 256.0);
  EXPECT_EQ(through(DType::bf16, 1.00390625 + 0x1p-20), 1.0078125);
  EXPECT_TRUE(std::isnan(through(DType::bf16, NAN)));
  EXPECT_EQ(through(DType::u8, 258.7), 2.0);
  EXPECT_EQ(through(DType::i8, 200.0), -56.0);
  EXPECT_EQ(through(DType::boolean, -0.5), 1.0);
}

TEST(Scalar, ComparisonsWithNan) {
  ScalarProgram p;
  const Scalar x = p.input(ScalarType::f32), y = p.input(ScalarType::f32);
  for (const Scalar& c : {x<y, x <= y, x> y, x >= y, x == y, x != y}) p.output(c);
  const std::uint64_t in[] = {to_bits(1.0f), to_bits(NAN)};
  EXPECT_EQ(evaluate(p, in), (std::vector<std::uint64_t>{0, 0, 0, 0, 0, 1}));
}

TEST(Scalar, ShiftCountsWrap) {
  ScalarProgram p;
  const Scalar x = p.input(ScalarType::i32);
  p.output(x << 33);
  p.output(x >> 1);
  p.output(shift_right_logical(x, 1));
  const std::uint64_t in = to_bits(std::int32_t{-4});
  EXPECT_EQ(evaluate(p, {&in, 1}),
            (std::vector<std::uint64_t>{0xFFFFFFF8u, 0xFFFFFFFEu, 0x7FFFFFFEu}));
}

}  // namespace
}  // namespace dyad::scalar
