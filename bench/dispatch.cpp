#include <cmath>

#include "bench/harness.h"
#include "dyad/autograd/grad_mode.h"
#include "dyad/core/create.h"
#include "dyad/ops/ops.h"

namespace dyad::bench {

void dispatch(Results& results, int threads) {
  if (threads != 1) return;
  Tensor x = uniform({16}), y = uniform({16});
  Tensor a = uniform({16}).requires_grad(), b = uniform({16}).requires_grad();
  const auto measure = [&](const std::string& name, const auto& op,
                           double (*expected)(double, double)) {
    const double wanted = expected(x.to_vector<double>()[3], y.to_vector<double>()[3]);
    if (std::abs(op(x, y).template to_vector<double>()[3] - wanted) > 1e-6)
      results.fail(name, "element 3");
    const double plain = no_grad([&] { return median_seconds([&] { (void)op(x, y); }); });
    const double recording = median_seconds([&] { (void)op(a, b); });
    results.add({name + " no_grad", "dyad-eager", threads, plain * 1e9, "ns", 0});
    results.add({name + " recording", "dyad-eager", threads, recording * 1e9, "ns", 0});
  };
  measure(
      "add", [](const Tensor& p, const Tensor& q) { return p + q; },
      [](double p, double q) { return p + q; });
  measure(
      "mul", [](const Tensor& p, const Tensor& q) { return p * q; },
      [](double p, double q) { return p * q; });
  measure(
      "tanh", [](const Tensor& p, const Tensor&) { return tanh(p); },
      [](double p, double) { return std::tanh(p); });

  Tensor s = tensor(2.0f).requires_grad(), t = tensor(3.0f).requires_grad();
  const double whole = median_seconds([&] {
    (s * t).backward();
    s.zero_grad();
    t.zero_grad();
  });
  (s * t).backward();
  if (s.grad().item() != 3 || t.grad().item() != 2)
    results.fail("scalar mul build+fwd+bwd", "gradients");
  results.add({"scalar mul build+fwd+bwd", "dyad-eager", threads, whole * 1e9, "ns", 0});
}

}  // namespace dyad::bench
