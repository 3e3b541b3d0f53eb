#include "tools/dyad/opt.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>

#include "dyad/base/error.h"
#include "dyad/debug/html_report.h"
#include "dyad/debug/pass_report.h"
#include "dyad/exec/assumed_sizes.h"
#include "dyad/exec/executable.h"
#include "dyad/exec/graph.h"
#include "dyad/exec/pass_log.h"
#include "dyad/exec/plan_text.h"
#include "dyad/passes/dump_passes.h"
#include "dyad/passes/epilogue_ops.h"
#include "dyad/passes/fused_op.h"
#include "dyad/passes/lower.h"
#include "dyad/passes/size_sources.h"
#include "dyad/runtime/library_calls.h"
#include "tools/dyad/text.h"

namespace dyad::tool {
namespace {

struct OptOptions {
  std::string file;
  std::vector<std::string> passes, off;
  bool each = false, lines = true, fast_math = false, plan = false, notes = false, json = false;
  std::string html;                           ///< a file, or none
  std::optional<std::uint64_t> memory_limit;  ///< MB
  std::map<std::string, std::int64_t> sizes;
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

/// The passes that were asked for, one after the other.
Ref<GraphImpl> run_passes(const Ref<GraphImpl>& graph, const std::vector<std::string>& names,
                          const passes::LowerOptions& options) {
  if (names.empty()) return passes::lower(*graph, options);
  std::vector<passes::Pass> chosen;
  chosen.reserve(names.size());
  for (const std::string& name : names) chosen.push_back(passes::find_pass(name));
  return passes::run_passes(graph, chosen, options);
}

/// The numbers for a graph's symbols; ValueError where one is missing that a plan needs, or is for
/// none.
SymbolMap numbers_of(const GraphImpl& graph, const std::map<std::string, std::int64_t>& sizes,
                     bool for_plan) {
  SymbolMap numbers;
  for (const auto& [name, size] : sizes) numbers.bind(Dim::symbol(name), size);
  std::vector<Dim> needed, known;
  for (const Value v : graph.placeholders()) {
    if (for_plan) passes::collect_result_symbols(*v.node, needed);
  }
  for (const auto& node : graph.nodes()) passes::collect_all_symbols(*node, known);
  std::string missing, example;
  for (const Dim symbol : needed) {
    if (numbers.find(symbol)) continue;
    numbers.bind(symbol, 0);
    missing += (missing.empty() ? "" : ", ") + to_string(symbol);
    example += fmt::format(" --dim {}=32", to_string(symbol));
  }
  if (!missing.empty()) {
    throw ValueError(
        fmt::format("a plan needs numbers for sizes of the placeholders: {}; add, for example,{}",
                    missing, example));
  }
  for (const auto& [symbol, size] : numbers.entries()) {
    if (std::ranges::none_of(known, [&](Dim each) { return each.same_as(symbol); }))
      throw ValueError(fmt::format("no size of the graph is called {}", to_string(symbol)));
  }
  return numbers;
}

passes::LowerOptions lower_options(const OptOptions& options, const SymbolMap& numbers) {
  // A pass that is asked for by name does what it does on a CPU that needs it.
  const bool by_name = !options.passes.empty();
  passes::LowerOptions lower{
      .evaluate = exec::evaluate_node,
      .cannot_fail = exec::never_fails,
      .off = options.off,
      .fast_math = options.fast_math,
      .channel_blocks = by_name || runtime::prefers_channel_blocks(),
      .library = {
          .convolves = [by_name](DType dtype) { return !by_name && runtime::convolves(dtype); },
          .multiplies = [by_name](DType dtype) { return !by_name && runtime::multiplies(dtype); }}};
  constexpr std::int64_t kMegabyte = 1'000'000;
  lower.memory = {
      .memory_limit = static_cast<std::int64_t>(options.memory_limit.value_or(0)) * kMegabyte,
      .sizes = numbers};
  return lower;
}

/// Writes the page that was asked for, and prints the JSON.
void report(const OptOptions& options, const ExplainedPasses& told) {
  if (options.json) fmt::print("{}\n", debug::to_json({&told, 1}));
  if (options.html.empty()) return;
  debug::HtmlReport page("Passes of the compiler", told.graph);
  debug::add_passes(page, {&told, 1});
  page.save(options.html);
  fmt::print(stderr, "wrote {}\n", options.html);
}

int optimise(const OptOptions& options) {
  passes::register_epilogue_ops();
  passes::register_fused_ops();
  const Graph given = Graph::parse(read_all(options.file));
  const exec::AssumedSizes assumed(given.state());
  const SizeFacts::Scope facts(assumed);
  Ref<GraphImpl> graph = given.impl();
  const SymbolMap numbers = numbers_of(*graph, options.sizes, options.plan);
  const GraphTextOptions text{.lines = options.lines};
  passes::LowerOptions lower = lower_options(options, numbers);
  std::vector<std::string> notes;
  if (options.notes) {
    lower.fusion.note = lower.rows.note = [&](Loc where, const std::string& text) {
      std::string note = where ? fmt::format("{}: {}", to_string(where), text) : text;
      if (std::ranges::find(notes, note) == notes.end()) notes.push_back(std::move(note));
    };
  }
  const bool reports = options.json || !options.html.empty();
  exec::PassLog log(options.file == "-" ? "standard input" : options.file,
                    {.lines = options.lines, .data_limit = passes::kDumpDataLimit});
  lower.dump = [&](std::string_view pass, const GraphImpl& now) {
    if (reports) log(pass, now);
    if (!options.each) return;
    fmt::print("// {}\n{}", pass == "input" ? "as given" : "after " + std::string(pass),
               to_string(now, text));
  };
  graph = run_passes(graph, options.passes, lower);
  lower.dump = {};
  if (reports) report(options, log.take());
  if (options.plan) {
    const exec::PlanTextOptions plan{.lines = options.lines,
                                     .lower = [&](const Ref<GraphImpl>& region) {
                                       return run_passes(clone(*region), options.passes, lower);
                                     }};
    fmt::print("{}{}", options.each ? "// the plan\n" : "", exec::plan_text(*graph, numbers, plan));
  } else if (!options.each && !reports) {
    fmt::print("{}", to_string(*graph, text));
  }
  for (const std::string& note : notes) fmt::print("// {}\n", note);
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
  add_flag(command, "--plan", options->plan,
           "Print how the graph then runs: its steps in order, and where their memory lies");
  add_sizes(
      command, options->sizes,
      "The size that the graph calls NAME is N: for --plan and --memory-limit (otherwise 64)");
  add_option(command,
             {.name = "--memory-limit",
              .help = "Compute again what keeps a run's values above so many megabytes",
              .value = "MB"},
             &options->memory_limit);
  add_flag(command, "--notes", options->notes,
           "Say at the end, in comments, why operators share kernels or do not");
  add_flag(command, "--json", options->json,
           "Print what each pass does as JSON instead, times in milliseconds",
           {"--each", "--plan", "--notes"});
  add_option(command,
             {.name = "--html",
              .help = "Write what each pass does into a file, to look at in a browser",
              .value = "FILE"},
             &options->html);
  add_flag(command, "!--no-lines", options->lines, "Leave out the source lines");
  add_footer(
      command,
      "Reads a graph as `to_string` writes it, and prints what the passes make of it.\n\n"
      "A plan needs a number for each size. It has a line for each step: operators, what they "
      "read, and ->\nwhat they give (\"over %1\": in the memory of %1, which nobody needs any "
      "more). Then one for each\nblock of memory: the values that lie there, where it is, its "
      "bytes, the steps that need it.\n\n"
      "--json and --html tell of each pass: its time, the operators before and after it, and the "
      "graph after\nit, if it changed anything (on the page: the lines that differ). Of constants "
      "that take more than\n64 KiB in all the elements are left out.\n\n"
      "Examples:\n"
      "  dyad opt graph.txt                      the graph that runs\n"
      "  dyad opt graph.txt --pass cse,dce       after these two alone\n"
      "  dyad opt graph.txt --each               after each pass\n"
      "  dyad opt graph.txt --html passes.html   what each pass changes, as a page\n"
      "  dyad opt graph.txt --plan --dim n=32    steps and memory where the size n is 32\n"
      "  dyad opt step.txt --memory-limit 100    a step that takes 100 MB, if it can be\n"
      "  dyad opt graph.txt --notes              and why it has the kernels that it has\n"
      "  dyad inspect model.onnx --text | dyad opt - --without fuse");
  return {&command, [options] { return optimise(*options); }};
}

}  // namespace dyad::tool
