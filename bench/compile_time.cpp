#include <chrono>
#include <memory>

#include "bench/harness.h"
#include "bench/training.h"
#include "dyad/exec/compile.h"

namespace dyad::bench {

void compile_time(Results& results, int threads) {
  // The first five calls, which record, compile and run, without what five compiled steps cost: the
  // peers' scripts take the same difference. A process compiles cold only once.
  constexpr std::size_t kCalls = 5;
  using Clock = std::chrono::steady_clock;
  const Batches data = make_batches(128, {1, 28, 28});
  auto trainer = std::make_shared<DemoCnnTrainer>(optim::AdamOptions{.lr = 0.002});
  const auto step = compile(
      [trainer](const Tensor& x, const Tensor& y) { return (*trainer)(x, y); }, {.recheck = false});
  const auto start = Clock::now();
  for (std::size_t i = 0; i < kCalls; ++i) (void)step(data.images[i], data.labels[i]);
  const double first = std::chrono::duration<double>(Clock::now() - start).count();
  const double warm = median_seconds([&] { (void)step(data.images[0], data.labels[0]); });
  results.add({"demo CNN step, record and compile", "dyad-compiled", threads,
               (first - kCalls * warm) * 1e3, "ms", 0});
}

}  // namespace dyad::bench
