#include <cstdint>
#include <memory>

#include "bench/models.h"
#include "bench/training.h"
#include "dyad/core/generator.h"
#include "dyad/exec/autocast.h"
#include "dyad/optim/optim.h"

namespace dyad::bench {
namespace {

constexpr int kBatches = 8;

template <std::int64_t batch, std::int64_t... sample>
std::vector<Batch> images() {
  manual_seed(1);
  std::vector<Batch> data;
  for (int i = 0; i < kBatches; ++i) {
    const Tensor x = uniform({batch, sample...});
    data.push_back({x, randint(0, 10, {batch})});
  }
  return data;
}

template <std::int64_t batch, std::int64_t length>
std::vector<Batch> texts() {
  manual_seed(1);
  std::vector<Batch> data;
  for (int i = 0; i < kBatches; ++i) {
    const Tensor x = randint(0, kCharacters, {batch, length});
    data.push_back({x, randint(0, kCharacters, {batch * length})});
  }
  return data;
}

optim::AdamOptions options_of(std::type_identity<optim::Adam>) { return {}; }
optim::AdamWOptions options_of(std::type_identity<optim::AdamW>) { return {.lr = 3e-4}; }
optim::SGDOptions options_of(std::type_identity<optim::SGD>) {
  return {.lr = 0.01, .momentum = 0.9};
}

/// `narrow`: the forward pass under autocast to bf16.
template <class Model, class Optimizer, bool narrow = false>
Workload::Step make() {
  struct Trainer {
    Model model;
    Optimizer optimizer{nn::parameters(model), options_of(std::type_identity<Optimizer>())};
  };
  return [trainer = std::make_shared<Trainer>()](const Tensor& x, const Tensor& y) {
    Tensor loss;
    {
      const Autocast scope(bf16, narrow);
      loss = cross_entropy(trainer->model(x), y);
    }
    loss.backward();
    trainer->optimizer.step();
    trainer->optimizer.zero_grad();
    return loss;
  };
}

/// Of `samples`, each with so many multiply-adds in the first layer and in the others.
constexpr double flops(double samples, double first, double others) {
  return 2 * samples * (2 * first + 3 * others);
}
// Reads the parameter, its gradient and what is kept for it, writes all but the gradient.
constexpr double adam_bytes(double parameters) { return 7 * 4 * parameters; }
constexpr double momentum_bytes(double parameters) { return 5 * 4 * parameters; }

/// Multiply-adds of a stage of ResNet-18 that begins by halving the image.
constexpr double kStage = 9.0 * 64 * 128 * 256 + 3 * 9.0 * 128 * 128 * 256 + 64.0 * 128 * 256;
/// Of a layer of the GPT, for each token: four products and half of the attention's two.
constexpr double kGptLayer = 12.0 * 256 * 256 + 128 * 256;

}  // namespace

const std::vector<Workload>& workloads() {
  static const std::vector<Workload> all = {
      {"MLP training, batch 128", images<128, 784>, make<Mlp, optim::Adam>,
       flops(128, 784.0 * 512, 512.0 * 512 + 512 * 10), adam_bytes(669706)},
      {"demo CNN training, batch 128", images<128, 1, 28, 28>, make<DemoCnn, optim::Adam>,
       flops(128, 9.0 * 16 * 784, 9.0 * 16 * 32 * 784 + 6272 * 64 + 64 * 10), adam_bytes(406922)},
      {"example CNN training, batch 64", images<64, 1, 28, 28>, make<ExampleCnn, optim::SGD>,
       flops(64, 9.0 * 32 * 676, 9.0 * 32 * 64 * 576 + 9216 * 128 + 128 * 10),
       momentum_bytes(1199882)},
      {"ResNet-18 training, batch 32", images<32, 3, 32, 32>, make<ResNet18, optim::SGD>,
       flops(32, 9.0 * 3 * 64 * 1024, 4 * 9.0 * 64 * 64 * 1024 + 3 * kStage + 5120),
       momentum_bytes(11173962)},
      {"GPT training, batch 16", texts<16, 128>, make<Gpt, optim::AdamW>,
       flops(16 * 128, 0, 4 * kGptLayer + 256 * 65), adam_bytes(3225921), kCharacters},
      // The machine's rate is that of products in f32: no floor.
      {"MLP training, batch 128, bf16", images<128, 784>, make<Mlp, optim::Adam, true>},
      {"GPT training, batch 16, bf16", texts<16, 128>, make<Gpt, optim::AdamW, true>, 0, 0,
       kCharacters},
      {"LSTM training, batch 32", texts<32, 64>, make<LstmModel, optim::Adam>,
       flops(32 * 64, 0, 4 * 256 * (128 + 256) + 256 * 65), adam_bytes(420289), kCharacters},
  };
  return all;
}

}  // namespace dyad::bench
