// What docs/training.md shows: options of groups, schedules, averages of weights, large tables.
#include <cstdio>

#include "dyad/dyad.h"

using namespace dyad;

struct Tagger {
  nn::Embedding words{1000, 16, {.sparse = true}};
  nn::Linear hidden{16, 32};
  nn::Linear out{32, 4};

  Tensor operator()(const Tensor& x) const { return out(gelu(hidden(words(x)))); }
};

int main() {
  manual_seed(1);
  Tagger model;
  nn::apply<nn::Linear>(model, [](nn::Linear& layer) {
    nn::init::xavier_uniform_(layer.weight);
    nn::init::zeros_(layer.bias);
  });
  std::printf("%s", nn::summary(model, zeros({8}, i64)).c_str());

  optim::AdamW optimizer({
      {nn::named_parameters(model.words), {.lr = 1e-2, .weight_decay = 0}},
      {nn::parameters(model.hidden), {.lr = 1e-3}},
      {nn::parameters(model.out), {.lr = 1e-3, .weight_decay = 0.1}},
  });
  optim::Schedule schedule(optimizer, optim::linear_warmup(10, 0.1, optim::cosine_decay(90)));
  optim::WeightAverage average(nn::named_parameters(model), {.decay = 0.99});

  const auto step = compile([&](const Tensor& x, const Tensor& y) {
    optimizer.zero_grad();
    Tensor loss = cross_entropy(model(x), y);
    loss.backward();
    optimizer.step();
    average.update();
    return loss;
  });

  double first = 0, last = 0;
  for (int i = 0; i < 100; ++i) {
    const Tensor x = randint(0, 1000, {64});
    const Tensor y = (x.to(f32) / 250).to(i64);
    last = step(x, y).item();
    if (i == 0) first = last;
    schedule.step();
  }
  average.swap();  // the averaged model is the one to evaluate and to save
  std::printf("loss %.3f, then %.3f\n", first, last);
  return last < first ? 0 : 1;
}
