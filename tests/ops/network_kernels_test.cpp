#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "dyad/autograd/gradients.h"
#include "dyad/core/create.h"
#include "dyad/core/generator.h"
#include "dyad/ops/ops.h"
#include "dyad/runtime/threads.h"

// Kernels that work on blocks of elements, at sizes beyond a block: the reference cases are
// smaller.

namespace dyad {
namespace {

class NetworkKernels : public ::testing::Test {
 protected:
  NetworkKernels() { manual_seed(11); }
  ~NetworkKernels() override { set_num_threads(threads_); }

  /// Two threads give the bits of one; returns the result.
  template <class F>
  static std::vector<Tensor> on_any_team(F f) {
    set_num_threads(1);
    const std::vector<Tensor> one = f();
    set_num_threads(2);
    const std::vector<Tensor> two = f();
    for (std::size_t i = 0; i < one.size(); ++i) {
      EXPECT_EQ(to(one[i], f64).to_vector<double>(), to(two[i], f64).to_vector<double>());
    }
    return one;
  }

  static void expect_close(const Tensor& got, const Tensor& wanted, double tolerance) {
    ASSERT_TRUE(got.shape().same_as(wanted.shape()));
    const Tensor a = to(got, f64), b = to(wanted, f64);
    EXPECT_LE(max(abs(a - b)).item<double>(), tolerance * (1 + max(abs(b)).item<double>()));
  }

 private:
  int threads_ = get_num_threads();
};

/// exp, sum and division in f64, or its logarithm.
Tensor plain_softmax(const Tensor& x, std::int64_t axis, bool logarithm) {
  const Tensor wide = to(x, f64), e = exp(wide - max(wide, {axis}, true));
  const Tensor y = e / sum(e, {axis}, true);
  return logarithm ? log(y) : y;
}

TEST_F(NetworkKernels, SoftmaxOfLongShortAndStandingLines) {
  struct Case {
    Shape shape;
    std::int64_t axis;
  };
  for (const Case& c : {Case{{7, 9001}, 1}, Case{{600, 100}, 1}, Case{{1500, 5}, 1},
                        Case{{100, 333}, 0}, Case{{3, 70, 65}, 1}, Case{{9001, 3}, 0}}) {
    for (const bool logarithm : {false, true}) {
      for (const DType dtype : {f32, f64, f16}) {
        const Tensor x = to(normal(c.shape) * 5, dtype), weight = to(normal(c.shape), dtype);
        const auto run = [&](Tensor leaf) -> std::vector<Tensor> {
          leaf.requires_grad();
          const Tensor y = logarithm ? log_softmax(leaf, c.axis) : softmax(leaf, c.axis);
          return {y.detach(), grad(y, {leaf}, {.weights = {weight}})[0]};
        };
        const auto got = on_any_team([&] { return run(x.detach()); });
        Tensor leaf = to(x, f64);
        leaf.requires_grad();
        const Tensor y = plain_softmax(leaf, c.axis, logarithm);
        const double tolerance = dtype == f16 ? 2e-3 : dtype == f32 ? 2e-6 : 1e-14;
        expect_close(got[0], y.detach(), tolerance);
        expect_close(got[1], grad(y, {leaf}, {.weights = {to(weight, f64)}})[0],
                     dtype == f16 ? 5e-2 : 30 * tolerance);
      }
    }
  }
}

TEST_F(NetworkKernels, SoftmaxOfInfinitiesAndNans) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  for (const std::int64_t n : {5, 100}) {
    Tensor x = zeros({3, n});
    x.data<float>()[1] = -inf;
    x.data<float>()[n + 2] = nan;
    x.data<float>()[2 * n + 3] = inf;
    const auto y = softmax(x).to_vector<float>();
    EXPECT_EQ(y[0], 1 / static_cast<float>(n - 1));
    EXPECT_EQ(y[1], 0);
    for (std::int64_t i = n; i < 2 * n; ++i)
      EXPECT_TRUE(std::isnan(y[static_cast<std::size_t>(i)]));
    EXPECT_TRUE(std::isnan(y[static_cast<std::size_t>(2 * n + 3)]));
  }
}

struct Depthwise {
  std::int64_t channels, each, height, width, kernel;
  Ints stride, padding, dilation;
};

/// The result of a depthwise convolution and its gradients by x, weight and bias.
std::vector<Tensor> convolve(const Depthwise& c, const Tensor& x, const Tensor& weight,
                             const Tensor& bias) {
  Tensor a = x.detach(), w = weight.detach(), b = bias.detach();
  for (Tensor* leaf : {&a, &w, &b}) leaf->requires_grad();
  const Tensor y = conv2d(a, w, b, c.stride, c.padding, c.dilation, c.channels);
  const Tensor pull = to(reshape(sin(arange(y.numel(), f64)), y.shape()), y.dtype());
  std::vector<Tensor> all = grad(y, {a, w, b}, {.weights = {pull}});
  all.push_back(y.detach());
  return all;
}

TEST_F(NetworkKernels, DepthwiseConvolutionOfPlanesAsOfChannelsSideBySide) {
  for (const Depthwise& c : {Depthwise{5, 1, 40, 37, 3, {1, 1}, {1, 1}, {1, 1}},
                             Depthwise{3, 2, 33, 70, 5, {2, 3}, {2, 0}, {1, 2}},
                             Depthwise{4, 1, 1, 300, 1, {3, 1}, {0, 0}, {1, 1}},
                             Depthwise{2, 3, 9, 9, 3, {4, 2}, {3, 4}, {3, 1}}}) {
    const Tensor x = normal({3, c.channels, c.height, c.width}),
                 bias = normal({c.channels * c.each});
    const Tensor weight = normal({c.channels * c.each, 1, c.kernel, c.kernel});
    const auto planes = on_any_team([&] { return convolve(c, x, weight, bias); });
    const Tensor last = permute(contiguous(permute(x, {0, 2, 3, 1})), {0, 3, 1, 2});
    const auto channels = convolve(c, last, weight, bias);
    const auto half = convolve(c, to(x, bf16), to(weight, bf16), to(bias, bf16));
    for (std::size_t i = 0; i < planes.size(); ++i) {
      expect_close(planes[i], channels[i], 1e-5);
      expect_close(half[i], planes[i], 3e-2);
    }
  }
}

TEST_F(NetworkKernels, DepthwiseGradientsKeepInfinitiesWhereTheyAre) {
  const float inf = std::numeric_limits<float>::infinity();
  Tensor x = ones({1, 2, 6, 6});
  x.data<float>()[6] = inf;  // the first column: no tap of the kernel's last column meets it
  const Depthwise c{2, 1, 6, 6, 3, {1, 1}, {1, 1}, {1, 1}};
  Tensor w = ones({2, 1, 3, 3});
  w.requires_grad();
  const Tensor y = conv2d(x, w, {}, c.stride, c.padding, c.dilation, 2);
  const auto g = grad(y, {w}, {.weights = {ones(y.shape())}})[0].to_vector<float>();
  EXPECT_EQ(g[0], inf);
  EXPECT_EQ(g[2], 25);
  EXPECT_EQ(g[9], 25);
}

/// The gradients of batch_norm_train by x, weight and bias, where all of its results count.
std::vector<Tensor> batch_norm_gradients(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                         const Tensor& pull, bool by_hand) {
  Tensor a = x.detach(), w = weight.detach(), b = bias.detach();
  for (Tensor* leaf : {&a, &w, &b}) leaf->requires_grad();
  const Ints axes = x.rank() == 2 ? Ints{0} : Ints{0, 2, 3};
  const Shape vector = x.rank() == 2 ? Shape{-1} : Shape{-1, 1, 1};
  Tensor y, m, v;
  if (by_hand) {
    m = mean(a, axes, true);
    v = mean(square(a - m), axes, true);
    y = (a - m) * rsqrt(v + 1e-5) * reshape(w, vector) + reshape(b, vector);
  } else {
    const auto results = batch_norm_train(a, w, b, 1e-5);
    y = results[0], m = results[1], v = results[2];
  }
  return grad(sum(y * pull) + sum(m * 2) + sum(square(v)), {a, w, b});
}

TEST_F(NetworkKernels, BatchNormalisationOfPlanesAndOfChannelsSideBySide) {
  for (const Shape& shape : {Shape{5, 19, 31, 33}, Shape{700, 19}}) {
    const Tensor x = normal(shape) + 0.5, pull = normal(shape), w = normal({19}), b = normal({19});
    const auto wanted =
        batch_norm_gradients(to(x, f64), to(w, f64), to(b, f64), to(pull, f64), true);
    const auto check = [&](const Tensor& image, double tolerance, DType dtype) {
      const auto got = on_any_team([&] {
        return batch_norm_gradients(to(image, dtype), to(w, dtype), to(b, dtype), to(pull, dtype),
                                    false);
      });
      for (std::size_t i = 0; i < wanted.size(); ++i) expect_close(got[i], wanted[i], tolerance);
    };
    check(x, 1e-5, f32);
    check(x, 1e-12, f64);
    if (x.rank() == 4) {
      const Tensor last = permute(contiguous(permute(x, {0, 2, 3, 1})), {0, 3, 1, 2});
      check(last, 1e-5, f32);
    }
  }
}

/// What bags of a table add up to, one row after the other.
template <class T>
std::vector<T> plain_bags(const Tensor& table, const std::vector<std::int64_t>& index,
                          const std::vector<std::int64_t>& begins, const std::vector<T>& scale,
                          std::int64_t left_out) {
  const std::vector<T> rows = table.to_vector<T>();
  const auto width = static_cast<std::size_t>(table.size(1).number());
  std::vector<T> sums(begins.size() * width);
  for (std::size_t bag = 0; bag < begins.size(); ++bag) {
    const auto begin = static_cast<std::size_t>(begins[bag]);
    const std::size_t end =
        bag + 1 < begins.size() ? static_cast<std::size_t>(begins[bag + 1]) : index.size();
    for (std::size_t i = begin; i < end; ++i) {
      if (index[i] == left_out) continue;
      const auto row = static_cast<std::size_t>(index[i]) * width;
      for (std::size_t j = 0; j < width; ++j) {
        sums[bag * width + j] += rows[row + j] * (scale.empty() ? T(1) : scale[i]);
      }
    }
  }
  return sums;
}

TEST_F(NetworkKernels, BagsAddTheirRowsOneByOne) {
  const std::vector<std::int64_t> begins{0, 0, 3, 4, 60, 60, 68, 140};
  const Tensor index = randint(0, 50, {150}, i64), offsets = tensor(begins);
  const std::vector<std::int64_t> at = index.to_vector<std::int64_t>();
  const auto check = [&]<class T>(T, DType dtype, std::int64_t width) {
    const Tensor table = to(randn({50, width}), dtype), samples = to(randn({150}), dtype);
    for (const bool scaled : {false, true}) {
      for (const std::int64_t left_out : {-1, 7}) {
        const Tensor got = on_any_team([&]() -> std::vector<Tensor> {
          return {embedding_bag(index, table, offsets,
                                {.mode = BagMode::sum,
                                 .per_sample_weights = scaled ? samples : Tensor(),
                                 .padding_idx = left_out})};
        })[0];
        const std::vector<T> scale = scaled ? samples.to_vector<T>() : std::vector<T>();
        EXPECT_EQ(got.to_vector<T>(), plain_bags<T>(table, at, begins, scale, left_out)) << width;
      }
    }
  };
  for (const std::int64_t width : {1, 3, 8, 31, 64, 65, 129, 700}) {
    check(float{}, f32, width);
    check(double{}, f64, width);
  }
}

/// Attention written out, in f64.
Tensor plain_attention(const Tensor& q, const Tensor& k, const Tensor& v, bool causal) {
  Tensor scores = matmul(to(q, f64), transpose(to(k, f64), 2, 3)) / std::sqrt(q.size(3).value());
  if (causal) {
    const Tensor later = triu(ones({q.size(2), k.size(2)}), 1) > 0;
    scores = masked_fill(scores, later, -std::numeric_limits<double>::infinity());
  }
  return matmul(softmax(scores, -1), to(v, f64));
}

TEST_F(NetworkKernels, AttentionOfHeadsThatAreColumns) {
  // Rows of scores that end within a vector and at its end; queries of more than one tile.
  for (const std::int64_t t : {1, 5, 16, 17, 70, 130}) {
    for (const bool causal : {false, true}) {
      SCOPED_TRACE(::testing::Message() << t << " positions" << (causal ? ", causal" : ""));
      Tensor joined = randn({2, t, 3 * 3 * 8}).requires_grad();
      const Tensor parts = permute(reshape(joined, {2, t, 3, 3, 8}), {2, 0, 3, 1, 4});
      const auto run = [&] {
        const Tensor y =
            scaled_dot_product_attention(parts[0], parts[1], parts[2], {.is_causal = causal});
        return std::vector<Tensor>{y, grad(sum(sin(y)), {joined}, {.retain_graph = true})[0]};
      };
      const std::vector<Tensor> got = on_any_team(run);
      // The result is columns as they are: the next layer reads it without a copy.
      EXPECT_TRUE(transpose(got[0], 1, 2).is_contiguous());
      const Tensor want = plain_attention(parts[0], parts[1], parts[2], causal);
      expect_close(got[0], want, 1e-5);
      expect_close(got[1], grad(sum(sin(want)), {joined})[0], 1e-4);
    }
  }
}

}  // namespace
}  // namespace dyad
