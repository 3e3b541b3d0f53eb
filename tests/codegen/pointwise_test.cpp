#include <gtest/gtest.h>

#include "dyad/codegen/interpreter.h"
#include "dyad/codegen/kernel_provider.h"
#include "support.h"

namespace dyad::codegen {
namespace {

using scalar::slot_bits;

/// a * x + y with a param a.
KernelRecipe axpy() {
  ScalarProgram p;
  const Scalar x = p.input(f32), y = p.input(f32);
  p.output(p.param(0, ScalarType::f32) * x + y);
  return pointwise_recipe("axpy", std::move(p), {f32, f32}, {f32});
}

struct PointwiseLayout {
  const char* name;
  Sizes sizes, x, y, out;
};

class Pointwise : public testing::TestWithParam<PointwiseLayout> {};

TEST_P(Pointwise, EveryLayoutInEveryPartition) {
  const PointwiseLayout& l = GetParam();
  Iteration it(l.sizes);
  it.add(l.x);
  it.add(l.y);
  it.add(l.out);
  it.collapse();
  KernelRecipe recipe = axpy();
  it.specialize(recipe);
  const auto held = KernelProvider::instance().get(recipe);
  const CompiledKernel& kernel = *held;

  const auto extent = [&](const Sizes& strides) {
    std::int64_t last = 0;
    for (std::size_t d = 0; d < l.sizes.size(); ++d) last += (l.sizes[d] - 1) * strides[d];
    return static_cast<std::size_t>(last + 1);
  };
  const auto x = random_values<float>(extent(l.x), 1), y = random_values<float>(extent(l.y), 2);
  std::vector<float> expected(extent(l.out), -99);
  for_each_place(l.sizes, [&](const Sizes& at) {
    expected[offset(at, l.out)] = 1.5f * x[offset(at, l.x)] + y[offset(at, l.y)];
  });
  for (std::int64_t step : {1, 7, 100, 1000, 1 << 20}) {
    std::vector<float> out(extent(l.out), -99);
    void* data[] = {const_cast<float*>(x.data()), const_cast<float*>(y.data()), out.data()};
    const std::uint64_t slot = slot_bits(ScalarType::f32, 1.5);
    const KernelArgs args = it.args(data, &slot);
    const std::int64_t units = kernel.units(args);
    for (std::int64_t lo = 0; lo < units; lo += step) kernel(args, lo, std::min(units, lo + step));
    EXPECT_EQ(out, expected) << "in steps of " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, Pointwise,
    testing::Values(
        PointwiseLayout{"scalar", {}, {}, {}, {}}, PointwiseLayout{"flat", {1000}, {1}, {1}, {1}},
        PointwiseLayout{"flat_broadcast", {1000}, {1}, {0}, {1}},
        PointwiseLayout{"strided", {300}, {3}, {1}, {2}},
        PointwiseLayout{"rows_plus_row", {20, 37}, {37, 1}, {0, 1}, {37, 1}},
        PointwiseLayout{"rows_plus_column", {20, 37}, {37, 1}, {1, 0}, {37, 1}},
        PointwiseLayout{"transposed_input", {20, 37}, {1, 20}, {37, 1}, {37, 1}},
        PointwiseLayout{"all_transposed", {20, 37}, {1, 20}, {1, 20}, {1, 20}},
        PointwiseLayout{"gap_in_rows", {9, 5, 7}, {70, 14, 1}, {35, 7, 1}, {35, 7, 1}},
        PointwiseLayout{
            "channels_last", {2, 3, 4, 5}, {60, 1, 15, 3}, {60, 20, 5, 1}, {60, 1, 15, 3}},
        PointwiseLayout{
            "bias_of_channels", {2, 3, 4, 5}, {60, 20, 5, 1}, {0, 1, 0, 0}, {60, 20, 5, 1}},
        PointwiseLayout{"sizes_of_one", {1, 6, 1, 8}, {48, 8, 8, 1}, {0, 8, 0, 1}, {48, 8, 8, 1}}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(PointwiseKernel, NothingToDo) {
  Iteration it(Sizes{4, 0});
  for (int i = 0; i < 3; ++i) it.add(Sizes{0, 1});
  it.collapse();
  KernelRecipe recipe = axpy();
  it.specialize(recipe);
  const auto held = KernelProvider::instance().get(recipe);
  const CompiledKernel& kernel = *held;
  void* data[3] = {};
  const KernelArgs args = it.args(data);
  EXPECT_EQ(kernel.units(args), 0);
  kernel(args, 0, 0);
}

TEST(PointwiseKernel, EveryDtypeLoadsComputesAndStores) {
  // y = x + 1 in each dtype, against conversions done here.
  const auto run = [](DType t, const void* in, void* out, std::int64_t n) {
    ScalarProgram p;
    p.output(p.input(t) + 1);
    KernelRecipe recipe = pointwise_recipe("increment", std::move(p), {t}, {t});
    Iteration it(Sizes{n});
    it.add(Sizes{1});
    it.add(Sizes{1});
    it.specialize(recipe);
    void* data[] = {const_cast<void*>(in), out};
    (*KernelProvider::instance().get(recipe))(it.args(data), 0, n);
  };
  const auto check = [&]<class T>(T, DType t) {
    constexpr int n = 77;
    std::vector<T> x(n), y(n);
    for (int i = 0; i < n; ++i) x[i] = static_cast<T>(i * 5 - 100);
    run(t, x.data(), y.data(), n);
    for (int i = 0; i < n; ++i) EXPECT_EQ(y[i], static_cast<T>(x[i] + 1)) << name_of(t);
  };
  check(double{}, f64);
  check(float{}, f32);
  check(std::int64_t{}, i64);
  check(std::int32_t{}, i32);
  check(std::int16_t{}, i16);
  check(std::int8_t{}, i8);
  check(std::uint8_t{}, u8);
  Half half[3] = {to_half(1.0f), to_half(2048.0f), to_half(65504.0f)}, half_out[3];
  run(f16, half, half_out, 3);
  EXPECT_EQ(to_float(half_out[0]), 2.0f);
  EXPECT_EQ(to_float(half_out[1]), 2048.0f);  // 2049 ties to even
  EXPECT_EQ(to_float(half_out[2]), 65504.0f);
  BFloat16 brain[2] = {to_bfloat16(3.0f), to_bfloat16(256.0f)}, brain_out[2];
  run(bf16, brain, brain_out, 2);
  EXPECT_EQ(to_float(brain_out[0]), 4.0f);
  EXPECT_EQ(to_float(brain_out[1]), 256.0f);
}

TEST(PointwiseKernel, BooleansAnyNonzeroByteIsTrueAndStoresOne) {
  ScalarProgram p;
  const Scalar a = p.input(boolean), b = p.input(boolean);
  p.output(a & b);
  p.output(select(a, 2.5f, p.constant(ScalarType::f32, -1)));
  KernelRecipe recipe = pointwise_recipe("logic", std::move(p), {boolean, boolean}, {boolean, f32});
  const std::uint8_t x[] = {0, 1, 7, 255, 0}, y[] = {1, 1, 2, 0, 0};
  std::uint8_t both[5];
  float chosen[5];
  Iteration it(Sizes{5});
  for (int i = 0; i < 4; ++i) it.add(Sizes{1});
  it.specialize(recipe);
  void* data[] = {const_cast<std::uint8_t*>(x), const_cast<std::uint8_t*>(y), both, chosen};
  (*KernelProvider::instance().get(recipe))(it.args(data), 0, 5);
  EXPECT_EQ(std::vector<int>(both, both + 5), (std::vector<int>{0, 1, 1, 0, 0}));
  EXPECT_EQ(std::vector<float>(chosen, chosen + 5), (std::vector<float>{-1, 2.5f, 2.5f, 2.5f, -1}));
}

TEST(PointwiseKernel, IndexOperandFollowsItsStrides) {
  // The upper triangle of a 9 x 13 matrix: row and column are index operands.
  ScalarProgram p;
  const Scalar x = p.input(f32), row = p.input(i64), column = p.input(i64);
  p.output(select(column >= row, x, 0.0f));
  KernelRecipe recipe = pointwise_recipe("triu", std::move(p), {f32, i64, i64}, {f32});
  recipe.inputs[1].index = recipe.inputs[2].index = true;
  for (const Sizes& strides : {Sizes{13, 1}, Sizes{1, 9}}) {
    Iteration it(Sizes{9, 13});
    it.add(strides);
    it.add(Sizes{1, 0});
    it.add(Sizes{0, 1});
    it.add(strides);
    it.collapse();
    it.specialize(recipe);
    const auto in = random_values<float>(9 * 13);
    std::vector<float> out(9 * 13);
    void* data[] = {const_cast<float*>(in.data()), nullptr, nullptr, out.data()};
    const KernelArgs args = it.args(data);
    (*KernelProvider::instance().get(recipe))(args, 0, 9 * 13);
    for_each_place({9, 13}, [&](const Sizes& at) {
      const auto i = offset(at, strides);
      EXPECT_EQ(out[i], at[1] >= at[0] ? in[i] : 0.0f);
    });
  }
}

TEST(PointwiseKernel, WritesInPlace) {
  ScalarProgram p;
  p.output(p.input(f32) * 2.0f);
  KernelRecipe recipe = pointwise_recipe("double", std::move(p), {f32}, {f32});
  auto x = random_values<float>(1003);
  const auto before = x;
  void* data[] = {x.data(), x.data()};
  Iteration it(Sizes{1003});
  it.add(Sizes{1});
  it.add(Sizes{1});
  it.specialize(recipe);
  (*KernelProvider::instance().get(recipe))(it.args(data), 0, 1003);
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(x[i], before[i] * 2);
}

TEST(PointwiseKernel, CostCountsBytesAndOperations) {
  KernelRecipe recipe = axpy();
  recipe.inputs[1].access = Access::broadcast;
  const auto kernel = interpret(recipe);
  Iteration it(Sizes{10});
  it.add(Sizes{1});
  it.add(Sizes{0});
  it.add(Sizes{1});
  void* data[3] = {};
  const KernelCost cost = kernel->unit_cost(it.args(data));
  EXPECT_EQ(cost.bytes, 8);
  EXPECT_EQ(cost.flops, 2);
}

}  // namespace
}  // namespace dyad::codegen
