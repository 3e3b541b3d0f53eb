#include "tools/dyad/demo.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <optional>
#include <vector>

#include "tools/dyad/cnn.h"
#include "tools/dyad/demo_report.h"
#include "tools/dyad/digit_art.h"
#include "tools/dyad/progress.h"

namespace dyad::tool {
namespace {

using Clock = std::chrono::steady_clock;

struct DemoOptions {
  std::string
      data;  ///< folder with digits; empty: DYAD_DATA_DIR, or the digits that come with Dyad
  std::string output = "dyad-demo";  ///< folder for report.html, model.onnx and weights.safetensors
  int epochs = 0;  ///< 0: 30 for the small digits, 5 for MNIST, which has six times as many
  std::int64_t batch = 64;
  std::uint64_t seed = 1;
  bool graph = true;  ///< pictures of the graph in the report
  std::optional<int> threads;
};

/// The digits that come with Dyad: beside an installed program, or in the source folder that it was
/// built in.
std::string own_digits() {
  const std::filesystem::path folder =
      std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const std::filesystem::path installed = folder.parent_path() / "share" / "dyad" / "digits";
  return std::filesystem::exists(installed)
             ? installed
             : folder.parent_path().parent_path() / "data" / "digits";
}

std::string find_data(const DemoOptions& options) {
  return options.data.empty() ? data::data_folder(own_digits()) : options.data;
}

double accuracy_of(const Cnn& model, const data::Digits& digits, std::int64_t batch) {
  const NoGrad scope;
  nn::eval(model);
  std::int64_t right = 0;
  const std::int64_t count = digits.test_images.size(0).value();
  for (std::int64_t from = 0; from < count; from += batch) {
    const Tensor images = slice(digits.test_images, 0, from, from + batch);
    const Tensor labels = slice(digits.test_labels, 0, from, from + batch);
    right += sum(argmax(model(images), 1) == labels).item<std::int64_t>();
  }
  nn::train(model);
  return static_cast<double>(right) / static_cast<double>(count);
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Trains a new model from the seed; the two modes differ in one line.
TrainingRun train(const DemoOptions& options, const data::Digits& digits, bool compiled,
                  std::optional<Cnn>& trained) {
  manual_seed(options.seed);
  const Cnn model = make_cnn(digits.train_images.size(2).value());
  optim::Adam optimizer(nn::parameters(model), {.lr = 0.003});
  data::DataLoader loader(data::TensorDataset(digits.train_images, digits.train_labels),
                          {.batch_size = options.batch, .shuffle = true, .seed = options.seed});
  const auto step = [&](const Tensor& images, const Tensor& labels) {
    optimizer.zero_grad();
    Tensor loss = cross_entropy(model(images), labels);
    loss.backward();
    optimizer.step();
    return loss;
  };
  const auto fast = compile(step, {.name = "training step"});
  optim::Schedule schedule(optimizer, optim::cosine_decay(options.epochs * loader.size(), 0.02));

  TrainingRun run{.name = compiled ? "compiled" : "eager"};
  std::vector<double> step_seconds;
  release_cached_memory();
  reset_peak_memory();
  const std::size_t memory_before = memory_stats().in_use;
  const auto start = Clock::now();
  Progress progress(run.name, options.epochs * loader.size());
  for (int epoch = 1; epoch <= options.epochs; ++epoch) {
    for (const auto& [images, labels] : loader) {
      const auto begin = Clock::now();
      const Tensor loss = compiled ? fast(images, labels) : step(images, labels);
      schedule.step();
      step_seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
      run.losses.push_back(loss.item());
      progress.step(run.losses.back(), images.size(0).value());
    }
    run.accuracies.push_back(accuracy_of(model, digits, options.batch));
    progress.epoch(epoch, options.epochs, run.accuracies.back());
  }
  progress.finish();
  run.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  run.step_ms = 1e3 * median(step_seconds);
  run.peak_bytes = memory_stats().peak - memory_before;
  if (compiled) {
    run.explanation = fast.explain();
    run.graphs = fast.graphs();
    for (const ExplainedRecording& recording : run.explanation->recordings)
      run.compile_ms += recording.compile_ms;
  }
  trained.emplace(model);
  return run;
}

double largest_difference(const TrainingRun& a, const TrainingRun& b, const Cnn& model_a,
                          const Cnn& model_b) {
  double largest = 0;
  for (std::size_t i = 0; i < std::max(a.losses.size(), b.losses.size()); ++i) {
    largest = std::max(largest, std::abs(a.losses.at(i) - b.losses.at(i)));
  }
  const auto left = nn::parameters(model_a), right = nn::parameters(model_b);
  const NoGrad scope;
  for (std::size_t i = 0; i < left.size(); ++i)
    largest = std::max(largest, max(abs(left[i] - right[i])).item());
  return largest;
}

/// Draws the first test digits and, for as many as there are, one that was classified wrongly.
void show_digits(const Cnn& model, const data::Digits& digits) {
  const NoGrad scope;
  const Tensor images =
      slice(digits.test_images, 0, 0, digits.train_images.size(2).value() > 16 ? 3 : 8);
  const Tensor logits = model(images);
  const auto guesses = argmax(logits, 1).to_vector<std::int64_t>();
  const auto sure = max(softmax(logits, 1), {1}).to_vector<float>();
  std::vector<std::string> captions;
  for (std::size_t i = 0; i < guesses.size(); ++i)
    captions.push_back(fmt::format("{} ({:.0f}%)", guesses[i], 100 * sure[i]));
  fmt::print("\n{}", draw_digits(images, captions));
}

/// 0 when all agreed.
int run_demo(DemoOptions options) {
  use_threads(options.threads);
  const data::Digits digits = data::load_digits(find_data(options));
  const std::int64_t size = digits.train_images.size(2).value();
  if (options.epochs == 0) options.epochs = digits.name == "MNIST" ? 5 : 30;
  fmt::print("{}: {} digits of {}x{} to train, {} held back; {} thread{}\n\n", digits.name,
             digits.train_images.size(0).value(), size, size, digits.test_images.size(0).value(),
             get_num_threads(), get_num_threads() == 1 ? "" : "s");
  std::optional<Cnn> eager_model, compiled_model;
  DemoResult result{.digits = digits.name,
                    .eager = train(options, digits, false, eager_model),
                    .compiled = train(options, digits, true, compiled_model)};
  result.largest_difference =
      largest_difference(result.eager, result.compiled, *eager_model, *compiled_model);
  fmt::print("\n{}\n", text_table(result));

  std::filesystem::create_directories(options.output);
  const std::filesystem::path folder(options.output);
  const std::string onnx_path = folder / "model.onnx",
                    weights_path = folder / "weights.safetensors";
  nn::eval(*compiled_model);
  onnx::save(onnx_path, *compiled_model, {{"image", f32, {"batch", 1, size, size}}});
  io::save_safetensors(weights_path, nn::state_dict(*compiled_model));
  const Cnn reloaded = make_cnn(size);
  nn::load_state_dict(reloaded, io::load_safetensors(weights_path));
  const double accuracy = accuracy_of(reloaded, digits, options.batch);
  fmt::print("wrote {} and {}; reloaded, it classifies {:.2f}% of the held-back digits rightly\n",
             onnx_path, weights_path, 100 * accuracy);
  show_digits(reloaded, digits);

  const std::string report_path = folder / "report.html";
  write_report(result, *compiled_model, options.graph, report_path);
  fmt::print("\nreport: {}\n", report_path);
  const bool agree =
      result.largest_difference == 0 && accuracy == result.compiled.accuracies.back();
  if (!agree) fmt::print("eager and compiled runs, or the reloaded model, DIFFER\n");
  return agree ? 0 : 1;
}

}  // namespace

Command add_demo(CLI::App& program) {
  auto options = std::make_shared<DemoOptions>();
  CLI::App& command =
      add_command(program, "demo",
                  "Train a CNN on handwritten digits eagerly and compiled, compare the "
                  "two bit for bit, export it to ONNX, reload and use it");
  add_option(command,
             {.name = "--data",
              .help = "Folder with digits in IDX files (default: $DYAD_DATA_DIR, or the 8x8 digits "
                      "that come with Dyad; a folder with MNIST trains on that)"},
             &options->data);
  add_option(command,
             {.name = "--output",
              .help = "Folder for report.html, model.onnx and weights.safetensors",
              .shows_default = true},
             &options->output);
  add_option(command,
             {.name = "--epochs",
              .help = "Passes over the training digits (default: 30; 5 for MNIST)",
              .positive = true},
             &options->epochs);
  add_option(command,
             {.name = "--batch",
              .help = "Digits in one training step",
              .positive = true,
              .shows_default = true},
             &options->batch);
  add_option(command,
             {.name = "--seed",
              .help = "Seed of weights and order: the same seed gives the same numbers",
              .shows_default = true},
             &options->seed);
  add_threads(command, options->threads);
  add_flag(command, "!--no-graph", options->graph,
           "Leave the pictures of the graph out of the report");
  add_footer(command,
             "Examples:\n"
             "  dyad demo\n"
             "  dyad demo --epochs 5 --threads 1\n"
             "  dyad demo --data mnist --output mnist-demo");
  return {&command, [options] { return run_demo(*options); }};
}

}  // namespace dyad::tool
