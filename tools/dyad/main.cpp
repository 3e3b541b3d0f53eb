#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <optional>

#include "dyad/runtime/threads.h"
#include "tools/dyad/demo.h"
#include "tools/dyad/onnx_test.h"

int main(int argc, char** argv) {
  CLI::App app("Dyad: define by run, define then run. One model source for both.");
  app.require_subcommand(1);
  app.footer("Start with: dyad demo");

  dyad::tool::DemoOptions demo;
  std::optional<int> threads;
  CLI::App* command =
      app.add_subcommand("demo",
                         "Train a CNN on handwritten digits eagerly and compiled, compare the two "
                         "bit for bit, export it to ONNX, reload and use it");
  command->add_option("--data", demo.data,
                      "Folder with digits in IDX files (default: $DYAD_DATA_DIR, or the 8x8 digits "
                      "that come with Dyad; "
                      "a folder with MNIST trains on that)");
  command
      ->add_option("--output", demo.output,
                   "Folder for report.html, model.onnx and weights.safetensors")
      ->capture_default_str();
  command
      ->add_option("--epochs", demo.epochs,
                   "Passes over the training digits (default: 30; 5 for MNIST)")
      ->check(CLI::PositiveNumber);
  command->add_option("--batch", demo.batch, "Digits in one training step")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      ->add_option("--seed", demo.seed,
                   "Seed of weights and order: the same seed gives the same numbers")
      ->capture_default_str();
  command->add_option("--threads", threads, "Threads to compute with (default: all cores)")
      ->check(CLI::PositiveNumber);
  bool no_graph = false;
  command->add_flag("--no-graph", no_graph, "Leave the pictures of the graph out of the report");

  dyad::tool::OnnxTestOptions onnx_test;
  CLI::App* onnx_command = app.add_subcommand(
      "onnx-test",
      "Run cases in the layout of ONNX's backend tests and compare the results with theirs");
  onnx_command
      ->add_option(
          "path", onnx_test.paths,
          "Folders: a case (model.onnx, test_data_set_*/input_*.pb, output_*.pb) or a tree "
          "of cases")
      ->required();
  onnx_command
      ->add_option("--rtol", onnx_test.tolerance.relative,
                   "Allowed: |got - want| <= atol + rtol * |want|")
      ->capture_default_str();
  onnx_command->add_option("--atol", onnx_test.tolerance.absolute)->capture_default_str();
  onnx_command->add_option("--json", onnx_test.json,
                           "File for a list of {\"case\", \"result\", \"reason\"}");
  CLI11_PARSE(app, argc, argv);

  try {
    demo.graph = !no_graph;
    if (threads) dyad::set_num_threads(*threads);
    if (onnx_command->parsed()) return dyad::tool::run_onnx_test(onnx_test);
    return dyad::tool::run_demo(demo);
  } catch (const std::exception& error) {
    fmt::print(stderr, "dyad: {}\n", error.what());
    return 1;
  }
}
