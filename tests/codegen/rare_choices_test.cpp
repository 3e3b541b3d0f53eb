#include <gtest/gtest.h>

#include "dyad/codegen/interpreter.h"
#include "dyad/codegen/kernel_provider.h"
#include "support.h"

namespace dyad::codegen {
namespace {

/// Ordinary numbers with some far ones among them, so that vectors have none, a few or many.
template <class T>
std::vector<T> with_far_ones(std::size_t count, unsigned seed) {
  std::vector<T> x = random_values<T>(count, seed, -20, 20);
  const std::vector<T> any = edge_values<T>(count, seed);
  std::mt19937 random(seed);
  for (std::size_t i = 0; i < count; ++i) {
    if (random() % 23 == 0 || (i > count / 2 && i < count / 2 + 40)) x[i] = any[i];
  }
  return x;
}

/// What skips nothing: instruction by instruction.
template <class T>
std::vector<T> one_by_one(const ScalarProgram& program, const std::vector<T>& x) {
  std::vector<T> y;
  for (const T v : x) {
    const std::uint64_t in = scalar::to_bits(v);
    y.push_back(scalar::from_bits<T>(scalar::evaluate(program, {&in, 1})[0]));
  }
  return y;
}

template <class T>
void expect_same_bits(Scalar (*f)(Scalar)) {
  ScalarProgram program;
  program.output(f(program.input(dtype_of<T>)));
  const std::vector<T> x = with_far_ones<T>(1500, 3), expected = one_by_one(program, x);
  for (const std::int64_t stride : {1, 3}) {
    KernelRecipe recipe = pointwise_recipe("rare", program, {dtype_of<T>}, {dtype_of<T>});
    recipe.inputs[0].access = stride == 1 ? Access::contiguous : Access::strided;
    const std::int64_t count = 1500 / stride;
    for (const std::int64_t n : {std::int64_t{1}, std::int64_t{7}, std::int64_t{33}, count}) {
      for (const bool streams : {false, true}) {
        Iteration it(Sizes{n});
        it.add(Sizes{stride});
        it.add(Sizes{1});
        std::vector<T> got[2] = {std::vector<T>(static_cast<std::size_t>(n) + 64), {}};
        got[1] = got[0];
        void* data[] = {const_cast<T*>(x.data()), got[0].data()};
        DyadKernelArgs args = it.args(data);
        if (streams) args.flags = DYAD_KERNEL_STREAM;
        (*KernelProvider::instance().get(recipe))(args, 0, n);
        data[1] = got[1].data();
        (*interpret(recipe))(it.args(data), 0, n);
        for (std::vector<T>& y : got) {
          y.resize(static_cast<std::size_t>(n));
          std::vector<T> wanted;
          for (std::int64_t i = 0; i < n; ++i)
            wanted.push_back(expected[static_cast<std::size_t>(i * stride)]);
          EXPECT_EQ(different_bits(y, wanted), 0u) << n << " elements in steps of " << stride;
        }
      }
    }
  }
}

/// Few operations: unrolled, with a tail of its own. A choice within a choice.
Scalar few_operations(Scalar x) {
  const Scalar root = scalar::sqrt(scalar::abs(x));
  const Scalar inner = scalar::select_rarely(root > 1e9, scalar::floor(root), root);
  return scalar::select_rarely(scalar::abs(x) > 19.0, inner, x) * 2.0;
}
Scalar every_bit(Scalar x) {
  const Scalar whole = scalar::convert(x * 70.0, ScalarType::i64);
  const Scalar bits = x.program()->record(scalar::Op::two_over_pi, ScalarType::i64, {whole});
  return scalar::convert(bits, x.type());
}

struct RareFunction {
  const char* name;
  Scalar (*f)(Scalar);
};
class RareChoices : public testing::TestWithParam<RareFunction> {};

TEST_P(RareChoices, OfF32) { expect_same_bits<float>(GetParam().f); }
TEST_P(RareChoices, OfF64) { expect_same_bits<double>(GetParam().f); }

INSTANTIATE_TEST_SUITE_P(
    All, RareChoices,
    testing::Values(RareFunction{"sin", [](Scalar x) { return scalar::sin(x); }},
                    RareFunction{"cos", [](Scalar x) { return scalar::cos(x); }},
                    RareFunction{"tan", [](Scalar x) { return scalar::tan(x); }},
                    RareFunction{"both",
                                 [](Scalar x) { return scalar::sin(x) * scalar::cos(x * 1e30); }},
                    RareFunction{"fmod", [](Scalar x) { return scalar::fmod(x, x * x * 1e-9); }},
                    RareFunction{"few_operations", few_operations},
                    RareFunction{"every_bit", every_bit}),
    [](const auto& info) { return std::string(info.param.name); });

/// A sum of sines in rows and columns, with a whole and a partial block of lanes.
TEST(RareChoicesOfReductions, AreThoseOfTheInterpreter) {
  struct Case {
    Sizes sizes, strides;
  };
  for (const Case& c :
       {Case{{5, 4099}, {4099, 1}}, Case{{5, 37}, {111, 3}}, Case{{70, 41}, {1, 70}}}) {
    ReductionBuilder b(f32, {f32});
    b.accumulate(b.sum_type(), 0, scalar::sin(b.element()));
    b.combine([](const Scalars& a, const Scalars& v) -> Scalars { return {a[0] + v[0]}; });
    b.finish([](const Scalars& a, Scalar) -> Scalars { return {a[0]}; });
    KernelRecipe recipe = reduction_recipe("sum_of_sines", b.build(), {f32}, {f32});
    Iteration it(c.sizes, 1);
    it.add(c.strides);
    it.add(Sizes{1, 0});
    it.collapse();
    it.specialize(recipe);
    std::vector<float> x = with_far_ones<float>(5 * 4099, 9);
    for (float& v : x)
      if (!std::isfinite(v)) v = 3e38f;
    std::vector<float> sums[2];
    for (const bool interpreted : {false, true}) {
      std::vector<float>& out = sums[interpreted ? 1 : 0];
      out.resize(static_cast<std::size_t>(c.sizes[0]));
      void* data[] = {x.data(), out.data()};
      const DyadKernelArgs args = it.args(data);
      const auto run = [&](const CompiledKernel& kernel) { kernel(args, 0, kernel.units(args)); };
      if (interpreted)
        run(*interpret(recipe));
      else
        run(*KernelProvider::instance().get(recipe));
    }
    EXPECT_EQ(different_bits(sums[0], sums[1]), 0u);
    EXPECT_GT(std::abs(sums[0][0]), 0.0f);
    EXPECT_LT(std::abs(sums[0][0]), 1000.0f);
  }
}

}  // namespace
}  // namespace dyad::codegen
