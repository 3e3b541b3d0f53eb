#include "soak.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <thread>
#include <vector>

#include "dyad/autograd/grad_mode.h"
#include "dyad/core/create.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/control_flow.h"
#include "dyad/ops/ops.h"
#include "program.h"

namespace dyad::testing {
namespace {

double resident_mb() {
  std::ifstream in("/proc/self/statm");
  double pages = 0, resident = 0;
  in >> pages >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

/// A model of a few parameters, and what is done with it.
struct Model {
  Tensor embed = tensor(std::vector<float>(8 * 6, 0.1f), {8, 6}).requires_grad();
  Tensor in = tensor(std::vector<float>(6 * 10, 0.05f), {6, 10}).requires_grad();
  Tensor out = tensor(std::vector<float>(10 * 8, -0.02f), {10, 8}).requires_grad();

  /// One step of training on tokens [batch, length]; the loss.
  Tensor step(const Tensor& tokens) {
    for (Tensor* weight : {&embed, &in, &out}) weight->zero_grad();
    Tensor h = tanh(matmul(embedding(tokens, embed), in));
    h = dropout(h, 0.1) + mean(h, {1}, true);
    const Tensor logits = matmul(h, out);
    const Tensor loss = cross_entropy(reshape(logits, {-1, 8}), reshape(tokens, {-1}));
    loss.backward();
    const NoGrad apart;
    for (Tensor* weight : {&embed, &in, &out}) weight->sub_(weight->grad() * 0.01);
    return loss;
  }

  /// A function with a branch of the host.
  Tensor branch(const Tensor& x) const {
    const Tensor h = matmul(x, in);
    return mean(h) > 0.0f ? sum(relu(h), {0}) : sum(h * h, {0}) * 0.5f;
  }
};

/// Rows for Model::branch(), of either sign.
Tensor draw_rows(Numbers& numbers, std::int64_t batch) {
  std::vector<float> values(static_cast<std::size_t>(batch * 6));
  const float sign = numbers.chance(50) ? 1.0f : -1.0f;
  for (float& value : values) value = sign * static_cast<float>(numbers.between(-2, 9)) / 8;
  return tensor(values, {batch, 6});
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.detach().to_vector<float>() == b.detach().to_vector<float>();
}

}  // namespace

Soak soak(std::int64_t steps, const std::function<void(const std::string&)>& tell) {
  const auto start = std::chrono::steady_clock::now();
  Soak found;
  Model model;
  const auto step = compile([&](const Tensor& tokens) { return model.step(tokens); });
  const auto branch = compile([&](const Tensor& x) { return model.branch(x); });
  // Meanwhile two threads serve a model that nobody trains.
  const Model served;
  const auto serve = compile([&](const Tensor& x) { return served.branch(x); });
  std::atomic<bool> served_equal = true;
  const auto serve_many = [&](std::uint64_t seed) {
    const NoGrad apart;
    Numbers numbers(seed);
    for (std::int64_t i = 0; i < steps; ++i) {
      const Tensor x = draw_rows(numbers, numbers.between(1, 12));
      const Tensor y = serve(x);
      if (i % 97 == 0 && !same_bits(y, served.branch(x))) served_equal = false;
    }
  };
  std::jthread one(serve_many, 8), other(serve_many, 9);
  Numbers numbers(7);
  for (std::int64_t i = 0; i < steps; ++i) {
    const std::int64_t batch = numbers.between(1, 12), length = numbers.between(1, 30);
    std::vector<std::int64_t> tokens(static_cast<std::size_t>(batch * length));
    for (std::int64_t& token : tokens) token = numbers.below(8);
    step(tensor(tokens, {batch, length}));
    const Tensor x = draw_rows(numbers, batch).requires_grad();
    const Tensor y = branch(x);
    sum(y * y).backward();
    if (i % 97 == 0) {
      Tensor same = x.detach().clone().requires_grad();
      const Tensor z = model.branch(same);
      sum(z * z).backward();
      found.equal = found.equal && same_bits(y, z) && same_bits(x.grad(), same.grad());
      model.in.zero_grad();
    }
    if (steps >= 10 && (i + 1) % (steps / 10) == 0) {
      found.late_mb = resident_mb();
      if (2 * (i + 1) <= steps) found.early_mb = found.late_mb;
      tell(fmt::format("{} steps, {:.1f} MB resident", i + 1, found.late_mb));
    }
  }
  one.join();
  other.join();
  found.equal = found.equal && served_equal;
  for (const Explanation& told : {step.explain(), branch.explain(), serve.explain()}) {
    found.recordings += static_cast<std::int64_t>(told.recordings.size());
    found.recorded += told.recorded;
  }
  found.steps = steps;
  found.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return found;
}

}  // namespace dyad::testing
