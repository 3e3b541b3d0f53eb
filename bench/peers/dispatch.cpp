// Nanoseconds per eager operation on 16 elements in LibTorch, as in bench/dispatch.cpp of Dyad.
// Prints one "workload<TAB>nanoseconds" a line; dispatch.py builds and runs it.
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

namespace {

template <class F>
void report(const std::string& name, F body) {
  constexpr double kSampleSeconds = 0.05;
  const auto seconds = [&](long calls) {
    const auto start = std::chrono::steady_clock::now();
    for (long i = 0; i < calls; ++i) body();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  long calls = 1000;
  while (seconds(calls) < kSampleSeconds) calls *= 2;
  std::vector<double> samples;
  for (int i = 0; i < 7; ++i) samples.push_back(seconds(calls) / static_cast<double>(calls));
  std::nth_element(samples.begin(), samples.begin() + 3, samples.end());
  std::printf("%s\t%.1f\n", name.c_str(), samples[3] * 1e9);
}

template <class F>
void both(const std::string& name, F op) {
  const auto x = torch::rand({16}), y = torch::rand({16});
  {
    const torch::NoGradGuard guard;
    report(name + " no_grad", [&] { auto z = op(x, y); });
  }
  const auto a = torch::rand({16}).requires_grad_(), b = torch::rand({16}).requires_grad_();
  report(name + " recording", [&] { auto z = op(a, b); });
}

}  // namespace

int main() {
  torch::set_num_threads(1);
  using T = const torch::Tensor&;
  both("add", [](T x, T y) { return x + y; });
  both("mul", [](T x, T y) { return x * y; });
  both("tanh", [](T x, T) { return x.tanh(); });
  auto s = torch::scalar_tensor(2.0).requires_grad_(),
       t = torch::scalar_tensor(3.0).requires_grad_();
  report("scalar mul build+fwd+bwd", [&] {
    (s * t).backward();
    s.mutable_grad().reset();
    t.mutable_grad().reset();
  });
}
