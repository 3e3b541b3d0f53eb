#include "dyad/ir/reduction.h"

#include <gtest/gtest.h>

#include <bit>

#include "dyad/base/error.h"
#include "dyad/ir/scalar.h"

namespace dyad {
namespace {

TEST(Reduction, MeanCountsWhatItAdds) {
  ReductionBuilder b(f32, f32);
  const auto total = b.accumulator(b.element(), 0);
  b.combine(total, total.left + total.right);
  b.finish(total.result / scalar::convert(b.count(), ScalarType::f32));
  const Reduction mean = b.take();

  EXPECT_EQ(mean.accumulators(), 1u);
  EXPECT_EQ(mean.types[0], ScalarType::f32);
  EXPECT_EQ(mean.init[0], 0u);
  EXPECT_FALSE(mean.uses_index());
  const auto bits = [](float x) { return std::uint64_t{std::bit_cast<std::uint32_t>(x)}; };
  const auto mapped = evaluate(mean.map, std::vector<std::uint64_t>{bits(2.5f), 7});
  EXPECT_EQ(mapped.at(0), bits(2.5f));
  const auto joined = evaluate(mean.combine, std::vector<std::uint64_t>{bits(2.5f), bits(-1)});
  EXPECT_EQ(joined.at(0), bits(1.5f));
  const auto result = evaluate(mean.finish, std::vector<std::uint64_t>{4, bits(6)});
  EXPECT_EQ(result.at(0), bits(1.5f));
}

TEST(Reduction, TwoAccumulatorsAreInterleavedInCombine) {
  // The last element above zero: its place, and how many there are.
  ReductionBuilder b(i32, i64);
  const auto place =
      b.accumulator(scalar::select(b.element() > 0, b.index(), b.index().like(-1)), -1);
  const auto count = b.accumulator(scalar::convert(b.element() > 0, ScalarType::i64), 0);
  b.combine(place, scalar::max(place.left, place.right));
  b.combine(count, count.left + count.right);
  b.finish(place.result * 100 + count.result);
  const Reduction r = b.take();

  EXPECT_TRUE(r.uses_index());
  EXPECT_EQ(r.init, (std::vector<std::uint64_t>{~std::uint64_t{0}, 0}));
  const auto mapped = evaluate(r.map, std::vector<std::uint64_t>{5, 3});
  EXPECT_EQ(mapped, (std::vector<std::uint64_t>{3, 1}));
  const auto joined = evaluate(r.combine, std::vector<std::uint64_t>{3, 8, 2, 5});
  EXPECT_EQ(joined, (std::vector<std::uint64_t>{8, 7}));
  const auto result = evaluate(r.finish, std::vector<std::uint64_t>{10, 8, 7});
  EXPECT_EQ(result, (std::vector<std::uint64_t>{807}));
}

TEST(Reduction, AccumulatorsOutOfOrderAreRefused) {
  ReductionBuilder b(f32, f32);
  (void)b.accumulator(b.element(), 0);
  const auto second = b.accumulator(b.element(), 0);
  EXPECT_THROW(b.combine(second, second.left), InternalError);
}

}  // namespace
}  // namespace dyad
