#include "dyad/io/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>
#include <shared_mutex>
#include <stdexcept>
#include <unordered_set>
#include <utility>
#include <variant>

#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/tape.h"
#include "dyad/base/by_thread.h"
#include "dyad/base/error.h"
#include "dyad/core/autocast_switch.h"
#include "dyad/core/generator_scope.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/exec/eager.h"
#include "dyad/exec/executable_errors.h"
#include "dyad/exec/graph_define.h"
#include "dyad/exec/read_graph.h"
#include "dyad/exec/recording.h"
#include "dyad/io/json_fields.h"
#include "dyad/io/saved_function.h"
#include "dyad/ir/graph_ops.h"

namespace dyad::io {
namespace {

using nlohmann::json;

constexpr const char* kProgramKey = "dyad.program";
constexpr const char* kGraph = "dyad.graph.";
constexpr const char* kNote = "note.";
constexpr const char* kState = "state.";
constexpr const char* kConstant = "constant.";
constexpr const char* kGrad = "grad.";
constexpr int kProgramFormat = 1;

/// A graph to fetch the outputs of.
struct GraphRunner {
  Graph graph;
  SessionOptions options;
  std::unique_ptr<Session> session;
  std::vector<Tensor> fetches;
};

/// `given`, or `prefix0`, `prefix1`...; different names.
std::vector<std::string> names_for(const std::vector<std::string>& given, std::size_t count,
                                   const char* prefix, Loc loc) {
  std::vector<std::string> names = given;
  if (names.empty()) {
    for (std::size_t i = 0; i < count; ++i) names.push_back(fmt::format("{}{}", prefix, i));
  }
  if (names.size() != count) {
    throw ValueError(
        fmt::format("save: {} names are given for {} {}s", names.size(), count, prefix), loc);
  }
  std::unordered_set<std::string> seen;
  for (const std::string& name : names) {
    if (!seen.insert(name).second) {
      throw ValueError(fmt::format("save: two {}s are named \"{}\"", prefix, name), loc);
    }
  }
  return names;
}

json graph_json(const Graph& graph, const ProgramOptions& options, SavedParts& parts, Loc loc) {
  json keys = json::array();
  int position = 0;
  for (const auto& node : graph.impl()->nodes()) {
    if (graph.state()->initial_keys.contains(node.get())) keys.push_back(position);
    ++position;
  }
  return {{"graph", parts.add(*graph.impl(), loc)},
          {"initial_keys", std::move(keys)},
          {"fast_math", options.fast_math},
          {"memory_limit", options.memory_limit}};
}

GraphRunner read_graph(const JsonValue& from, const LoadedParts& parts, int threads) {
  const auto position = from.whole<std::size_t>("graph");
  if (position >= parts.graphs.size()) from.fail("the position of a graph");
  const Graph graph;
  graph.state()->impl = exec::read_graph(parts.graphs[position], parts.variables, parts.constants);
  const auto& nodes = graph.impl()->nodes();
  for (const JsonValue& key : from.list("initial_keys")) {
    const auto at = key.as_whole<std::size_t>("initial_keys");
    if (at >= nodes.size()) key.fail("the position of a node");
    graph.state()->initial_keys.insert(nodes[at].get());
  }
  SessionOptions options{.threads = threads};
  // Files of earlier versions have neither.
  if (from.has("fast_math")) options.fast_math = from.boolean("fast_math");
  if (from.has("memory_limit")) options.memory_limit = from.whole<std::size_t>("memory_limit");
  auto session = std::make_unique<Session>(graph, options);
  return {.graph = graph,
          .options = options,
          .session = std::move(session),
          .fetches = graph.outputs()};
}

/// Tensors whose elements lie in another order than their logical one: bits may depend on it.
json layouts_of(const GraphTexts::Named& tensors) {
  json layouts = json::object();
  for (const auto& [name, tensor] : tensors) {
    const Strides& strides = tensor.strides();
    if (!tensor.is_contiguous())
      layouts[name] = std::vector<std::int64_t>(strides.begin(), strides.end());
  }
  return layouts;
}

/// Whether strides say of each element of a block where it is, once.
bool is_dense(const Shape& shape, const std::vector<std::int64_t>& strides) {
  if (strides.size() != shape.size()) return false;
  std::vector<std::pair<std::int64_t, std::int64_t>> axes;
  for (std::size_t i = 0; i < strides.size(); ++i) {
    if (shape[i].number() != 1) axes.emplace_back(strides[i], shape[i].number());
  }
  std::ranges::sort(axes);
  std::int64_t next = 1;
  for (const auto& [stride, size] : axes) {
    if (stride != next) return false;
    next *= size;
  }
  return true;
}

/// The tensor in the layout that it had, when that was a permutation of a dense one.
Tensor laid_out(Tensor tensor, const std::vector<JsonValue>& strides_of) {
  std::vector<std::int64_t> strides;
  strides.reserve(strides_of.size());
  for (const JsonValue& stride : strides_of)
    strides.push_back(stride.as_whole<std::int64_t>("layouts"));
  if (tensor.impl()->numel() == 0 || !is_dense(tensor.shape(), strides)) return tensor;
  Tensor made =
      make_empty_strided(tensor.dtype(), tensor.shape(), Strides(strides.begin(), strides.end()));
  exec::copy_into(made, tensor);
  return made;
}

/// Everything that a file says beside its graphs and tensors.
json description(const SavedParts& parts, std::string_view kind, json body,
                 std::vector<std::string> inputs, std::vector<std::string> outputs,
                 RandomKey generator) {
  return {{"format", kProgramFormat},
          {"kind", kind},
          {"body", std::move(body)},
          {"inputs", std::move(inputs)},
          {"outputs", std::move(outputs)},
          {"graphs", parts.graphs.size()},
          {"layouts", layouts_of(parts.texts.variables())},
          {"generator", {{"seed", generator.seed}, {"offset", generator.offset}}}};
}

void write_program(const std::string& path, const json& program, const SavedParts& parts,
                   const Metadata& notes, Loc loc) {
  Metadata metadata = {{kChecksumKey, ""}};
  try {
    metadata[kProgramKey] = program.dump();
  } catch (const json::type_error&) {
    throw ValueError("save: names must be UTF-8", loc);
  }
  for (std::size_t i = 0; i < parts.graphs.size(); ++i) {
    metadata[kGraph + std::to_string(i)] = parts.graphs[i];
  }
  for (const auto& [name, text] : notes) metadata[kNote + name] = text;
  TensorDict tensors;
  const auto add = [&](const char* prefix, const GraphTexts::Named& named) {
    for (const auto& [name, tensor] : named) tensors.add(prefix + name, tensor);
  };
  add(kState, parts.texts.variables());
  add(kConstant, parts.texts.constants());
  add(kGrad, parts.grads);
  save_safetensors(path, tensors, metadata, loc);
}

/// Two handles of the same elements in the same order.
bool same_elements(const Tensor& a, const Tensor& b) {
  return a.impl()->data == b.impl()->data && a.dtype() == b.dtype() && a.strides() == b.strides() &&
         a.shape().same_as(b.shape());
}

/// Gives those of `used` that lie where a tensor of `state` does its name.
void name_state(SavedParts& parts, const std::vector<Tensor>& used, const TensorDict& state) {
  for (const auto& [name, tensor] : state) {
    if (!tensor.defined() || !tensor.is_concrete()) continue;
    for (const Tensor& t : used) {
      if (same_elements(t, tensor)) {
        parts.texts.name_of(t, name);
        break;
      }
    }
  }
}

void save_graph(const std::string& path, const Graph& graph, const ProgramOptions& options,
                RandomKey generator, Loc loc) {
  const GraphImpl& impl = *graph.impl();
  if (impl.outputs().empty()) throw GraphError("save: the graph has no outputs", loc);
  if (!options.inputs.empty()) {
    throw ValueError("save: the inputs of a graph are its placeholders, which have names", loc);
  }
  SavedParts parts;
  std::vector<Tensor> used;
  for (const auto& [name, tensor] : graph.variables()) used.push_back(tensor);
  name_state(parts, used, options.state);
  std::vector<std::string> inputs;
  for (const Value v : impl.placeholders())
    inputs.push_back(v.node->attrs_as<PlaceholderAttrs>().name);
  json body = graph_json(graph, options, parts, loc);
  write_program(
      path,
      description(parts, "graph", std::move(body), std::move(inputs),
                  names_for(options.outputs, impl.outputs().size(), "output", loc), generator),
      parts, options.notes, loc);
}

void save_core(const std::string& path, const exec::CompiledCore& core,
               const ProgramOptions& options, RandomKey generator, Loc loc) {
  if (options.fast_math || options.memory_limit > 0) {
    throw ValueError("save: fast_math and memory_limit of a function are those of its compile()",
                     loc);
  }
  const auto whole_steps = core.between_calls();
  SavedParts parts;
  std::vector<Tensor> used;
  core.visit([&](const exec::Recording& recording) {
    for (const auto& [tensor, tracked] : recording.captures) used.push_back(tensor);
  });
  name_state(parts, used, options.state);
  const auto body = std::make_shared<const json>(json::parse(save_function(core, parts, loc)));
  // Nothing is written that cannot be read.
  LoadedParts again{.graphs = parts.graphs, .variables = {}, .constants = {}};
  for (const auto& [name, tensor] : parts.texts.variables()) again.variables.emplace(name, tensor);
  for (const auto& [name, tensor] : parts.texts.constants()) again.constants.emplace(name, tensor);
  LoadedFunction read;
  try {
    read = load_function(JsonValue::of(body), again);
  } catch (const std::invalid_argument& error) {
    throw GraphError(
        fmt::format("save: '{}' cannot be saved: {}", core.options().name, error.what()), loc);
  }
  write_program(
      path,
      description(parts, "function", *body,
                  names_for(options.inputs, read.inputs.size(), "input", loc),
                  names_for(options.outputs, read.outputs.size(), "output", loc), generator),
      parts, options.notes, loc);
}

}  // namespace

struct Program::State {
  std::vector<Port> inputs, outputs;
  TensorDict state;
  Metadata notes;
  Generator generator;
  std::vector<std::int64_t> numbers;
  std::variant<GraphRunner, std::unique_ptr<exec::CompiledCore>> runner;
  std::string text;
  MutexByThread mutex;  ///< saving waits for the calls under way

  std::vector<Tensor> run(std::span<const Tensor> given, Loc loc) {
    const std::shared_lock lock(mutex);
    const GeneratorScope random(generator);
    const NoGrad no_tape;
    const AutocastSwitch as_saved(std::nullopt);
    if (auto* graph = std::get_if<GraphRunner>(&runner)) {
      std::vector<Feed> feeds;
      feeds.reserve(given.size());
      for (std::size_t i = 0; i < given.size(); ++i) feeds.emplace_back(inputs[i].name, given[i]);
      return graph->session->run(graph->fetches, feeds, loc);
    }
    const LocScope where(loc);
    return std::get<1>(runner)
        ->call(given, numbers, [](std::span<const Tensor>) { return exec::FlatResult{}; })
        .tensors;
  }
};

const std::vector<Program::Port>& Program::inputs() const noexcept { return state_->inputs; }
const std::vector<Program::Port>& Program::outputs() const noexcept { return state_->outputs; }
const TensorDict& Program::state() const noexcept { return state_->state; }
const Metadata& Program::notes() const noexcept { return state_->notes; }
Generator& Program::generator() const noexcept { return state_->generator; }
std::string Program::to_string() const { return state_->text; }

Explanation Program::explain(const exec::StepProfile* profile) const {
  if (const auto* graph = std::get_if<GraphRunner>(&state_->runner))
    return graph->session->explain(profile);
  return std::get<1>(state_->runner)->explain(profile);
}

void Program::cancel() const noexcept {
  if (const auto* graph = std::get_if<GraphRunner>(&state_->runner)) {
    graph->session->cancel();
  } else if (const auto* function =
                 std::get_if<std::unique_ptr<exec::CompiledCore>>(&state_->runner)) {
    (*function)->cancel();
  }
}

namespace {

std::vector<std::string> names_of(const std::vector<Program::Port>& ports) {
  std::vector<std::string> names;
  names.reserve(ports.size());
  for (const Program::Port& port : ports) names.push_back(port.name);
  return names;
}

std::string list_inputs(const std::vector<Program::Port>& ports) {
  std::string list;
  for (const Program::Port& port : ports) {
    list += fmt::format("{}\"{}\": {}", list.empty() ? "" : ", ", port.name,
                        dyad::to_string(port.type));
  }
  return "the inputs are " + (list.empty() ? "none" : list);
}

}  // namespace

std::vector<Tensor> Program::call(std::span<const Tensor> inputs, Loc loc) const {
  loc = loc.user();
  exec::require_eager("a loaded program", loc);
  if (inputs.size() != state_->inputs.size()) {
    throw GraphError(fmt::format("the program is given {} inputs; {}", inputs.size(),
                                 list_inputs(state_->inputs)),
                     loc);
  }
  std::vector<Tensor> given;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Port& port = state_->inputs[i];
    if (!inputs[i].defined() || !inputs[i].is_concrete()) {
      throw GraphError(fmt::format("input \"{}\" of the program is {}; it needs a tensor with data",
                                   port.name, inputs[i].defined() ? "symbolic" : "undefined"),
                       loc);
    }
    if (inputs[i].impl()->is_number) {
      given.push_back(convert_number(inputs[i], port.type.dtype()));
    } else {
      given.push_back(inputs[i].tracks_grad() ? inputs[i].detach(loc) : inputs[i]);
    }
  }
  return state_->run(given, loc);
}

TensorDict Program::run(const std::vector<Feed>& feeds, Loc loc) const {
  loc = loc.user();
  const std::vector<Port>& ports = state_->inputs;
  std::vector<Tensor> given(ports.size());
  for (const Feed& feed : feeds) {
    const auto port = std::ranges::find(ports, feed.name, &Port::name);
    if (port == ports.end()) {
      throw GraphError(fmt::format("a feed names \"{}\", but no input has that name; {}", feed.name,
                                   list_inputs(ports)),
                       loc);
    }
    Tensor& at = given[static_cast<std::size_t>(port - ports.begin())];
    if (at.defined()) throw GraphError(fmt::format("\"{}\" is fed twice", feed.name), loc);
    at = feed.value;
  }
  for (std::size_t i = 0; i < ports.size(); ++i) {
    if (given[i].defined()) continue;
    throw GraphError(fmt::format("\"{}\" is not fed; {}", ports[i].name, list_inputs(ports)), loc);
  }
  const std::vector<Tensor> results = call(given, loc);
  TensorDict named;
  for (std::size_t i = 0; i < results.size(); ++i) named.add(state_->outputs[i].name, results[i]);
  return named;
}

void save(const std::string& path, const Graph& graph, const ProgramOptions& options, Loc loc) {
  save_graph(path, graph, options, default_generator().state(), loc.user());
}

void detail::save_compiled(const std::string& path, const exec::CompiledCore& core,
                           const ProgramOptions& options, Loc loc) {
  save_core(path, core, options, default_generator().state(), loc.user());
}

void save(const std::string& path, const Program& program, const ProgramOptions& options, Loc loc) {
  Program::State& state = program.impl();
  ProgramOptions with = options;
  if (with.outputs.empty()) with.outputs = names_of(state.outputs);
  if (with.notes.empty()) with.notes = state.notes;
  if (with.state.empty()) with.state = state.state;
  const std::unique_lock lock(state.mutex);
  if (const auto* graph = std::get_if<GraphRunner>(&state.runner)) {
    with.fast_math = with.fast_math || graph->options.fast_math;
    if (with.memory_limit == 0) with.memory_limit = graph->options.memory_limit;
    save_graph(path, graph->graph, with, state.generator.state(), loc.user());
    return;
  }
  if (with.inputs.empty()) with.inputs = names_of(state.inputs);
  save_core(path, *std::get<1>(state.runner), with, state.generator.state(), loc.user());
}

namespace {

/// The parts of a file, its tensors in the layouts that they had.
LoadedParts parts_of(const Safetensors& file, const JsonValue& program) {
  LoadedParts parts;
  const auto graphs = program.whole<std::size_t>("graphs");
  for (std::size_t i = 0; i < graphs; ++i) {
    const auto text = file.metadata.find(kGraph + std::to_string(i));
    if (text == file.metadata.end()) {
      throw std::invalid_argument(fmt::format("expected {} graphs, found {}", graphs, i));
    }
    parts.graphs.push_back(text->second);
  }
  const JsonValue layouts = program.at("layouts");
  for (const auto& [name, tensor] : file.tensors.below(kState)) {
    parts.variables.emplace(
        name, layouts.has(name.c_str()) ? laid_out(tensor, layouts.list(name.c_str())) : tensor);
  }
  for (const auto& [name, tensor] : file.tensors.below(kConstant))
    parts.constants.emplace(name, tensor);
  for (const auto& [name, grad] : file.tensors.below(kGrad)) {
    const auto leaf = parts.variables.find(name);
    if (leaf == parts.variables.end()) {
      throw std::invalid_argument(fmt::format("expected a tensor 'state.{}', found none", name));
    }
    leaf->second.set_grad(grad);
  }
  return parts;
}

std::vector<Program::Port> ports(const JsonValue& program, const char* key,
                                 const std::vector<Type>& types) {
  std::vector<Program::Port> made;
  const std::vector<JsonValue> names = program.list(key);
  for (std::size_t i = 0; i < std::min(names.size(), types.size()); ++i)
    made.push_back({names[i].as_text(key), types[i]});
  if (names.size() != types.size()) {
    program.at(key).fail(fmt::format("{} names for '{}'", types.size(), key));
  }
  return made;
}

std::shared_ptr<Program::State> read_program(const Safetensors& file, const JsonValue& program,
                                             int threads) {
  if (program.whole<std::int64_t>("format") != kProgramFormat) {
    program.at("format").fail(fmt::format("format {}", kProgramFormat));
  }
  const LoadedParts parts = parts_of(file, program);
  auto state = std::make_shared<Program::State>();
  std::vector<Type> inputs, outputs;
  const std::string& kind = program.text("kind");
  if (kind == "graph") {
    GraphRunner runner = read_graph(program.at("body"), parts, threads);
    for (const Value v : runner.graph.impl()->placeholders()) inputs.push_back(v.type());
    for (const Value v : runner.graph.impl()->outputs()) outputs.push_back(v.type());
    state->runner = std::move(runner);
  } else if (kind == "function") {
    LoadedFunction function = load_function(program.at("body"), parts, threads);
    state->numbers = std::move(function.numbers);
    inputs = std::move(function.inputs);
    outputs = std::move(function.outputs);
    state->runner = std::move(function.core);
  } else {
    program.at("kind").fail("a graph or a function");
  }
  state->inputs = ports(program, "inputs", inputs);
  state->outputs = ports(program, "outputs", outputs);
  // In the order of the file.
  for (const auto& [name, tensor] : file.tensors.below(kState))
    state->state.add(name, parts.variables.at(name));
  for (const auto& [key, text] : file.metadata) {
    if (key.starts_with(kNote)) state->notes.emplace(key.substr(std::strlen(kNote)), text);
  }
  const JsonValue generator = program.at("generator");
  state->generator.set_state(
      {generator.whole<std::int64_t>("seed"), generator.whole<std::int64_t>("offset")});
  for (const std::string& graph : parts.graphs) state->text += graph;
  return state;
}

}  // namespace

Program load(const std::string& path, const ProgramLoadOptions& options, Loc loc) {
  loc = loc.user();
  if (options.threads < 0) {
    throw ValueError(fmt::format("load: threads = {}, but must be 0 or more: 0 takes as many as "
                                 "set_num_threads() says",
                                 options.threads),
                     loc);
  }
  const Safetensors file =
      read_safetensors(path, {.map = options.map, .check = options.check}, loc);
  const auto described = file.metadata.find(kProgramKey);
  if (described == file.metadata.end()) {
    throw IoError(fmt::format("'{}': expected a program with '{}' in its metadata, found a "
                              "safetensors file without",
                              path, kProgramKey),
                  loc);
  }
  const auto fail = [&](std::string_view reason) {
    throw IoError(fmt::format("'{}': the program cannot be read: {}", path, reason), loc);
  };
  if (options.check && !file.metadata.contains(kChecksumKey)) {
    fail(fmt::format("expected a checksum as '{}', found none", kChecksumKey));
  }
  try {
    return Program(read_program(file, JsonValue::parse(described->second), options.threads));
  } catch (const InternalError&) {
    throw;
  } catch (const MemoryError&) {
    throw;
  } catch (const Error& error) {
    fail(error.message());
  } catch (const std::invalid_argument& error) {
    fail(error.what());
  }
  return Program(nullptr);
}

}  // namespace dyad::io
