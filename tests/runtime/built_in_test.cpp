// The kernels that the library was built with: the bits of the interpreter, which defines them, and
// of the same recipes compiled now.
#include "dyad/codegen/built_in.h"

#include <gtest/gtest.h>

#include <bit>
#include <optional>
#include <stdexcept>

#include "dyad/codegen/compiler_plugin.h"
#include "dyad/codegen/functions.h"
#include "dyad/codegen/interpreter.h"
#include "dyad/codegen/kernel_provider.h"
#include "dyad/codegen/loader.h"
#include "tests/codegen/support.h"
#ifdef DYAD_BUILT_IN_KERNELS
#include "tools/kernelgen/recipes.h"

namespace dyad::codegen {
namespace {

/// Calls f with a zero of the dtype's C++ type, bool and bf16 as the bytes that they are.
template <class F>
auto with_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32:
      return f(float());
    case DType::f64:
      return f(double());
    case DType::i64:
      return f(std::int64_t());
    case DType::i32:
      return f(std::int32_t());
    case DType::bf16:
      return f(std::uint16_t());
    case DType::boolean:
      return f(std::uint8_t());
    default:
      throw std::logic_error("no kernels of this dtype are built in");
  }
}

/// bf16 as f32, to which NaN are all the same; others as they are.
std::vector<float> comparable(const std::vector<std::uint16_t>& bf16) {
  std::vector<float> values;
  for (const std::uint16_t bits : bf16)
    values.push_back(std::bit_cast<float>(std::uint32_t{bits} << 16));
  return values;
}
template <class T>
const std::vector<T>& comparable(const std::vector<T>& values) {
  return values;
}

/// Elements of any value as they lie in memory.
std::vector<std::byte> elements(DType dtype, std::size_t count, unsigned seed) {
  return with_type(dtype, [&]<class T>(T) {
    std::vector<T> values = edge_values<T>(count, seed);
    for (T& v : values) {
      if (dtype == DType::boolean) v = v > T(127) ? T(1) : T(0);
    }
    std::vector<std::byte> bytes(count * sizeof(T));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  });
}

/// A call of the recipe with the accesses that it is for: 67 elements, or 19 columns or rows of 67.
class Call {
 public:
  explicit Call(const KernelRecipe& recipe)
      : recipe_(recipe),
        space_(recipe.is_reduction() ? Sizes{kOutputs, kCount} : Sizes{kCount},
               recipe.is_reduction() ? 1 : 0) {
    for (const Operand& o : recipe.inputs) {
      if (o.index)
        space_.add_index();
      else if (recipe.kind == KernelKind::pointwise)
        space_.add(Sizes{step(o.access)});
      else if (recipe.kind == KernelKind::reduce_rows)
        space_.add(Sizes{kCount, 1});
      else
        space_.add(Sizes{1, kOutputs});
      inputs_.push_back(
          o.index ? std::vector<std::byte>()
                  : elements(o.dtype, kElements, static_cast<unsigned>(inputs_.size() + 1)));
    }
    for (std::size_t i = 0; i < recipe.outputs.size(); ++i)
      space_.add(recipe.is_reduction() ? Sizes{1, 0} : Sizes{1});
  }

  /// What the kernel writes; past the caches, to memory that begins so many elements after some
  /// place, when that is given.
  std::vector<std::vector<std::byte>> run(const CompiledKernel& kernel,
                                          std::optional<std::size_t> past_caches_from = {}) {
    const std::size_t before = past_caches_from.value_or(0);
    std::vector<std::vector<std::byte>> outputs;
    std::vector<void*> data;
    for (auto& input : inputs_) data.push_back(input.empty() ? nullptr : input.data());
    for (const Operand& o : recipe_.outputs) {
      outputs.emplace_back((kCount + before) * size_of(o.dtype));
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      data.push_back(outputs[i].data() + before * size_of(recipe_.outputs[i].dtype));
    }
    KernelArgs args = space_.args(data.data());
    if (past_caches_from) args.flags |= DYAD_KERNEL_STREAM;
    kernel(args, 0, kernel.units(args));
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const auto skipped = static_cast<std::ptrdiff_t>(before * size_of(recipe_.outputs[i].dtype));
      outputs[i].erase(outputs[i].begin(), outputs[i].begin() + skipped);
    }
    return outputs;
  }

  /// How many elements differ between what two kernels wrote.
  std::size_t different(const std::vector<std::vector<std::byte>>& a,
                        const std::vector<std::vector<std::byte>>& b) const {
    std::size_t count = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      count += with_type(recipe_.outputs[i].dtype, [&]<class T>(T) {
        std::vector<T> x(kCount), y(kCount);
        std::memcpy(x.data(), a[i].data(), a[i].size());
        std::memcpy(y.data(), b[i].data(), b[i].size());
        return different_bits(comparable(x), comparable(y));
      });
    }
    return count;
  }

 private:
  static constexpr std::int64_t kCount = 67, kOutputs = 19, kElements = kCount * kOutputs;
  static std::int64_t step(Access access) {
    return access == Access::contiguous ? 1 : access == Access::broadcast ? 0 : 3;
  }

  const KernelRecipe& recipe_;
  Iteration space_;
  std::vector<std::vector<std::byte>> inputs_;
};

class BuiltIn : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (GetParam() > built_in_level()) GTEST_SKIP() << "this CPU has no x86-64-v" << GetParam();
  }
  static std::unique_ptr<CompiledKernel> built_in(const KernelRecipe& recipe) {
    const auto code = code_of(functions_of(recipe),
                              [](const KernelHash& key) { return find_built_in(key, GetParam()); });
    return code ? std::make_unique<CompiledKernel>(recipe, *code, KernelOrigin::built_in, nullptr)
                : nullptr;
  }
};

TEST_P(BuiltIn, SameBitsAsTheInterpreter) {
  const std::vector<KernelRecipe> recipes = kernelgen::common_recipes();
  EXPECT_GT(recipes.size(), 500u);
  for (const KernelRecipe& recipe : recipes) {
    const auto kernel = built_in(recipe);
    ASSERT_NE(kernel, nullptr) << recipe.name << "\n" << recipe.text();
    Call call(recipe);
    EXPECT_EQ(call.different(call.run(*kernel), call.run(*interpret(recipe))), 0u)
        << recipe.name << "\n"
        << recipe.text();
  }
}

TEST_P(BuiltIn, SameBitsPastTheCaches) {
  for (const KernelRecipe& recipe : kernelgen::common_recipes()) {
    if (recipe.kind != KernelKind::pointwise) continue;
    const auto kernel = built_in(recipe);
    ASSERT_NE(kernel, nullptr) << recipe.name;
    Call call(recipe);
    const auto expected = call.run(*kernel);
    for (const std::size_t from : {0u, 1u, 5u, 14u, 31u}) {
      EXPECT_EQ(call.different(call.run(*kernel, from), expected), 0u)
          << recipe.name << " from element " << from;
    }
  }
}

TEST_P(BuiltIn, SameBitsAsCompiledNow) {
  const std::vector<KernelRecipe> all = kernelgen::common_recipes();
  std::vector<KernelRecipe> recipes;
  for (std::size_t i = 0; i < all.size(); i += 9) recipes.push_back(all[i]);
  std::vector<KernelFunction> functions;
  for (const KernelRecipe& recipe : recipes) {
    for (KernelFunction& f : functions_of(recipe)) functions.push_back(std::move(f));
  }
  const auto object = LoadedObject::load(CompilerPlugin::instance().compile(functions));
  for (const KernelRecipe& recipe : recipes) {
    const auto code = code_of(functions_of(recipe),
                              [&](const KernelHash& key) { return object->find(key.hex()); });
    ASSERT_TRUE(code);
    const CompiledKernel fresh(recipe, *code, KernelOrigin::llvm, object);
    Call call(recipe);
    EXPECT_EQ(call.different(call.run(*built_in(recipe)), call.run(fresh)), 0u)
        << recipe.name << "\n"
        << recipe.text();
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, BuiltIn, ::testing::Values(3, 4));

/// A reduction that nobody built in, but for how its results are combined and finished.
TEST(BuiltInKernels, ServeAsPartsOfOthers) {
  if (built_in_level() == 0) GTEST_SKIP() << "kernels are built in for x86-64-v3 and v4";
  ReductionBuilder builder(f32, {f32});
  builder.accumulate(ScalarType::f32, 0, builder.element() * builder.element() + 0.123f);
  builder.combine([](const Scalars& a, const Scalars& b) -> Scalars { return {a[0] + b[0]}; });
  builder.finish([](const Scalars& a, Scalar) -> Scalars { return {a[0]}; });
  const KernelRecipe recipe = reduction_recipe("squares", builder.build(), {f32}, {f32});
  const std::vector<KernelFunction> functions = functions_of(recipe);
  ASSERT_EQ(functions.size(), 3u);
  EXPECT_EQ(find_built_in(functions[0].key), nullptr);
  EXPECT_NE(find_built_in(functions[1].key), nullptr);
  EXPECT_NE(find_built_in(functions[2].key), nullptr);
  Call call(recipe);
  EXPECT_EQ(call.different(call.run(*KernelProvider::instance().get(recipe)),
                           call.run(*interpret(recipe))),
            0u);
}

TEST(BuiltInKernels, ComeBeforeAnyOther) {
  if (built_in_level() == 0) GTEST_SKIP() << "kernels are built in for x86-64-v3 and v4";
  for (const KernelRecipe& recipe : kernelgen::common_recipes()) {
    EXPECT_EQ(KernelProvider::instance().get(recipe)->origin(), KernelOrigin::built_in)
        << recipe.name;
  }
}

}  // namespace
}  // namespace dyad::codegen

#endif
