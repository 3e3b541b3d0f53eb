#include "tools/dyad/opt.h"

#include <fmt/format.h>

#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>

#include "dyad/base/error.h"
#include "dyad/exec/executable.h"
#include "dyad/exec/graph.h"
#include "dyad/passes/epilogue_ops.h"
#include "dyad/passes/fused_op.h"
#include "dyad/passes/lower.h"
#include "dyad/runtime/channel_blocks.h"
#include "tools/dyad/text.h"

namespace dyad::tool {
namespace {

struct OptOptions {
  std::string file;
  std::vector<std::string> passes, off;
  bool each = false, lines = true, fast_math = false;
};

std::string read_all(const std::string& path) {
  if (path == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  std::ifstream file(path, std::ios::binary);
  if (!file) throw IoError("cannot read '" + path + "'");
  return {std::istreambuf_iterator<char>(file), {}};
}

int list_passes() {
  std::vector<std::vector<std::string>> rows;
  for (const passes::Pass& pass : passes::pipeline()) {
    const char* use = pass.use == passes::PassUse::required     ? "needed"
                      : pass.use == passes::PassUse::on_request ? "by --fast-math"
                                                                : "";
    rows.push_back({pass.name, pass.summary, use});
  }
  fmt::print("{}", columns(rows, "lll", ""));
  return 0;
}

int optimise(const OptOptions& options) {
  passes::register_epilogue_ops();
  passes::register_fused_ops();
  Ref<GraphImpl> graph = Graph::parse(read_all(options.file)).impl();
  const GraphTextOptions text{.lines = options.lines};
  passes::LowerOptions lower{
      .evaluate = exec::evaluate_node,
      .off = options.off,
      .fast_math = options.fast_math,
      .channel_blocks = !options.passes.empty() || runtime::prefers_channel_blocks()};
  if (options.each) {
    lower.dump = [&](std::string_view pass, const GraphImpl& now) {
      fmt::print("// {}\n{}", pass == "input" ? "as given" : "after " + std::string(pass),
                 to_string(now, text));
    };
  }
  if (options.passes.empty()) {
    graph = passes::lower(*graph, lower);
  } else {
    std::vector<passes::Pass> chosen;
    chosen.reserve(options.passes.size());
    for (const std::string& name : options.passes) chosen.push_back(passes::find_pass(name));
    if (lower.dump) lower.dump("input", *graph);
    for (const passes::Pass& pass : chosen) {
      graph = pass.run(graph, lower);
      if (lower.dump) lower.dump(pass.name, *graph);
    }
  }
  if (!options.each) fmt::print("{}", to_string(*graph, text));
  return 0;
}

}  // namespace

Command add_passes(CLI::App& program) {
  CLI::App& command = add_command(program, "passes", "List what the compiler does to a graph");
  add_footer(command,
             "In the order in which it is done. What is not \"needed\" can be left out: by "
             "`dyad opt --without`,\nor CompileOptions::passes_off in a program. With "
             "DYAD_DUMP_PASSES=FILE in the environment (- is\nthe standard error), any program "
             "that uses Dyad writes each graph that it compiles, after each pass.\n\n"
             "Examples:\n"
             "  dyad passes");
  return {&command, list_passes};
}

Command add_opt(CLI::App& program) {
  auto options = std::make_shared<OptOptions>();
  CLI::App& command =
      add_command(program, "opt", "Run passes of the compiler on a graph in text form");
  add_option(command,
             {.name = "graph",
              .help = "The text of a graph; - reads the standard input",
              .value = "FILE",
              .required = true},
             &options->file);
  add_option(
      command,
      {.name = "--pass",
       .help = "Run these passes alone, in this order (default: all that `dyad passes` lists)",
       .value = "NAME[,NAME]",
       .by_commas = true},
      &options->passes);
  add_option(command,
             {.name = "--without",
              .help = "Leave these passes out",
              .value = "NAME[,NAME]",
              .by_commas = true,
              .without = "--pass"},
             &options->off);
  add_flag(command, "--fast-math", options->fast_math, "Run fast_math too, which changes bits");
  add_flag(command, "--each", options->each, "Print the graph after each pass");
  add_flag(command, "!--no-lines", options->lines, "Leave out the source lines");
  add_footer(command,
             "Reads a graph as `to_string` writes it, and prints what the passes make of it.\n\n"
             "Examples:\n"
             "  dyad opt graph.txt                      the graph that runs\n"
             "  dyad opt graph.txt --pass cse,dce       after these two alone\n"
             "  dyad opt graph.txt --each               after each pass\n"
             "  dyad inspect model.onnx --text | dyad opt - --without fuse");
  return {&command, [options] { return optimise(*options); }};
}

}  // namespace dyad::tool
