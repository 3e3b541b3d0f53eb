#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "bench/harness.h"
#include "bench/machine.h"
#include "dyad/autograd/gradients.h"
#include "dyad/core/generator.h"
#include "dyad/exec/compile.h"
#include "dyad/ops/ops.h"

namespace dyad::bench {
namespace {

using Tensors = std::vector<Tensor>;

/// Operators written one by one, of which a compiler should make one pass through memory.
struct FusedWorkload {
  std::string name;
  Tensors inputs;
  double bytes;  ///< read and written at least
  std::function<Tensors(const Tensors&)> run;
  /// What element `at` of the first result is.
  std::function<double(const Tensors& in, std::int64_t at)> expected;
  bool only_reads = false;  ///< but for a few bytes: the floor is what reading takes
};

double element(const Tensor& x, std::int64_t at) {
  return slice(x.reshape({-1}), 0, at, at + 1).item<double>();
}

constexpr std::int64_t kRows = 4096, kColumns = 1024, kSide = 2048;
constexpr double kRowsBytes = 4.0 * kRows * kColumns, kSideBytes = 4.0 * kSide * kSide;

/// Ten times h * row + column and a third operator.
Tensors chain_of_30(const Tensors& in) {
  Tensor h = in[0];
  for (int i = 0; i < 10; ++i) {
    h = h * in[1] + in[2];
    h = i % 3 == 2 ? tanh(h) : abs(h);
  }
  return {h};
}

double expected_of_30(const Tensors& in, std::int64_t at) {
  double h = element(in[0], at);
  const double row = element(in[1], at % kSide), column = element(in[2], at / kSide);
  for (int i = 0; i < 10; ++i) {
    h = h * row + column;
    h = i % 3 == 2 ? std::tanh(h) : std::abs(h);
  }
  return h;
}

Tensors softmax_written_out(const Tensors& in) {
  const Tensor e = exp(in[0] - max(in[0], {-1}, true));
  return {e / sum(e, {-1}, true)};
}

double expected_softmax(const Tensors& in, std::int64_t at) {
  const std::vector<double> row = in[0][at / kColumns].to(f64).to_vector<double>();
  double total = 0;
  for (const double x : row) total += std::exp(x);
  return std::exp(row[static_cast<std::size_t>(at % kColumns)]) / total;
}

/// Mean and variance of a row.
struct Moments {
  double mean = 0, variance = 0;
  explicit Moments(const std::vector<double>& row) {
    for (const double x : row) mean += x / static_cast<double>(row.size());
    for (const double x : row)
      variance += (x - mean) * (x - mean) / static_cast<double>(row.size());
  }
};

double gelu_of(double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }

double expected_block(const Tensors& in, std::int64_t at) {
  std::vector<double> row = in[0][at / kColumns].to(f64).to_vector<double>();
  const std::vector<double> other = in[1][at / kColumns].to(f64).to_vector<double>();
  for (std::size_t i = 0; i < row.size(); ++i) row[i] += other[i];
  const Moments m(row);
  return gelu_of((row[static_cast<std::size_t>(at % kColumns)] - m.mean) /
                 std::sqrt(m.variance + 1e-5));
}

/// layer_norm of x and the gradient of x, weight and bias for the gradient `in[3]` of its result.
Tensors layer_norm_both_ways(const Tensors& in) {
  Tensor x = in[0].detach(), weight = in[1].detach(), bias = in[2].detach();
  for (Tensor* leaf : {&x, &weight, &bias}) leaf->requires_grad();
  const Tensor outputs[] = {layer_norm(x, weight, bias)}, inputs[] = {x, weight, bias};
  Tensors results = grad(outputs, inputs, {.weights = {in[3]}});
  results.push_back(outputs[0]);
  return results;
}

/// The part of a block with a residual: h = x + r is normalised, and goes on beside it. `in[3]` and
/// `in[5]` are the gradients of the two.
Tensors residual_both_ways(const Tensors& in) {
  Tensor x = in[0].detach(), weight = in[1].detach(), bias = in[2].detach();
  for (Tensor* leaf : {&x, &weight, &bias}) leaf->requires_grad();
  const Tensor h = x + in[4];
  const Tensor outputs[] = {layer_norm(h, weight, bias), h}, inputs[] = {x, weight, bias};
  Tensors results = grad(outputs, inputs, {.weights = {in[3], in[5]}});
  results.insert(results.end(), {outputs[0], outputs[1]});
  return results;
}

/// Of layer_norm of `x`, by x[at].
double layer_norm_gradient(const Tensor& x, const Tensor& grads, std::int64_t at) {
  const std::vector<double> row = x[at / kColumns].to(f64).to_vector<double>();
  const std::vector<double> grad = grads[at / kColumns].to(f64).to_vector<double>();
  const Moments m(row);
  const double rstd = 1 / std::sqrt(m.variance + 1e-5);
  double sum = 0, along = 0;
  for (std::size_t i = 0; i < row.size(); ++i) {
    sum += grad[i] / kColumns;
    along += grad[i] * (row[i] - m.mean) * rstd / kColumns;
  }
  const auto i = static_cast<std::size_t>(at % kColumns);
  return rstd * (grad[i] - sum - (row[i] - m.mean) * rstd * along);
}

double expected_gradient(const Tensors& in, std::int64_t at) {
  return layer_norm_gradient(in[0], in[3], at);
}

double expected_residual_gradient(const Tensors& in, std::int64_t at) {
  return layer_norm_gradient(in[0] + in[4], in[3], at) + element(in[5], at);
}

constexpr double kDropped = 0.1;
constexpr std::uint64_t kSeed = 3;

/// The same numbers at each call, so that the answer can be told.
Tensors residual_with_dropout(const Tensors& in) {
  manual_seed(kSeed);
  return {in[0] + dropout(in[1], kDropped)};
}

double expected_dropout(const Tensors& in, std::int64_t at) {
  const double drawn = static_cast<double>(random_words({kSeed, 0}, at)[0] >> 8) * 0x1p-24;
  const double kept = drawn >= kDropped ? element(in[1], at) / (1 - kDropped) : 0;
  return element(in[0], at) + kept;
}

std::vector<FusedWorkload> fused_workloads() {
  const Tensor rows = uniform({kRows, kColumns}), weight = ones({kColumns}),
               bias = zeros({kColumns}), flat = uniform({std::int64_t{1} << 24});
  return {
      {"x * a + b, 16M",
       {flat},
       2.0 * 4 * (1 << 24),
       [](const Tensors& in) -> Tensors { return {in[0] * 1.5f + 0.25f}; },
       [](const Tensors& in, std::int64_t at) { return element(in[0], at) * 1.5 + 0.25; }},
      {"chain of 30 [2048,2048]",
       {uniform({kSide, kSide}), uniform({kSide}), uniform({kSide, 1})},
       2 * kSideBytes,
       chain_of_30,
       expected_of_30},
      {"softmax [4096,1024]",
       {rows},
       2 * kRowsBytes,
       [](const Tensors& in) -> Tensors { return {softmax(in[0], -1)}; },
       expected_softmax},
      {"softmax written out [4096,1024]",
       {rows},
       2 * kRowsBytes,
       softmax_written_out,
       expected_softmax},
      {"add, layer_norm, gelu [4096,1024]",
       {rows, uniform({kRows, kColumns}), weight, bias},
       3 * kRowsBytes,
       [](const Tensors& in) -> Tensors { return {gelu(layer_norm(in[0] + in[1], in[2], in[3]))}; },
       expected_block},
      {"add, dropout [4096,1024]",
       {rows, uniform({kRows, kColumns})},
       3 * kRowsBytes,
       residual_with_dropout,
       expected_dropout},
      {"layer_norm both ways [4096,1024]",
       {rows, weight, bias, uniform({kRows, kColumns})},
       4 * kRowsBytes,
       layer_norm_both_ways,
       expected_gradient},
      {"add, layer_norm both ways [4096,1024]",
       {rows, weight, bias, uniform({kRows, kColumns}), uniform({kRows, kColumns}),
        uniform({kRows, kColumns})},
       7 * kRowsBytes,
       residual_both_ways,
       expected_residual_gradient},
      {"sum, 16M",
       {flat},
       4.0 * (1 << 24),
       [](const Tensors& in) -> Tensors { return {sum(in[0])}; },
       [](const Tensors& in, std::int64_t) { return sum(in[0].to(f64)).item<double>(); },
       true},
  };
}

}  // namespace

void fused(Results& results, int threads) {
  manual_seed(1);
  const double copy = copy_rate() / 1e9, read = read_rate() / 1e9;
  for (const FusedWorkload& w : fused_workloads()) {
    if (!results.wants(w.name)) continue;
    const auto compiled = compile([&](const Tensors& in) { return w.run(in); }, {.recheck = false});
    const auto check = [&](const Tensors& all) {
      const Tensor& result = all[0];
      const std::int64_t at = result.numel().number() == 1 ? 0 : 1234567;
      const double expected = w.expected(w.inputs, at);
      if (!(std::abs(element(result, at) - expected) <= 1e-4 * std::abs(expected) + 1e-6)) {
        results.fail(w.name, "element " + std::to_string(at));
      }
    };
    check(w.run(w.inputs));
    for (int call = 0; call < 2; ++call) check(compiled(w.inputs));
    const auto add = [&](const char* system, double seconds) {
      results.add(
          {w.name, system, threads, w.bytes / seconds / 1e9, "GB/s", w.only_reads ? read : copy});
    };
    add("dyad-eager", median_seconds([&] { (void)w.run(w.inputs); }));
    add("dyad-compiled", median_seconds([&] { (void)compiled(w.inputs); }));
  }
}

}  // namespace dyad::bench
