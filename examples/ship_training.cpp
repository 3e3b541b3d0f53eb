// Trains a model with one compiled step, and writes two files that need no source: the step, to go
// on training, and the model, to serve it. examples/ship_serving.cpp loads both.
#include <cstdio>
#include <string>

#include "dyad/dyad.h"

using namespace dyad;

namespace {

struct Classifier {
  nn::Linear hidden{2, 32};
  nn::Dropout dropout{0.1};
  nn::Linear out{32, 2};

  Tensor operator()(const Tensor& x) const { return out(dropout(relu(hidden(x)))); }
};

}  // namespace

int main(int count, char** arguments) {
  const std::string folder = count > 1 ? arguments[1] : ".";
  manual_seed(1);
  Classifier model;
  optim::Adam optimizer(nn::parameters(model), {.lr = 0.02});
  const auto step = compile([&](const Tensor& x, const Tensor& y) {
    optimizer.zero_grad();
    Tensor loss = cross_entropy(model(x), y);
    loss.backward();
    optimizer.step();
    return loss;
  });
  float loss = 0;
  for (int i = 0; i < 100; ++i) {
    const Tensor x = normal({64, 2});
    const Tensor y = (sum(x * x, {1}) > 1.5f).to(i64);  // inside or outside of a circle
    loss = step(x, y).item<float>();
  }
  io::save(folder + "/step.dyad", step,
           {.inputs = {"x", "y"}, .outputs = {"loss"}, .state = nn::state_dict(model)});

  nn::eval(model);
  Graph graph;
  graph.define([&] { return softmax(model(placeholder("x", f32, {"batch", 2})), 1); });
  io::save(folder + "/model.dyad", graph, {.outputs = {"probabilities"}});
  std::printf("loss %.3f; wrote step.dyad and model.dyad\n", loss);
  return loss < 0.5f ? 0 : 1;
}
