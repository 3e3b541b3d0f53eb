#include "tools/dyad/bench.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "dyad/onnx/benchmark.h"
#include "tools/dyad/program.h"
#include "tools/dyad/progress.h"
#include "tools/dyad/text.h"

namespace dyad::tool {
namespace {

struct BenchOptions {
  std::string model;
  onnx::BenchmarkOptions benchmark;
  std::optional<int> threads;
  bool exact = false, json = false;
};

std::string share_text(double share) { return fmt::format("{:.1f}%", 100 * share); }

void print_table(std::vector<std::vector<std::string>> rows, const std::string& alignment,
                 bool has_onnx) {
  // A program has no ONNX operators.
  if (!has_onnx) {
    for (auto& row : rows) row.erase(row.begin());
  }
  fmt::print("{}", columns(rows, has_onnx ? alignment : alignment.substr(1)));
}

void print_result(const onnx::Benchmark& result, bool has_onnx) {
  std::string sizes;
  for (const auto& [name, number] : result.sizes) sizes += fmt::format("{} = {}, ", name, number);
  fmt::print("{}{}\n\n", sizes, plural(static_cast<std::uint64_t>(result.threads), "thread"));
  std::vector<std::vector<std::string>> rows{
      {"load", time_text(result.load_ms)},
      {"compile", time_text(result.compile_ms)},
      {"first run", time_text(result.first_run_ms)},
      {"median", time_text(result.median_ms),
       fmt::format("of {}; {:.1f} a second", plural(static_cast<std::uint64_t>(result.runs), "run"),
                   1000 / result.median_ms)},
      {"90 of 100", time_text(result.p90_ms)},
      {"peak memory", bytes_text(result.tensor_peak_bytes), "of tensors, weights too"}};
  if (result.process_peak_bytes > 0) {
    rows.push_back({"", bytes_text(result.process_peak_bytes), "of the process"});
  }
  fmt::print("{}", columns(rows, "lrl", ""));

  fmt::print("\nTime by operator (runs of their own, each step timed)\n");
  rows = {{"ONNX operators", "kernel", "calls", "time", "share"}};
  for (const auto& use : result.operators) {
    rows.push_back({use.onnx, use.kernel, fmt::format("{:.4g}", use.calls), time_text(use.ms),
                    share_text(use.share)});
  }
  print_table(std::move(rows), "llrrr", has_onnx);
  fmt::print("\nSlowest steps\n");
  rows.clear();
  for (const auto& slow : result.slowest) {
    rows.push_back({slow.onnx, slow.node, time_text(slow.ms), share_text(slow.share)});
  }
  print_table(std::move(rows), "llrr", has_onnx);
}

nlohmann::json json_of(const onnx::Benchmark& result, const std::string& model) {
  using nlohmann::json;
  json sizes = json::object(), operators = json::array(), slowest = json::array();
  for (const auto& [name, number] : result.sizes) sizes[name] = number;
  for (const auto& use : result.operators) {
    operators.push_back({{"onnx", use.onnx},
                         {"kernel", use.kernel},
                         {"calls", use.calls},
                         {"ms", use.ms},
                         {"share", use.share}});
  }
  for (const auto& slow : result.slowest) {
    slowest.push_back(
        {{"node", slow.node}, {"onnx", slow.onnx}, {"ms", slow.ms}, {"share", slow.share}});
  }
  return {{"model", model},
          {"sizes", std::move(sizes)},
          {"threads", result.threads},
          {"load_ms", result.load_ms},
          {"compile_ms", result.compile_ms},
          {"first_run_ms", result.first_run_ms},
          {"runs", result.runs},
          {"median_ms", result.median_ms},
          {"p90_ms", result.p90_ms},
          {"min_ms", result.min_ms},
          {"mean_ms", result.mean_ms},
          {"tensor_peak_bytes", result.tensor_peak_bytes},
          {"process_peak_bytes", result.process_peak_bytes},
          {"operators", std::move(operators)},
          {"slowest", std::move(slowest)}};
}

int bench(BenchOptions options) {
  use_threads(options.threads);
  StageLine line;
  options.benchmark.progress = [&](std::string_view stage, double part) { line.show(stage, part); };
  options.benchmark.fast_math = !options.exact;
  const bool program = is_program(options.model);
  const onnx::Benchmark result = program ? bench_program(options.model, options.benchmark)
                                         : onnx::benchmark(options.model, options.benchmark, Loc());
  line.clear();
  if (options.json) {
    fmt::print("{}\n", json_of(result, options.model)
                           .dump(1, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    print_result(result, !program);
  }
  return 0;
}

}  // namespace

Command add_bench(CLI::App& program) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App& command =
      add_command(program, "bench",
                  "Time an ONNX model, or a program (NAME.dyad), and show where the time goes");
  add_model(command, options->model);
  add_sizes(command, options->benchmark.inputs.sizes);
  add_inputs(command, options->benchmark.inputs.files);
  add_option(command,
             {.name = "--random",
              .help = "Seed of the inputs that no --input gives (default: 0)",
              .value = "SEED",
              .from_zero = true},
             &options->benchmark.inputs.seed);
  add_option(
      command,
      {.name = "--seconds", .help = "How long to run it", .positive = true, .shows_default = true},
      &options->benchmark.seconds);
  add_option(
      command,
      {.name = "--runs", .help = "How often to run it, instead of --seconds", .positive = true},
      &options->benchmark.runs);
  add_threads(command, options->threads);
  add_exact(command, options->exact);
  add_flag(command, "--json", options->json, "Print everything as JSON, times in milliseconds");
  add_footer(command,
             "Loads, compiles and runs a model on random inputs, or on those that --input gives. "
             "Then runs it some more,\ntiming each step, for the table of operators: those that "
             "one kernel computes together share a line.\n\n"
             "Examples:\n"
             "  dyad bench resnet.onnx\n"
             "  dyad bench resnet.onnx --dim batch=16 --threads 1\n"
             "  dyad bench bert.onnx --dim batch=1 --dim sequence=128 --seconds 10 --json\n\n"
             "Kernels made once are kept on disk: the second time, compiling takes less. A program "
             "compiles in its first run;\na training step trains while it is timed (its file stays "
             "as it is).");
  return {&command, [options] {
            const auto use = [&] { return bench(*options); };
            if (!options->benchmark.inputs.files.empty() || is_program(options->model))
              return use();
            return with_drawn_inputs(options->model, options->benchmark.inputs.sizes, use);
          }};
}

}  // namespace dyad::tool
