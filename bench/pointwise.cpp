#include <cmath>
#include <string>
#include <vector>

#include "bench/harness.h"
#include "bench/machine.h"
#include "dyad/autograd/grad_mode.h"
#include "dyad/core/generator.h"
#include "dyad/exec/compile.h"
#include "dyad/ops/ops.h"

namespace dyad::bench {
namespace {

constexpr std::int64_t kElements = std::int64_t{1} << 24;

struct Chain {
  std::string workload;
  Tensor (*run)(const Tensor&);
  double (*expected)(double);
};

const Chain kChains[] = {
    {"chain of 7, 16M f32",
     [](const Tensor& x) { return sqrt(square(x * 1.5f + 0.25f) + 1.0f) * 0.5f - x; },
     [](double x) { return std::sqrt((x * 1.5 + 0.25) * (x * 1.5 + 0.25) + 1) * 0.5 - x; }},
    {"gelu written out, 16M f32",
     [](const Tensor& x) {
       return 0.5f * x * (1.0f + tanh(0.7978845608f * (x + 0.044715f * x * x * x)));
     },
     [](double x) { return 0.5 * x * (1 + std::tanh(0.7978845608 * (x + 0.044715 * x * x * x))); }},
    {"relu, 16M f32", [](const Tensor& x) { return relu(x); },
     [](double x) { return x > 0 ? x : 0; }},
};

}  // namespace

void pointwise(Results& results, int threads) {
  const NoGrad scope;
  manual_seed(1);
  const Tensor x = uniform({kElements}, -3.0f, 3.0f);
  const float at = slice(x, 0, 12345, 12346).item<float>();
  const double floor = copy_rate() / 1e9;
  constexpr double kBytes = 2.0 * kElements * sizeof(float);
  for (const Chain& chain : kChains) {
    const auto compiled = compile(chain.run, {.recheck = false});
    const auto check = [&](const Tensor& result) {
      const double error =
          std::abs(slice(result, 0, 12345, 12346).item<double>() - chain.expected(at));
      if (!(error < 1e-5)) results.fail(chain.workload, "element 12345");
    };
    check(chain.run(x));
    check(compiled(x));
    check(compiled(x));
    const auto add = [&](const char* system, double seconds) {
      results.add({chain.workload, system, threads, kBytes / seconds / 1e9, "GB/s", floor});
    };
    add("dyad-eager", median_seconds([&] { (void)chain.run(x); }));
    add("dyad-compiled", median_seconds([&] { (void)compiled(x); }));
  }
}

}  // namespace dyad::bench
