#include "bench/training.h"

#include <cmath>
#include <memory>
#include <string>

#include "bench/harness.h"
#include "bench/machine.h"
#include "dyad/core/generator.h"
#include "dyad/exec/compile.h"

namespace dyad::bench {

Batches make_batches(std::int64_t batch, const Shape& sample) {
  constexpr int kBatches = 8;
  manual_seed(1);
  Batches data;
  for (int i = 0; i < kBatches; ++i) {
    Shape shape{batch};
    for (const Dim size : sample) shape.push_back(size);
    data.images.push_back(uniform(shape));
    data.labels.push_back(randint(0, 10, {batch}));
  }
  return data;
}

namespace {

/// Floating-point operations that the products and convolutions of a step need for each sample.
struct Work {
  double first;   ///< multiply-adds of the first layer, whose input needs no gradient
  double others;  ///< of all other layers
  /// Forward and the gradient of weights everywhere, the gradient of inputs but for the first.
  [[nodiscard]] double flops(double batch) const { return 2 * batch * (2 * first + 3 * others); }
};

template <class Trainer, class Options>
void measure(Results& results, const std::string& workload, const Batches& data,
             const Options& options, int threads, double floor) {
  manual_seed(2);
  Trainer eager(options);
  manual_seed(2);
  auto trainer = std::make_shared<Trainer>(options);
  const auto compiled = compile(
      [trainer](const Tensor& x, const Tensor& y) { return (*trainer)(x, y); }, {.recheck = false});
  for (std::size_t i = 0; i < data.size(); ++i) {
    const float a = eager(data.images[i], data.labels[i]).template item<float>();
    const float b = compiled(data.images[i], data.labels[i]).template item<float>();
    if (a != b || !(std::abs(a - std::log(10.0f)) < 1.5f))
      results.fail(workload, "eager loss " + std::to_string(a) + ", compiled " + std::to_string(b));
  }
  std::size_t next = 0;
  const auto rate = [&](auto& step) {
    return 1 / median_seconds([&] {
             next = (next + 1) % data.size();
             (void)step(data.images[next], data.labels[next]);
           });
  };
  results.add({workload, "dyad-eager", threads, rate(eager), "steps/s", floor});
  results.add({workload, "dyad-compiled", threads, rate(compiled), "steps/s", floor});
}

}  // namespace

void training(Results& results, int threads) {
  constexpr Work kMlp{784.0 * 512, 512.0 * 512 + 512 * 10};
  constexpr Work kDemo{9.0 * 16 * 28 * 28, 9.0 * 16 * 32 * 28 * 28 + 6272 * 64 + 64 * 10};
  constexpr Work kExample{9.0 * 32 * 26 * 26, 9.0 * 32 * 64 * 24 * 24 + 9216 * 128 + 128 * 10};
  const double peak = peak_flops();
  measure<MlpTrainer>(results, "MLP training, batch 128", make_batches(128, {784}),
                      optim::AdamOptions{}, threads, peak / kMlp.flops(128));
  measure<DemoCnnTrainer>(results, "demo CNN training, batch 128", make_batches(128, {1, 28, 28}),
                          optim::AdamOptions{.lr = 0.002}, threads, peak / kDemo.flops(128));
  measure<ExampleCnnTrainer>(
      results, "example CNN training, batch 64", make_batches(64, {1, 28, 28}),
      optim::SGDOptions{.lr = 0.01, .momentum = 0.9}, threads, peak / kExample.flops(64));
}

}  // namespace dyad::bench
