#include "dyad/ir/scalar_reduction.h"

#include <gtest/gtest.h>

#include "dyad/base/error.h"
#include "dyad/ir/scalar_evaluate.h"

namespace dyad {
namespace {

using scalar::from_bits;
using scalar::to_bits;

TEST(ReductionBuilder, MeanOfHalfAccumulatesInF32) {
  ReductionBuilder b(f16, {f16});
  EXPECT_EQ(b.sum_type(), ScalarType::f32);
  b.accumulate(b.sum_type(), 0, b.element());
  b.combine([](const Scalars& a, const Scalars& x) -> Scalars { return {a[0] + x[0]}; });
  b.finish([](const Scalars& a, Scalar count) -> Scalars {
    return {a[0] / convert(count, a[0].type())};
  });
  const ReductionProgram p = b.build();
  EXPECT_EQ(p.init, std::vector<std::uint64_t>{0});
  EXPECT_EQ(p.index_input, -1);
  const std::uint64_t pair[] = {to_bits(3.0f), to_bits(4.0f)};
  EXPECT_EQ(from_bits<float>(evaluate(p.combine, pair)[0]), 7.0f);
  const std::uint64_t end[] = {to_bits(7.0f), 2};
  EXPECT_EQ(from_bits<float>(evaluate(p.finish, end)[0]), 3.5f);
}

TEST(ReductionBuilder, ArgmaxCarriesItsIndex) {
  ReductionBuilder b(f32, {i64});
  b.accumulate(-INFINITY, b.element());
  b.accumulate(ScalarType::i64, INT64_MAX, b.index());
  b.combine([](const Scalars& a, const Scalars& x) -> Scalars {
    const Scalar better = (x[0] > a[0]) | ((x[0] == a[0]) & (x[1] < a[1]));
    return {select(better, x[0], a[0]), select(better, x[1], a[1])};
  });
  b.finish([](const Scalars& a, Scalar) -> Scalars { return {a[1]}; });
  const ReductionProgram p = b.build();
  EXPECT_EQ(p.index_input, 1);
  const std::uint64_t tie[] = {to_bits(2.0f), 9, to_bits(2.0f), 4};
  EXPECT_EQ(evaluate(p.combine, tie)[1], 4u);
}

TEST(ReductionBuilder, MissingPartsAreReported) {
  ReductionBuilder b(f32, {f32});
  b.accumulate(0, b.element());
  EXPECT_THROW((void)b.build(), InternalError);
  EXPECT_THROW(b.combine([](const Scalars&, const Scalars&) -> Scalars { return {}; }),
               InternalError);
}

}  // namespace
}  // namespace dyad
