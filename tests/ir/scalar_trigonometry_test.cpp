#include <fstream>
#include <sstream>
#include <string>

#include "dyad/ir/scalar_schedule.h"
#include "scalar_accuracy.h"

namespace dyad::scalar {
namespace {

struct FarCase {
  std::string format;
  double x;
  long double expected[3];  // sine, cosine and tangent
};

const std::vector<FarCase>& far_cases() {
  static const std::vector<FarCase> cases = [] {
    std::vector<FarCase> read;
    std::ifstream in("tests/ir/data/trigonometry.txt");
    for (std::string line; std::getline(in, line);) {
      std::istringstream words(line);
      FarCase& c = read.emplace_back();
      std::string number;
      words >> c.format >> number;
      c.x = std::strtod(number.c_str(), nullptr);
      for (long double& value : c.expected) {
        words >> number;
        value = std::strtold(number.c_str(), nullptr);
      }
    }
    return read;
  }();
  return cases;
}

using TrigFunction = Scalar (*)(Scalar);
constexpr TrigFunction kFunctions[] = {sin, cos, tan};

template <class T>
void expect_far(const std::string& format, const double (&bounds)[3]) {
  ScalarProgram p;
  const Scalar x = p.input(dtype_of<T>);
  for (const TrigFunction f : kFunctions) p.output(f(x));
  int count = 0;
  for (const FarCase& c : far_cases()) {
    if (c.format != format) continue;
    ++count;
    for (const double side : {1.0, -1.0}) {
      const std::uint64_t in = to_bits(static_cast<T>(side * c.x));
      const auto out = evaluate(p, {&in, 1});
      for (int k = 0; k < 3; ++k) {
        const long double exact = k == 1 ? c.expected[k] : side * c.expected[k];
        EXPECT_LE(ulps(from_bits<T>(out[k]), exact), bounds[k])
            << "function " << k << " of " << format << " at " << std::hexfloat << side * c.x;
      }
    }
  }
  EXPECT_GT(count, 250);
}

TEST(ScalarTrigonometry, FarF32) { expect_far<float>("f32", {1, 1, 3}); }
TEST(ScalarTrigonometry, FarF64) { expect_far<double>("f64", {2, 2, 3}); }

TEST(ScalarTrigonometry, OfInfinityIsNan) {
  for (const ScalarType type : {ScalarType::f32, ScalarType::f64}) {
    ScalarProgram p;
    const Scalar x = p.input(type);
    for (const TrigFunction f : kFunctions) p.output(f(x));
    for (const double at : {double{INFINITY}, double{-INFINITY}, double{NAN}}) {
      const std::uint64_t in = slot_bits(type, at);
      for (const std::uint64_t out : evaluate(p, {&in, 1}))
        EXPECT_TRUE(
            std::isnan(type == ScalarType::f32 ? from_bits<float>(out) : from_bits<double>(out)));
    }
  }
}

TEST(ScalarTrigonometry, NearFunctionsGiveTheSameBits) {
  ScalarProgram p;
  const Scalar x = p.input(ScalarType::f64);
  for (const Scalar y : {sin(x), sin_near(x), cos(x), cos_near(x), tan(x), tan_near(x)})
    p.output(y);
  for (const double at : samples<double>(-0x1p40, 0x1p40, 200)) {
    if (std::fabs(at) > 0x1p40) continue;
    const std::uint64_t in = to_bits(at);
    const auto out = evaluate(p, {&in, 1});
    for (int k = 0; k < 6; k += 2) EXPECT_EQ(out[k], out[k + 1]) << std::hexfloat << at;
  }
}

TEST(TwoOverPi, BitsAreThoseBehindThePoint) {  // A2F9836E 4E441529 FC2757D1 F534DDC0 DB629599...
  ScalarProgram p;
  p.output(p.record(Op::two_over_pi, ScalarType::i64, {p.input(ScalarType::i64)}));
  const auto bits = [&](std::int64_t from) {
    const std::uint64_t in = to_bits(from);
    return evaluate(p, {&in, 1})[0];
  };
  EXPECT_EQ(bits(0), 0xA2F9836E4E441529u >> 10);
  EXPECT_EQ(bits(10), 0xA2F9836E4E441529u & 0x3FFFFFFFFFFFFFu);
  EXPECT_EQ(bits(32), 0x4E441529FC2757D1u >> 10);
  EXPECT_EQ(bits(-10), 0xA2F9836E4E441529u >> 20);
  EXPECT_EQ(bits(-54), 0u);
  EXPECT_EQ(bits(-1000), 0u);
  EXPECT_EQ(bits(1162), 0x33046FC7B6BABu);  // the last of the table
  EXPECT_EQ(bits(5000), bits(1162));
}

/// Where each instruction stands in the order of running.
std::vector<std::size_t> places(const std::vector<ScheduledStep>& steps, std::size_t size) {
  std::vector<std::size_t> at(size, SIZE_MAX);
  for (std::size_t s = 0; s < steps.size(); ++s)
    if (steps[s].guarded == 0) at[steps[s].id] = s;
  return at;
}

TEST(Schedule, WhatOnlyRareChoicesNeedIsGuarded) {
  ScalarProgram p;
  const Scalar x = p.input(ScalarType::f32), y = p.input(ScalarType::f32);
  const Scalar rare = x > 9.0, alone = sqrt(x), both = y * 3.0, half = alone + both;
  const Scalar a = select_rarely(rare, half, x), b = select_rarely(rare, floor(alone), y);
  p.output(a + both);
  p.output(b);
  const auto steps = schedule(p.instructions(), p.outputs());
  const auto at = places(steps, p.instructions().size());
  std::size_t guard = 0;
  while (steps[guard].guarded == 0) ++guard;
  EXPECT_EQ(steps[guard].id, a.id());
  // floor was recorded between the two: they make groups of their own.
  EXPECT_EQ(steps[guard].selects, 1u);
  EXPECT_LT(at[both.id()], guard);   // another needs it too
  EXPECT_LT(at[alone.id()], guard);  // both groups do
  EXPECT_EQ(at[half.id()], guard + 1);
}

TEST(Schedule, ChoicesInARowShareAGuard) {
  ScalarProgram p;
  const Scalar x = p.input(ScalarType::f32);
  const Scalar rare = x > 9.0, root = sqrt(x), whole = floor(root), inner = root > 20.0;
  const Scalar deep = select_rarely(inner, whole * 2.0, whole);
  const Scalar a = select_rarely(rare, deep, x), b = select_rarely(rare, root, x);
  p.output(a);
  p.output(b);
  const int usual = p.cost();
  const auto steps = schedule(p.instructions(), p.outputs());
  std::vector<std::uint32_t> guarded;
  for (const ScheduledStep& s : steps)
    if (s.guarded > 0) guarded.insert(guarded.end(), {s.id, s.guarded, s.selects});
  // root, floor, compare, a guard, the product, the inner choice; the product alone.
  EXPECT_EQ(guarded, (std::vector<std::uint32_t>{a.id(), 6, 2, deep.id(), 1, 1}));
  EXPECT_EQ(usual, 3);  // the comparison and two choices
  for (const auto& [value, expected] : {std::pair{4.0f, 4.0f}, {100.0f, 10.0f}, {900.0f, 60.0f}}) {
    const std::uint64_t in = to_bits(value);
    EXPECT_EQ(from_bits<float>(evaluate(p, {&in, 1})[0]), expected);
  }
}

}  // namespace
}  // namespace dyad::scalar
