#include "tools/dyad/inspect.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "dyad/base/error.h"
#include "dyad/io/atomic_file.h"
#include "dyad/ir/dot.h"
#include "dyad/onnx/description.h"
#include "dyad/onnx/inputs.h"
#include "dyad/passes/dce.h"
#include "tools/dyad/program.h"
#include "tools/dyad/text.h"

namespace dyad::tool {
namespace {

struct InspectOptions {
  std::string model;
  std::map<std::string, std::int64_t> sizes;
  bool parameters = false, text = false, json = false;
  std::string svg;
};

/// What a run needs, or why that is not known.
struct MemoryReport {
  std::vector<std::pair<std::string, std::int64_t>> sizes;
  std::optional<exec::MemoryUse> use;
  std::string problem;
};

/// What is known of a model.
struct Report {
  onnx::ModelDescription model;
  std::string problem;  ///< why it cannot be run, beside its list of unsupported nodes
  MemoryReport memory;

  [[nodiscard]] bool runs() const { return problem.empty() && model.unsupported.empty(); }
};

MemoryReport memory_of(const onnx::Model& model, const InspectOptions& options) {
  MemoryReport report;
  try {
    const onnx::Inputs inputs =
        onnx::make_inputs(model, {.sizes = options.sizes, .seed = 0}, Loc());
    report.sizes = inputs.sizes;
    report.use = model.memory(inputs.values, Loc());
    if (!report.use) report.problem = "data decide on sizes, so only a run can tell";
  } catch (const Error& error) {
    if (!options.sizes.empty()) throw;  // what was asked for cannot be had
    report.problem = error.message();
  }
  return report;
}

Report report_on(const InspectOptions& options) {
  Report report{.model = onnx::describe(options.model, Loc()), .problem = {}, .memory = {}};
  if (!report.model.unsupported.empty()) return report;
  std::optional<onnx::Model> model;
  try {
    model = onnx::load(options.model, {.trainable = false}, Loc());
  } catch (const OnnxError& error) {
    report.problem = error.message();
    return report;
  }
  report.memory = memory_of(*model, options);
  return report;
}

std::string sizes_text(const std::vector<std::pair<std::string, std::int64_t>>& sizes) {
  std::string text;
  for (const auto& [name, number] : sizes) {
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", name, number);
  }
  return text;
}

void print_values(const char* title, const std::vector<onnx::ValueInfo>& values) {
  fmt::print("\n{}\n", title);
  std::vector<std::vector<std::string>> rows;
  for (const onnx::ValueInfo& value : values) rows.push_back({value.name, value.text});
  fmt::print("{}", values.empty() ? "  none\n" : columns(rows, "ll"));
}

void print_parameters(const onnx::ModelDescription& model, bool by_name) {
  std::uint64_t outside = 0;
  std::map<std::string, std::uint64_t> files;
  for (const auto& parameter : model.parameters) {
    if (parameter.file.empty()) continue;
    outside += parameter.bytes;
    files[parameter.file] += parameter.bytes;
  }
  fmt::print("\nParameters: {}, {}, {}\n", plural(model.parameters.size(), "tensor"),
             plural(model.parameter_elements(), "element"), bytes_text(model.parameter_bytes()));
  for (const auto& [file, bytes] : files) fmt::print("  {} in {}\n", bytes_text(bytes), file);
  if (!by_name) return;
  std::vector<std::vector<std::string>> rows;
  for (const auto& parameter : model.parameters) {
    rows.push_back({parameter.name, parameter.type, bytes_text(parameter.bytes)});
  }
  fmt::print("{}", columns(rows, "llr"));
}

void print_memory(const MemoryReport& memory) {
  if (!memory.use) {
    fmt::print("\nMemory: not known; {}\n", memory.problem);
    return;
  }
  fmt::print(
      "\nMemory of a run{}\n",
      memory.sizes.empty() ? "" : " at " + sizes_text(memory.sizes) + " (change it by --dim)");
  const exec::MemoryUse& use = *memory.use;
  fmt::print(
      "{}",
      columns({{"intermediate values", bytes_text(use.intermediate),
                fmt::format("they take turns; each in its own memory: {}", bytes_text(use.apart))},
               {"results", bytes_text(use.results), ""}},
              "lrl"));
}

void print_operators(const onnx::ModelDescription& model) {
  fmt::print("\nOperators: {}\n", plural(static_cast<std::uint64_t>(model.nodes()), "node"));
  std::vector<std::vector<std::string>> rows;
  for (const auto& use : model.operators) {
    rows.push_back({use.op, fmt::format("{}", use.version), fmt::format("{}", use.count),
                    use.is_function    ? "a function of the model"
                    : use.is_supported ? ""
                                       : "cannot be run"});
  }
  fmt::print("{}", columns(rows, "lrrl"));
}

void print_report(const Report& report, const InspectOptions& options) {
  const onnx::ModelDescription& model = report.model;
  std::string opsets;
  for (const auto& [domain, version] : model.opsets) {
    opsets += fmt::format("{}{} {}", opsets.empty() ? "" : ", ",
                          domain.empty() ? "ai.onnx" : domain, version);
  }
  fmt::print("{}: {}, written by {}{}{}; IR version {}, operators of {}\n", model.file,
             bytes_text(model.file_bytes), model.producer.empty() ? "nobody named" : model.producer,
             model.producer_version.empty() ? "" : " ", model.producer_version, model.ir_version,
             opsets);
  print_values("Inputs", model.inputs);
  print_values("Outputs", model.outputs);
  print_operators(model);
  print_parameters(model, options.parameters);
  if (report.runs()) {
    print_memory(report.memory);
    fmt::print("\nDyad can run this model.\n");
    return;
  }
  fmt::print("\nDyad cannot run this model.");
  if (report.model.unsupported.empty()) {
    fmt::print(" {}\n", report.problem);
    return;
  }
  fmt::print(" {} {} in the way:\n", plural(model.unsupported.size(), "node"),
             model.unsupported.size() == 1 ? "stands" : "stand");
  for (const onnx::NodeUse& node : model.unsupported) fmt::print("  {}\n", to_string(node));
}

nlohmann::json json_of(const std::vector<onnx::ValueInfo>& values) {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& value : values) list.push_back({{"name", value.name}, {"type", value.text}});
  return list;
}

nlohmann::json json_of(const Report& report) {
  using nlohmann::json;
  const onnx::ModelDescription& model = report.model;
  json operators = json::array(), parameters = json::array(), unsupported = json::array();
  for (const auto& use : model.operators) {
    operators.push_back({{"operator", use.op},
                         {"version", use.version},
                         {"nodes", use.count},
                         {"supported", use.is_supported || use.is_function}});
  }
  for (const auto& parameter : model.parameters) {
    parameters.push_back({{"name", parameter.name},
                          {"type", parameter.type},
                          {"elements", parameter.elements},
                          {"bytes", parameter.bytes},
                          {"file", parameter.file}});
  }
  for (const onnx::NodeUse& node : model.unsupported) {
    unsupported.push_back({{"operator", node.op},
                           {"version", node.version},
                           {"node", node.node},
                           {"reason", node.reason}});
  }
  json memory;  // null unless it is known
  if (report.memory.use) {
    memory = {{"sizes", json::object()},
              {"intermediate_bytes", report.memory.use->intermediate},
              {"unshared_bytes", report.memory.use->apart},
              {"result_bytes", report.memory.use->results}};
    for (const auto& [name, number] : report.memory.sizes) memory["sizes"][name] = number;
  }
  return {{"file", model.file},
          {"bytes", model.file_bytes},
          {"producer", model.producer},
          {"producer_version", model.producer_version},
          {"ir_version", model.ir_version},
          {"opsets", model.opsets},
          {"metadata", model.metadata},
          {"inputs", json_of(model.inputs)},
          {"outputs", json_of(model.outputs)},
          {"operators", std::move(operators)},
          {"parameters", std::move(parameters)},
          {"parameter_elements", model.parameter_elements()},
          {"parameter_bytes", model.parameter_bytes()},
          {"memory", std::move(memory)},
          {"unsupported", std::move(unsupported)},
          {"problem", report.problem},
          {"runs", report.runs()}};
}

int inspect(const InspectOptions& options) {
  if (is_program(options.model)) {
    if (!options.svg.empty()) {
      throw ValueError(
          fmt::format("--svg draws ONNX models; '{}' is a program, whose graphs --text prints",
                      options.model),
          Loc());
    }
    inspect_program(options.model, options.text   ? ProgramView::text
                                   : options.json ? ProgramView::json
                                                  : ProgramView::table);
    return 0;
  }
  if (options.text || !options.svg.empty()) {
    // Weights by name say more than the numbers in them.
    const onnx::Model model = onnx::load(options.model, {.trainable = true}, Loc());
    // Models compute with sizes, of which the graph knows the results already.
    const Ref<GraphImpl> graph = clone(*model.graph(Loc()).impl());
    passes::dce(*graph);
    if (options.text) fmt::print("{}", to_string(*graph));
    if (!options.svg.empty()) {
      const auto place = [&](const Node& node) {
        const std::string op = model.operator_at(node.loc());
        if (op.empty()) return op;
        return op + " " + std::string(node.loc().function());
      };
      io::write_file(options.svg, to_svg(*graph, {.title = model.file(), .place = place}));
      fmt::print(stderr, "wrote {}\n", options.svg);
    }
    if (!options.json) return 0;
  }
  const Report report = report_on(options);
  if (options.json) {
    fmt::print("{}\n",
               json_of(report).dump(1, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    print_report(report, options);
  }
  return report.runs() ? 0 : 1;
}

}  // namespace

Command add_inspect(CLI::App& program) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App& command = add_command(
      program, "inspect",
      "Show what is in an ONNX model, and whether Dyad can run it, or in a program (NAME.dyad)");
  add_model(command, options->model);
  add_sizes(command, options->sizes);
  add_flag(command, "--parameters", options->parameters, "List the parameters by name");
  add_flag(command, "--json", options->json, "Print everything as JSON");
  add_flag(command, "--text", options->text, "Print the graph instead: one line for each node",
           {"--json"});
  add_option(command,
             {.name = "--svg",
              .help = "Draw the graph into a file, to look at in a browser",
              .value = "FILE"},
             &options->svg);
  add_footer(command,
             "Shows inputs and outputs with their types, operators and how often each occurs, "
             "parameters,\nthe memory of a run, and every node that Dyad has no operator for. "
             "Sizes with names are open:\nmemory is told for 1 of each, or what --dim says.\n\n"
             "Examples:\n"
             "  dyad inspect resnet.onnx\n"
             "  dyad inspect resnet.onnx --dim batch=16       memory of a larger batch\n"
             "  dyad inspect resnet.onnx --svg graph.svg      a picture\n"
             "  dyad inspect resnet.onnx --json > resnet.json\n"
             "  dyad inspect resnet.onnx > /dev/null && echo \"Dyad runs it\"\n\n"
             "A model that Dyad cannot run is a failure, after all was shown.");
  return {&command, [options] { return inspect(*options); }};
}

}  // namespace dyad::tool
