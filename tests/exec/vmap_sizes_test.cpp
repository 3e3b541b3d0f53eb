// vmap in compiled functions: one recording serves any number of samples.

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>

#include "dyad/autograd/gradients.h"
#include "dyad/core/create.h"
#include "dyad/core/generator.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/vmap.h"
#include "dyad/ops/ops.h"
#include "exec_for_tests.h"

namespace dyad {
namespace {

using OfABatch = std::function<Tensor(const Tensor&)>;

void expect_same(const OfABatch& fast, const OfABatch& fn, std::int64_t samples) {
  manual_seed(3);
  const Tensor x = randn({samples, 6});
  manual_seed(4);
  const Tensor wanted = fn(x);
  manual_seed(4);
  EXPECT_TRUE(exec::same_bits(fast(x), wanted)) << samples;
}

/// That one recording for all sizes, made at the second, does what `fn` does eagerly.
void expect_one_for_all(const OfABatch& fn) {
  const auto fast = compile(fn, {.recheck = false});
  for (const std::int64_t samples : {5, 4, 8, 7, 12, 10, 2, 9}) expect_same(fast, fn, samples);
  EXPECT_EQ(fast.explain().eager, 0);
  EXPECT_EQ(fast.explain().recordings.size(), 2u);
}

TEST(VmapSizes, OfPointwiseOperatorsAndReductions) {
  expect_one_for_all([](const Tensor& x) {
    return vmap([](const Tensor& one) { return softmax(one, 0) * 2; })(x);
  });
  expect_one_for_all([](const Tensor& x) {
    return vmap([](const Tensor& one) { return sum(one * one) / norm(one); })(x);
  });
}

TEST(VmapSizes, OfViewsProductsAndTensorsFromOutside) {
  manual_seed(2);
  const Tensor weight = randn({6, 4});
  expect_one_for_all([&](const Tensor& x) {
    return vmap([&](const Tensor& one) {
      return transpose(reshape(matmul(one, weight), {2, 2}), 0, 1) + one.slice(0, 0, 2);
    })(x);
  });
  expect_one_for_all([&](const Tensor& x) {
    return vmap([&](const Tensor& one) { return matmul(expand(one, {3, 6}), weight)[1]; })(x);
  });
}

TEST(VmapSizes, OfOneSampleVaryToo) {
  manual_seed(2);
  const Tensor weight = randn({6, 3});
  const auto fn = [&](const Tensor& x) {
    return vmap([&](const Tensor& one) {
      const Tensor rows = softmax(matmul(one, weight), 0);
      const Tensor turned = flip(transpose(rows, 0, 1), {1});
      return std::vector{sum(turned, {1}), turned.slice(1, 1, kEnd), reshape(one, {-1}) * 2,
                         concat({one, one.slice(0, 0, 1)}, 0), unsqueeze(cumsum(one, 0), 0)};
    })(x);
  };
  const auto fast = compile(fn, {.recheck = false});
  for (const auto& [samples, rows] : {std::pair(3, 5), {3, 4}, {6, 8}, {2, 9}, {5, 7}, {4, 2}}) {
    const Tensor x = randn({samples, rows, 6});
    const std::vector<Tensor> got = fast(x), want = fn(x);
    for (std::size_t i = 0; i < want.size(); ++i)
      EXPECT_TRUE(exec::same_bits(got[i], want[i])) << rows << ", " << i;
  }
  EXPECT_EQ(fast.explain().eager, 0);
  EXPECT_LE(fast.explain().recordings.size(), 3u) << to_string(fast.explain());
}

/// Beside them a size of -1 could be anything.
TEST(VmapSizes, OfNoSamplesBehindSome) {
  const Tensor weight = normal({1, 6}).requires_grad();
  const auto fn = [&](const Tensor& x) {
    return vmap([&](const Tensor& one) {
      return grad(sum(square(linear(one, weight, Tensor()))), {weight})[0] + one.ravel();
    })(x);
  };
  const auto fast = compile(fn);
  for (const std::int64_t samples : {4, 5, 0, 7, 0, 1, 0}) expect_same(fast, fn, samples);
  EXPECT_EQ(fast.explain().eager, 0);
}

TEST(VmapSizes, OfOperatorsThatAreCalledForEachSample) {
  const auto fn = [](const Tensor& x) {
    return vmap([](const Tensor& one) {
      return index_add(uniform({4}), 0, remainder(argsort(one), 4), one);
    })(x);
  };
  const auto fast = compile(fn, {.recheck = false});
  for (const std::int64_t samples : {5, 3, 8, 3, 5, 8}) expect_same(fast, fn, samples);
  EXPECT_EQ(fast.explain().eager, 0);
}

TEST(VmapSizes, OfGradients) {
  manual_seed(2);
  const Tensor weight = randn({6}).requires_grad();
  expect_one_for_all([&](const Tensor& x) {
    return vmap([&](const Tensor& one) { return grad(sum(tanh(weight * one)), {weight})[0]; })(x);
  });
}

TEST(VmapSizes, OfLayersAndLosses) {
  manual_seed(2);
  const Tensor weight = randn({3, 6}).requires_grad(), scale = ones({6}).requires_grad();
  const auto loss = [&](const Tensor& one) {
    return cross_entropy(linear(layer_norm(one, scale, zeros({6})), weight), tensor(1));
  };
  expect_one_for_all([&](const Tensor& x) { return vmap(loss)(x); });
  expect_one_for_all([&](const Tensor& x) {
    return vmap([&](const Tensor& one) { return grad(loss(one), {weight})[0]; })(x);
  });
  expect_one_for_all([&](const Tensor& x) {
    return vmap([&](const Tensor& one) { return grad(loss(one), {scale})[0]; })(x);
  });
  expect_one_for_all([](const Tensor& x) {
    return vmap([](const Tensor& one) { return dropout(one, 0.25); })(x);
  });
  expect_one_for_all([](const Tensor& x) {
    return vmap([](const Tensor& one) {
      const Tensor q = reshape(one, {1, 1, 3, 2});
      return scaled_dot_product_attention(q, q * 2, q + 1);
    })(x);
  });
}

TEST(VmapSizes, OfWeightsOfEachSample) {
  manual_seed(2);
  const Tensor data = randn({4, 3}), bias = randn({2});
  const auto one_model = [&](const Tensor& one) {
    const Tensor weight = reshape(one, {2, 3});
    return linear(data, weight, bias) + linear(data[0], weight) +
           linear(reshape(data, {2, 2, 3}), weight, one.slice(0, 0, 2)).sum();
  };
  expect_one_for_all([&](const Tensor& x) { return vmap(one_model)(x); });
  const Tensor x = randn({3, 6}), all = vmap(one_model)(x);
  for (std::int64_t i = 0; i < 3; ++i) exec::expect_near(all[i], one_model(x[i]), 1e-5);
}

TEST(VmapSizes, OfVmapsInside) {
  expect_one_for_all([](const Tensor& x) {
    return vmap([](const Tensor& one) {
      return vmap([](const Tensor& number) { return exp(number) * 2; })(one);
    })(x);
  });
}

}  // namespace
}  // namespace dyad
