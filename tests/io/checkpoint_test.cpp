#include "dyad/io/checkpoint.h"

#include <gmock/gmock.h>

#include "dyad/data/data_loader.h"
#include "dyad/data/digits.h"
#include "dyad/nn/nn.h"
#include "dyad/ops/ops.h"
#include "dyad/optim/optim.h"
#include "tests/data/files.h"
#include "tests/shared/message_of.h"

namespace dyad::io {
namespace {

using dyad::testing::expect_every_truncation_fails;
using dyad::testing::message_of;
using dyad::testing::TempFile;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct ConvNet {
  nn::Conv2d conv{1, 4, 3};
  nn::BatchNorm2d norm{4};
  nn::Dropout dropout{0.3};
  nn::Linear out{4 * 6 * 6, 10};

  Tensor operator()(const Tensor& x) const { return out(dropout(relu(norm(conv(x)))).flatten(1)); }
};

/// A training run: everything that has a state.
struct TrainingRun {
  explicit TrainingRun(std::uint64_t seed)
      : model((manual_seed(seed), ConvNet())),
        optimizer(nn::parameters(model), {.lr = 0.01}),
        schedule(optimizer, optim::linear_warmup(4, 0.1, optim::exponential_decay(0.8))),
        loader(data::TensorDataset(digits().train_images, digits().train_labels),
               {.batch_size = 200, .shuffle = true, .seed = seed}) {}

  static const data::Digits& digits() {
    static const data::Digits loaded = data::load_digits("data/digits");
    return loaded;
  }

  /// The losses of so many steps, over ends of epochs.
  std::vector<float> train(int steps) {
    std::vector<float> losses;
    while (static_cast<int>(losses.size()) < steps) {
      for (auto [x, y] : loader) {
        optimizer.zero_grad();
        Tensor loss = cross_entropy(model(x), y);
        loss.backward();
        optimizer.step();
        schedule.step();
        losses.push_back(loss.item<float>());
        if (static_cast<int>(losses.size()) == steps) break;
      }
    }
    return losses;
  }

  ConvNet model;
  optim::Adam optimizer;
  optim::Schedule schedule;
  data::DataLoader<2> loader;
};

TEST(Checkpoint, TrainingGoesOnWithTheSameBits) {
  TrainingRun straight(1);
  const std::vector<float> losses = straight.train(10);

  const TempFile file("run.safetensors");
  {
    TrainingRun first(1);
    const std::vector<float> half = first.train(5);
    EXPECT_EQ(half, std::vector<float>(losses.begin(), losses.begin() + 5));
    Checkpoint checkpoint = take_checkpoint(first.model, first.optimizer);
    checkpoint.loader = first.loader.position();
    checkpoint.schedule = first.schedule.position();
    checkpoint.notes["best"] = "0.5";
    checkpoint.extra.add("average.weight", full({3}, 2.5));
    save_checkpoint(file.path(), checkpoint);
  }
  TrainingRun second(2);
  (void)second.train(3);
  const Checkpoint checkpoint = load_checkpoint(file.path());
  EXPECT_EQ(checkpoint.notes.at("best"), "0.5");
  EXPECT_EQ(checkpoint.extra.size(), 1u);
  EXPECT_THAT(checkpoint.extra.at("average.weight").to_vector<float>(),
              ElementsAre(2.5f, 2.5f, 2.5f));
  restore_checkpoint(checkpoint, second.model, second.optimizer);
  second.loader.set_position(checkpoint.loader);
  second.schedule.set_position(checkpoint.schedule);
  EXPECT_EQ(second.train(5), std::vector<float>(losses.begin() + 5, losses.end()));
  for (const auto& [name, tensor] : nn::state_dict(straight.model)) {
    EXPECT_EQ(nn::state_dict(second.model).at(name).to_vector<float>(), tensor.to_vector<float>())
        << name;
  }
}

TEST(Checkpoint, WhatDoesNotFitIsOneErrorAndNothingIsWritten) {
  const nn::Linear wide(3, 2), narrow(2, 2);
  optim::Adam a(nn::parameters(wide)), b(nn::parameters(narrow));
  const std::vector<float> before = narrow.weight.to_vector<float>();
  const std::string message =
      message_of<ValueError>([&] { restore_checkpoint(take_checkpoint(wide, a), narrow, b); });
  EXPECT_THAT(message, HasSubstr("model.weight is f32[2, 2] in the model, f32[2, 3] in the state"));
  EXPECT_THAT(message, HasSubstr("optimizer.mean.0 is f32[2, 2]"));
  EXPECT_EQ(narrow.weight.to_vector<float>(), before);
}

TEST(Checkpoint, EveryTruncationIsAnError) {
  const nn::Linear layer(1, 2);
  const optim::SGD optimizer(nn::parameters(layer));
  const TempFile file("whole.safetensors");
  save_checkpoint(file.path(), take_checkpoint(layer, optimizer));
  expect_every_truncation_fails(file.read(), "cut.safetensors",
                                [](const auto& path) { (void)load_checkpoint(path); });
}

TEST(Checkpoint, OtherFilesAreErrors) {
  EXPECT_THAT(
      message_of<IoError>([] { (void)load_checkpoint("tests/io/fixtures/weights.safetensors"); }),
      HasSubstr("expected a checkpoint with 'dyad.checkpoint' in its metadata"));
  const TempFile file("other.safetensors");
  save_safetensors(file.path(), {}, {{"dyad.checkpoint", R"({"format": 9})"}});
  EXPECT_THAT(message_of<IoError>([&] { (void)load_checkpoint(file.path()); }),
              HasSubstr("cannot be read: expected format 1, found 9"));
  save_safetensors(file.path(), {}, {{"dyad.checkpoint", R"({"format": 1, "generator": 3})"}});
  EXPECT_THAT(message_of<IoError>([&] { (void)load_checkpoint(file.path()); }),
              HasSubstr("'dyad.checkpoint' in the metadata cannot be read"));
  for (const char* seed : {"18446744073709551615", "1e300", "1.5", "true"}) {
    save_safetensors(file.path(), {},
                     {{"dyad.checkpoint",
                       std::string(R"({"format": 1, "generator": {"seed": )") + seed + "}}"}});
    EXPECT_THAT(message_of<IoError>([&] { (void)load_checkpoint(file.path()); }),
                HasSubstr("expected a whole number for 'seed', found "));
  }
}

}  // namespace
}  // namespace dyad::io
