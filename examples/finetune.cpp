// A network that PyTorch trained and exported learns another task: its features stay as they are,
// a new last layer is trained on them, and the whole is exported again.
#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "dyad/dyad.h"

using namespace dyad;

namespace {

/// The network that tells 0 to 4 apart, up to what its last layer took, and a layer for all digits.
struct Classifier {
  onnx::Network features;
  nn::Linear head{512, 10};

  Tensor operator()(const Tensor& image) const { return head(features(image)); }
};

double accuracy(const Classifier& model, const Tensor& images, const Tensor& labels) {
  const NoGrad no_grad;
  return mean((argmax(model(images), 1) == labels).to(f32)).item();
}

}  // namespace

int main() {
  manual_seed(1);
  const std::string folder = data::data_folder("data");
  const data::Digits digits = data::load_digits(folder + "/digits");
  Classifier model{.features = onnx::Network(onnx::load(folder + "/models/half_digits.onnx",
                                                        {.outputs = {"/8/Flatten_output_0"}}))};
  nn::freeze(model.features);
  std::printf("%lld of %lld numbers are trained\n",
              static_cast<long long>(nn::num_parameters(model, /*trainable=*/true)),
              static_cast<long long>(nn::num_parameters(model)));

  optim::AdamW optimizer(nn::named_parameters(model.head), {.lr = 1e-2});
  const auto step = compile([&](const Tensor& images, const Tensor& labels) {
    optimizer.zero_grad();
    Tensor loss = cross_entropy(model(images), labels);
    loss.backward();
    optimizer.step();
    return loss;
  });
  const double before = accuracy(model, digits.test_images, digits.test_labels);
  for (int epoch = 0; epoch < 10; ++epoch) {
    for (std::int64_t i = 0; i < 1400; i += 100) {
      step(digits.train_images.slice(0, i, i + 100), digits.train_labels.slice(0, i, i + 100));
    }
  }
  const double after = accuracy(model, digits.test_images, digits.test_labels);
  std::printf("accuracy on images not seen: %.3f, then %.3f\n", before, after);

  const std::string path = std::filesystem::temp_directory_path() / "dyad_all_digits.onnx";
  onnx::save(path, model, {{"image", f32, {"batch", 1, 8, 8}}}, {.outputs = {"logits"}});
  const auto report = onnx::verify(path, model, {digits.test_images.slice(0, 0, 7)});
  std::printf("%s\n", to_string(report).c_str());
  return after > 0.93 && report ? 0 : 1;
}
