#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/floor.h"
#include "bench/harness.h"
#include "bench/machine.h"
#include "bench/ops.h"
#include "dyad/base/error.h"
#include "dyad/runtime/threads.h"

int main(int argc, char** argv) {
  // Compiled calls are measured, and what it costs to compile them: not both at once.
  setenv("DYAD_BACKGROUND", "0", 0);
  CLI::App app("Measures Dyad. Each benchmark checks its answer; figures are medians.");
  std::vector<std::string> names;
  std::vector<int> threads{1, dyad::get_num_threads()};
  std::string json, table, known;
  for (const auto& group : dyad::bench::groups()) known += "\n  " + group.name + ": " + group.what;
  app.add_option("group", names, "What to measure, all when none is named:" + known);
  app.add_option("--threads", threads, "Numbers of threads to measure with")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--json", json, "Also write the rows to this file");
  app.add_option("--table", table, "Only print the table of the rows in this file");
  std::vector<std::string> only;
  app.add_option("--only", only,
                 "Of training and compile the models whose names have these texts; GPT,-bf16: but "
                 "not those with bf16")
      ->delimiter(',')
      ->allow_extra_args(false);
  bool profile = false;
  app.add_flag("--profile", profile, "Print where the time of compiled training steps goes");
  int first = -1;
  bool first_compiled = false;
  app.add_option("--first-steps", first, "What the group compile starts for each sample")
      ->group("");  // not in the help
  app.add_flag("--compiled", first_compiled)->group("");
  bool serves_ops = false;
  app.add_flag("--serve-ops", serves_ops, "What bench/peers/ops.py drives")->group("");
  double weight_bytes = 0;
  app.add_option("--rates", weight_bytes, "What bench/onnx/run.py makes floors of")->group("");
  CLI11_PARSE(app, argc, argv);
  dyad::bench::Results results(only);
  try {
    if (first >= 0) {
      dyad::set_num_threads(threads.front());
      dyad::bench::first_steps(first, first_compiled);
      return 0;
    }
    if (profile) {
      dyad::set_num_threads(threads.back());
      dyad::bench::profile_training(results);
      return 0;
    }
    if (weight_bytes > 0) {
      dyad::set_num_threads(threads.front());
      fmt::print("{{\"products\": {}, \"convolutions\": {}, \"bytes\": {}}}\n",
                 dyad::bench::product_flops(), dyad::bench::convolution_flops(),
                 dyad::bench::read_rate(weight_bytes));
      return 0;
    }
    if (serves_ops) {
      dyad::bench::serve_ops();
      return 0;
    }
    if (!table.empty()) {
      results.read_json(table);
      results.print();
      return 0;
    }
    if (threads.size() == 2 && threads[0] == threads[1]) threads.pop_back();
    const auto& groups = dyad::bench::groups();
    for (const std::string& name : names) {
      if (std::none_of(groups.begin(), groups.end(), [&](const auto& g) { return g.name == name; }))
        throw dyad::ValueError("there is no group '" + name + "'; the groups are:" + known);
    }
    for (const auto& group : groups) {
      if (!names.empty() && std::find(names.begin(), names.end(), group.name) == names.end())
        continue;
      for (const int count : threads) {
        dyad::set_num_threads(count);
        const std::string apart =
            dyad::get_num_threads() == 1
                ? ""
                : fmt::format(", a line goes from core to core and back in {:.0f} ns",
                              dyad::bench::core_round_trip_ns());
        fmt::print(stderr, "measuring {} with {} thread{}{}...\n", group.name, count,
                   count == 1 ? "" : "s", apart);
        group.run(results, count);
      }
    }
    results.print();
    if (!json.empty()) results.write_json(json);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return results.failed() ? 1 : 0;
}
