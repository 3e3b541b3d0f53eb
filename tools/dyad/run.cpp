#include "tools/dyad/run.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "dyad/base/error.h"
#include "dyad/debug/tensor_summary.h"
#include "dyad/onnx/inputs.h"
#include "dyad/onnx/value_file.h"
#include "tools/dyad/program.h"
#include "tools/dyad/text.h"

namespace dyad::tool {
namespace {

struct RunOptions {
  std::string model, output;
  onnx::InputOptions inputs;
  std::optional<int> threads;
  bool exact = false;
};

using Rows = std::vector<std::vector<std::string>>;

void add_rows(const std::string& name, const onnx::ModelValue& value, Rows& rows) {
  if (value.is_empty()) rows.push_back({name, "empty optional", "", "", "", ""});
  if (value.is_sequence() && value.sequence().empty()) {
    rows.push_back({name, "empty sequence", "", "", "", ""});
  }
  for (std::size_t i = 0; i < value.sequence().size(); ++i) {
    add_rows(fmt::format("{}[{}]", name, i), value.sequence()[i], rows);
  }
  if (!value.is_tensor()) return;
  const debug::TensorSummary summary = debug::summarize(value.tensor());
  const auto number = [&](double x) { return summary.has_numbers ? fmt::format("{:.6g}", x) : ""; };
  std::string first = fmt::format("{}", fmt::join(summary.first, ", "));
  if (value.tensor().numel().value() > static_cast<std::int64_t>(summary.first.size())) {
    first += ", ...";
  }
  if (summary.nans > 0) first += fmt::format("  ({} NaN)", summary.nans);
  if (summary.infinities > 0) first += fmt::format("  ({} infinite)", summary.infinities);
  rows.push_back(
      {name, summary.type, number(summary.min), number(summary.mean), number(summary.max), first});
}

/// The results by name.
std::vector<onnx::NamedValue> results_of(const RunOptions& options) {
  if (is_program(options.model)) return run_program(options.model, options.inputs);
  const onnx::Model model =
      onnx::load(options.model, {.trainable = false, .fast_math = !options.exact}, Loc());
  const onnx::Inputs inputs = onnx::make_inputs(model, options.inputs, Loc());
  const std::vector<onnx::ModelValue> values = model.run_values(inputs.values, Loc());
  std::vector<onnx::NamedValue> results;
  for (std::size_t i = 0; i < values.size(); ++i)
    results.push_back({model.outputs()[i], values[i]});
  return results;
}

void make_folder(const std::string& path) {
  std::error_code problem;
  std::filesystem::create_directories(path, problem);
  if (problem)
    throw IoError(fmt::format("'{}' cannot be made: {}", path, problem.message()), Loc());
}

int run(const RunOptions& options) {
  use_threads(options.threads);
  if (!options.output.empty()) make_folder(options.output);  // before a run that may take long
  const auto results = results_of(options);
  Rows rows{{"result", "type", "min", "mean", "max", "first elements"}};
  for (const auto& [name, value] : results) add_rows(name, value, rows);
  fmt::print("{}", columns(rows, "llrrrl", ""));
  if (options.output.empty()) return 0;
  fmt::print("\n");
  for (const std::string& path : onnx::save_values(options.output, results, Loc())) {
    fmt::print("wrote {}\n", path);
  }
  return 0;
}

}  // namespace

Command add_run(CLI::App& program) {
  auto options = std::make_shared<RunOptions>();
  CLI::App& command = add_command(
      program, "run", "Run an ONNX model, or a program, once and show or store its results");
  add_model(command, options->model);
  add_inputs(command, options->inputs.files);
  add_option(command,
             {.name = "--random",
              .help = "Draw the inputs that no --input gives; equal seeds draw equal numbers",
              .value = "SEED",
              .from_zero = true},
             &options->inputs.seed);
  add_sizes(command, options->inputs.sizes);
  add_option(command,
             {.name = "--output",
              .help = "Folder for the results, each a file NAME.npy (made if it is not there)",
              .value = "DIR"},
             &options->output);
  add_threads(command, options->threads);
  add_exact(command, options->exact);
  add_footer(
      command,
      "Prints a line for each result: its type, the smallest, mean and largest number, and the "
      "first elements.\nSizes with names follow from the files, or from --dim.\n\n"
      "Examples:\n"
      "  dyad run mnist.onnx --input image=digit.npy\n"
      "  dyad run resnet.onnx --random 1 --dim batch=4\n"
      "  dyad run bert.onnx --input ids=ids.npy --random 0 --output results   draws the masks\n"
      "  dyad run case/model.onnx --input x=case/test_data_set_0/input_0.pb\n\n"
      "Of random inputs, floats are normal (mean 0, variance 1), bytes take all values, other "
      "integers are 0 or 1,\nor rows of the table that they look up. NumPy has no bf16, no floats "
      "of 8 and 4 bits: they are stored as f32,\nintegers of 4 and 2 bits as bytes, strings as "
      "messages of ONNX (.pb).\nA program is a file NAME.dyad that io::save wrote.");
  return {&command, [options] {
            const auto use = [&] { return run(*options); };
            if (!options->inputs.files.empty() || is_program(options->model)) return use();
            return with_drawn_inputs(options->model, options->inputs.sizes, use);
          }};
}

}  // namespace dyad::tool
