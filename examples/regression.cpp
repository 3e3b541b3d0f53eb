// A small regression model with a print while it trains and a branch on its data; trained eagerly,
// compiled, exported.
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "dyad/dyad.h"

using namespace dyad;

namespace {

/// A model is any aggregate of layers: its parameters are named after its members.
struct Regression {
  nn::Linear linear1{3, 16}, linear2{16, 1};

  Tensor operator()(const Tensor& x) const {
    Tensor hidden = linear1(x);
    if (mean(x) > 0.0f) hidden = relu(hidden);  // decided by the data, in every mode
    return linear2(hidden);
  }
};

/// y = x0 - 2 x1 + 0.5 x2, and its absolute value where the batch's mean is positive.
Tensor target(const Tensor& x) {
  Tensor y = matmul(x, tensor({{1.0f}, {-2.0f}, {0.5f}}));
  return mean(x) > 0.0f ? abs(y) : y;
}

double train(Regression& model, bool compiled) {
  manual_seed(7);
  optim::Adam optimizer(nn::parameters(model), {.lr = 0.01});
  const auto step = [&](const Tensor& x, const Tensor& y) {
    optimizer.zero_grad();
    Tensor loss = mse_loss(model(x), y);
    loss.backward();
    optimizer.step();
    return loss;
  };
  const auto fast_step = compile(step, {.name = "regression step"});
  Tensor loss;
  for (int i = 0; i < 1000; ++i) {
    Tensor x = normal({32, 3}, i % 2 ? 0.3 : -0.3);
    loss = compiled ? fast_step(x, target(x)) : step(x, target(x));
    if (i % 250 == 249) dyad::print("loss {}", loss);
  }
  if (compiled) std::fputs(to_string(fast_step.explain()).c_str(), stdout);
  return loss.item();
}

}  // namespace

int main() {
  manual_seed(1);
  Regression eager_model;
  manual_seed(1);
  Regression compiled_model;
  std::puts("eager:");
  const double eager = train(eager_model, false);
  std::puts("compiled:");
  const double compiled = train(compiled_model, true);
  std::printf("last loss: eager %.9g, compiled %.9g, %s\n", eager, compiled,
              eager == compiled ? "the same bits" : "NOT EQUAL");

  // The branch becomes an If of the ONNX model; the batch stays open.
  const std::string path =
      (std::filesystem::temp_directory_path() / "dyad_regression.onnx").string();
  onnx::save(path, compiled_model, {{"x", f32, {"batch", 3}}});
  std::printf("exported %s (%ju bytes)\n", std::filesystem::path(path).filename().c_str(),
              static_cast<std::uintmax_t>(std::filesystem::file_size(path)));
  std::filesystem::remove(path);
  return eager == compiled && eager < 0.05 ? EXIT_SUCCESS : EXIT_FAILURE;
}
