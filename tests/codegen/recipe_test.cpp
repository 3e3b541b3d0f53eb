#include "dyad/codegen/recipe.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "dyad/base/error.h"
#include "dyad/codegen/interpreter.h"
#include "dyad/codegen/kernel_cache.h"
#include "dyad/codegen/kernel_provider.h"
#include "support.h"

namespace dyad::codegen {
namespace {

KernelRecipe scaled(double factor) {
  ScalarProgram p;
  p.output(p.input(f32) * factor);
  return pointwise_recipe("scaled", std::move(p), {f32}, {f32});
}

TEST(Recipe, TextIsStable) {
  EXPECT_EQ(scaled(2).text(),
            "pointwise (f32 contiguous) -> (f32 contiguous)\n"
            "%0: f32 = input 0\n"
            "%1: f32 = constant 0x1p+1\n"
            "%2: f32 = mul %0, %1\n"
            "return %2\n");
}

TEST(Recipe, HashFollowsContentNotTheName) {
  KernelRecipe a = scaled(2), b = scaled(2), c = scaled(3), d = scaled(2), e = scaled(2);
  b.name = "other";
  d.inputs[0].access = Access::strided;
  e.inputs[0].dtype = f16;
  EXPECT_EQ(a.hash(), b.hash());
  EXPECT_NE(a.hash(), c.hash());
  EXPECT_NE(a.hash(), d.hash());
  EXPECT_NE(a.hash(), e.hash());
}

TEST(Recipe, HashBytesMatchesMurmur3) {  // values of the reference implementation
  EXPECT_EQ(hash_bytes("").hex(), "00000000000000000000000000000000");
  EXPECT_EQ(hash_bytes("hello").hex(), "cbd8a7b341bd9b025b1e906a48ae1d19");
  EXPECT_EQ(hash_bytes("The quick brown fox jumps over the lazy dog").hex(),
            "e34bbc7bbc071b6c7a433ca9c49a9347");
}

TEST(Recipe, MismatchesAreReported) {
  KernelRecipe r = scaled(2);
  r.inputs[0].dtype = i32;
  try {
    r.verify();
    FAIL();
  } catch (const InternalError& e) {
    EXPECT_EQ(e.message().substr(0, e.message().find('\n')),
              "kernel recipe 'scaled': type of inputs 0 differs from the program's");
  }
  r = scaled(2);
  r.outputs[0].access = Access::broadcast;
  EXPECT_THROW(r.verify(), InternalError);
}

TEST(Provider, OneKernelForEqualRecipesFromAllThreads) {
  std::vector<std::shared_ptr<const CompiledKernel>> seen(4);
  std::vector<std::thread> threads;
  for (auto& kernel : seen)
    threads.emplace_back([&kernel] { kernel = KernelProvider::instance().get(scaled(17)); });
  for (auto& t : threads) t.join();
  EXPECT_EQ(std::set<std::shared_ptr<const CompiledKernel>>(seen.begin(), seen.end()).size(), 1u);
  const KernelRecipe a = scaled(18), b = scaled(17);
  const KernelRecipe* both[] = {&a, &b};
  const auto kernels = KernelProvider::instance().get(both);
  EXPECT_EQ(kernels[1], seen[0]);
  EXPECT_NE(kernels[0], seen[0]);
}

TEST(KernelCache, KeepsWhatIsHeldAndWhatWasAskedForLast) {
  constexpr std::size_t kMost = 4;
  KernelCache cache(kMost);
  const auto recipe_of_number = [](int i) { return scaled(100.0 + i); };
  const auto add = [&](int i) {
    const KernelRecipe recipe = recipe_of_number(i);
    std::shared_ptr<const CompiledKernel> kernel = interpret(recipe);
    cache.add(recipe.hash(), kernel);
    return kernel;
  };
  const auto has = [&](int i) { return cache.find(recipe_of_number(i).hash()) != nullptr; };
  std::vector<std::shared_ptr<const CompiledKernel>> held;
  for (int i = 0; i < 20; ++i) held.push_back(add(i));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(cache.find(recipe_of_number(i).hash()), held[i]) << i;
  for (int i = 20; i < 500; ++i) {
    static_cast<void>(add(i));
    EXPECT_TRUE(has(20)) << "asked for again and again, after " << i;
    EXPECT_LE(cache.size(), held.size() + 2 * kMost + 1);
  }
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(has(i)) << i;
  EXPECT_TRUE(has(499));
  EXPECT_FALSE(has(21));
  // What nobody holds any more goes, too.
  held.clear();
  for (int i = 500; i < 600; ++i) static_cast<void>(add(i));
  EXPECT_LE(cache.size(), 2 * kMost);
}

TEST(Iteration, CollapsesWhatEveryOperandWalksAsOne) {
  Iteration it(Sizes{2, 1, 3, 4});
  it.add(Sizes{12, 5, 4, 1});
  it.add(Sizes{12, 0, 4, 1});
  it.collapse();
  EXPECT_EQ(it.rank(), 1);
  EXPECT_EQ(it.sizes()[0], 24);
  Iteration bias(Sizes{2, 3, 4});
  bias.add(Sizes{12, 4, 1});
  bias.add(Sizes{0, 0, 1});
  bias.add(Sizes{12, 4, 1});
  bias.collapse();
  EXPECT_EQ(bias.rank(), 2);
  EXPECT_EQ(bias.sizes()[0], 6);
}

TEST(Iteration, KeptAndReducedDimsStayApart) {
  Iteration it(Sizes{6, 7}, 1);
  it.add(Sizes{7, 1});
  it.add(Sizes{1, 0});
  it.collapse();
  EXPECT_EQ(it.rank(), 2);
  EXPECT_EQ(it.reduced(), 1);
}

TEST(Iteration, AccessKeysTellRecipesApart) {
  const auto key = [](Sizes x, Sizes out) {
    Iteration it(Sizes{5, 6});
    it.add(x);
    it.add(out);
    it.collapse();
    return it.access_key();
  };
  EXPECT_EQ(key({6, 1}, {6, 1}), key({1, 5}, {1, 5}));
  EXPECT_NE(key({6, 1}, {6, 1}), key({1, 0}, {6, 1}));
  EXPECT_NE(key({6, 1}, {6, 1}), key({1, 5}, {6, 1}));
}

}  // namespace
}  // namespace dyad::codegen
