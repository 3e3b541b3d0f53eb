// Loads what examples/ship_training.cpp wrote: serves the model, and goes on training it. This
// program knows neither the model nor the optimizer.
#include <cstdio>
#include <string>

#include "dyad/dyad.h"

using namespace dyad;

int main(int count, char** arguments) {
  const std::string folder = count > 1 ? arguments[1] : ".";
  const io::Program model = io::load(folder + "/model.dyad");
  for (const io::Program::Port& input : model.inputs())
    std::printf("input %s: %s\n", input.name.c_str(), to_string(input.type).c_str());
  const Tensor points = tensor({{0.1f, 0.2f}, {2.0f, -1.0f}});
  const Tensor inside = model.run({{"x", points}}).at("probabilities").select(1, 0);
  std::printf("inside: %.2f and %.2f\n", inside[0].item(), inside[1].item());

  const io::Program step = io::load(folder + "/step.dyad");
  manual_seed(2);
  float loss = 0;
  for (int i = 0; i < 50; ++i) {
    const Tensor x = normal({64, 2});
    loss = step(x, (sum(x * x, {1}) > 1.5f).to(i64))[0].item<float>();
  }
  io::save(folder + "/step.dyad", step);  // as far as it is now
  std::printf("loss %.3f after 50 more steps\n", loss);
  const bool learned = inside[0].item() > 0.5 && inside[1].item() < 0.5 && loss < 0.5f;
  return learned ? 0 : 1;
}
