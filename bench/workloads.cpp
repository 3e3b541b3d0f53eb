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

// Reads the parameter, its gradient and what is kept for it, writes all but the gradient.
constexpr double adam_bytes(double parameters) { return 7 * 4 * parameters; }
constexpr double momentum_bytes(double parameters) { return 5 * 4 * parameters; }

std::vector<Layer> mlp_layers() {
  return {linear(128, 784, 512, Passes::first_layer), linear(128, 512, 512), linear(128, 512, 10)};
}

std::vector<Layer> resnet_layers() {
  std::vector<Layer> layers = {convolution({32, 3, 32}, 64, {}, Passes::first_layer),
                               4 * convolution({32, 64, 32}, 64), linear(32, 512, 10)};
  // Stages that begin by halving the images.
  for (const std::int64_t in : {64, 128, 256}) {
    const std::int64_t out = 2 * in, size = 32 * 64 / in;
    layers.push_back(convolution({32, in, size}, out, {.stride = 2}));
    layers.push_back(convolution({32, in, size}, out, {.size = 1, .stride = 2, .padding = 0}));
    layers.push_back(3 * convolution({32, out, size / 2}, out));
  }
  return layers;
}

std::vector<Layer> gpt_layers() {
  constexpr std::int64_t kRows = 16 * 128;
  return {4 * linear(kRows, 256, 768),  4 * attention(16 * 4, 128, 64),
          4 * linear(kRows, 256, 256),  4 * linear(kRows, 256, 1024),
          4 * linear(kRows, 1024, 256), linear(kRows, 256, kCharacters)};
}

}  // namespace

double lstm_update_bytes() { return adam_bytes(420289); }

std::vector<Layer> lstm_layers(std::int64_t batch, std::int64_t length) {
  return {linear(batch * length, 128, 4 * 256), recurrent(batch, length, 256),
          linear(batch * length, 256, kCharacters)};
}

const std::vector<Workload>& workloads() {
  static const std::vector<Workload> all = {
      {"MLP training, batch 128", images<128, 784>, make<Mlp, optim::Adam>, mlp_layers(), f32,
       adam_bytes(669706)},
      {"demo CNN training, batch 128",
       images<128, 1, 28, 28>,
       make<DemoCnn, optim::Adam>,
       {convolution({128, 1, 28}, 16, {}, Passes::first_layer), convolution({128, 16, 28}, 32),
        linear(128, 6272, 64), linear(128, 64, 10)},
       f32,
       adam_bytes(406922)},
      {"example CNN training, batch 64",
       images<64, 1, 28, 28>,
       make<ExampleCnn, optim::SGD>,
       {convolution({64, 1, 28}, 32, {.padding = 0}, Passes::first_layer),
        convolution({64, 32, 26}, 64, {.padding = 0}), linear(64, 9216, 128), linear(64, 128, 10)},
       f32,
       momentum_bytes(1199882)},
      {"ResNet-18 training, batch 32", images<32, 3, 32, 32>, make<ResNet18, optim::SGD>,
       resnet_layers(), f32, momentum_bytes(11173962)},
      {"GPT training, batch 16", texts<16, 128>, make<Gpt, optim::AdamW>, gpt_layers(), f32,
       adam_bytes(3225921), kCharacters},
      // Gradients in bf16 are read, and parameters written in it too: as many bytes.
      {"MLP training, batch 128, bf16", images<128, 784>, make<Mlp, optim::Adam, true>,
       mlp_layers(), bf16, adam_bytes(669706)},
      {"GPT training, batch 16, bf16", texts<16, 128>, make<Gpt, optim::AdamW, true>, gpt_layers(),
       bf16, adam_bytes(3225921), kCharacters},
      {"LSTM training, batch 32", texts<32, 64>, make<LstmModel, optim::Adam>, lstm_layers(32, 64),
       f32, lstm_update_bytes(), kCharacters},
  };
  return all;
}

}  // namespace dyad::bench
