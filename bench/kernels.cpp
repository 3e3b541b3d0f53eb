#include <cmath>
#include <functional>
#include <string>

#include "bench/harness.h"
#include "bench/machine.h"
#include "dyad/autograd/grad_mode.h"
#include "dyad/core/generator.h"
#include "dyad/ops/ops.h"

namespace dyad::bench {
namespace {

/// Fails unless `sum` of the result is near `expected`, a mean of many products.
void check_mean(Results& results, const std::string& workload, const Tensor& result,
                double expected) {
  const double got = mean(result).item<double>();
  if (!(std::abs(got - expected) <= 1e-3 * std::abs(expected) + 1e-6))
    results.fail(workload, "mean " + std::to_string(got) + ", not " + std::to_string(expected));
}

void product(Results& results, int threads, double peak, std::int64_t m, std::int64_t n,
             std::int64_t k) {
  const std::string workload =
      "matmul " + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
  const Tensor a = uniform({m, k}), b = uniform({k, n});
  // The mean of a b is the product of the mean row of b's column sums and a's row sums.
  const Tensor wanted = mean(a, {0}) * mean(b, {1});
  check_mean(results, workload, matmul(a, b), sum(wanted).item<double>());
  const double flops =
      2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  results.add({workload, "dyad-eager", threads,
               flops / median_seconds([&] { (void)matmul(a, b); }) / 1e9, "GF/s", peak});
}

void convolution(Results& results, int threads, double peak, std::int64_t batch, std::int64_t in,
                 std::int64_t out, std::int64_t size) {
  const std::string workload = "conv 3x3 " + std::to_string(in) + "->" + std::to_string(out) +
                               ", " + std::to_string(size) + "x" + std::to_string(size) +
                               ", batch " + std::to_string(batch);
  const Tensor x = ones({batch, in, size, size}), w = full({out, in, 3, 3}, 0.5f);
  const Tensor y = conv2d(x, w, {}, 1, 1);
  const double inside = 4.5 * static_cast<double>(in);
  if (y[0][0][size / 2][size / 2].item<double>() != inside)
    results.fail(workload, "an inner element is not " + std::to_string(inside));
  const double flops = 18.0 * static_cast<double>(batch * in * out * size * size);
  results.add({workload, "dyad-eager", threads,
               flops / median_seconds([&] { (void)conv2d(x, w, {}, 1, 1); }) / 1e9, "GF/s", peak});
}

}  // namespace

void kernels(Results& results, int threads) {
  const NoGrad scope;
  manual_seed(1);
  const double peak = peak_flops() / 1e9;
  product(results, threads, peak, 128, 512, 784);
  product(results, threads, peak, 1024, 1024, 1024);
  convolution(results, threads, peak, 64, 32, 64, 28);
  convolution(results, threads, peak, 32, 64, 64, 32);

  const Tensor rows = uniform({4096, 1024});
  constexpr double kBytes = 4096.0 * 1024 * sizeof(float);
  const double copy = copy_rate(2 * kBytes) / 1e9, read = read_rate(kBytes) / 1e9;
  const auto row_kernel = [&](const std::string& workload, double expected, double bytes,
                              double floor, const std::function<Tensor(const Tensor&)>& run) {
    check_mean(results, workload, run(rows), expected);
    results.add({workload, "dyad-eager", threads,
                 bytes / median_seconds([&] { (void)run(rows); }) / 1e9, "GB/s", floor});
  };
  row_kernel("softmax [4096,1024]", 1.0 / 1024, 2 * kBytes, copy,
             [](const Tensor& x) { return softmax(x, -1); });
  const Tensor weight = ones({1024}), bias = zeros({1024});
  row_kernel("layer_norm [4096,1024]", 0, 2 * kBytes, copy,
             [&](const Tensor& x) { return layer_norm(x, weight, bias); });
  row_kernel("sum [4096,1024]", mean(rows).item<double>() * 4096 * 1024, kBytes, read,
             [](const Tensor& x) { return sum(x); });
}

}  // namespace dyad::bench
