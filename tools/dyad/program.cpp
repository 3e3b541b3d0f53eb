#include "tools/dyad/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "dyad/base/error.h"
#include "dyad/core/storage.h"
#include "dyad/io/program.h"
#include "dyad/onnx/value_file.h"
#include "dyad/ops/ops.h"
#include "tools/dyad/text.h"

namespace dyad::tool {
namespace {

/// A tensor of the type, its open sizes as in `sizes`.
Tensor draw(const Type& type, const SymbolMap& sizes) {
  Shape shape;
  for (const Dim size : type.shape()) shape.push_back(evaluate(size, sizes));
  return is_floating(type.dtype()) ? normal(shape).to(type.dtype()) : zeros(shape, type.dtype());
}

SymbolMap sizes_of(const io::Program& program, const std::map<std::string, std::int64_t>& given) {
  constexpr std::int64_t kUntold = 2;  // no recording of a function has sizes of 1 for open ones
  SymbolMap sizes;
  std::vector<Dim> symbols;
  for (const io::Program::Port& input : program.inputs()) {
    for (const Dim size : input.type.shape()) collect_symbols(size, symbols);
  }
  for (const auto& [name, number] : given) {
    const Dim symbol = Dim::symbol(name);
    const auto is_it = [&](Dim known) { return known.same_as(symbol); };
    if (std::ranges::none_of(symbols, is_it)) {
      throw GraphError("no input has a size with the name " + name);
    }
    sizes.bind(symbol, number);
  }
  for (const Dim symbol : symbols) {
    if (sizes.find(symbol) == nullptr) sizes.bind(symbol, kUntold);
  }
  return sizes;
}

struct Inputs {
  std::vector<Feed> feeds;
  std::vector<std::pair<std::string, std::int64_t>> sizes;  ///< of what was drawn
};

Inputs make_inputs(const io::Program& program, const onnx::InputOptions& options) {
  Inputs inputs;
  for (const auto& [name, file] : options.files) {
    inputs.feeds.emplace_back(name, onnx::load_value(file, Type::Kind::tensor, Loc()).tensor());
  }
  const SymbolMap sizes = sizes_of(program, options.sizes);
  if (!options.seed) return inputs;
  manual_seed(*options.seed);
  std::vector<Dim> symbols;
  for (const io::Program::Port& input : program.inputs()) {
    const auto is_it = [&](const Feed& feed) { return feed.name == input.name; };
    if (std::ranges::any_of(inputs.feeds, is_it)) continue;
    inputs.feeds.emplace_back(input.name, draw(input.type, sizes));
    for (const Dim size : input.type.shape()) collect_symbols(size, symbols);
  }
  for (const Dim symbol : symbols) {
    inputs.sizes.emplace_back(to_string(symbol), *sizes.find(symbol));
  }
  return inputs;
}

nlohmann::json json_of(const std::vector<io::Program::Port>& ports) {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& port : ports) {
    list.push_back({{"name", port.name}, {"type", to_string(port.type)}});
  }
  return list;
}

}  // namespace

bool is_program(const std::string& path) { return path.ends_with(".dyad"); }

void inspect_program(const std::string& path, ProgramView view) {
  const io::Program program = io::load(path, {.map = true}, Loc());
  if (view == ProgramView::text) {
    fmt::print("{}", program.to_string());
    return;
  }
  if (view == ProgramView::json) {
    nlohmann::json tensors = nlohmann::json::array(), notes = nlohmann::json::object();
    for (const auto& [name, tensor] : program.state()) {
      tensors.push_back({{"name", name}, {"type", type_string(tensor)}});
    }
    for (const auto& [name, note] : program.notes()) notes[name] = note;
    const nlohmann::json all = {{"inputs", json_of(program.inputs())},
                                {"outputs", json_of(program.outputs())},
                                {"tensors", std::move(tensors)},
                                {"notes", std::move(notes)}};
    fmt::print("{}\n", all.dump(1, ' ', false, nlohmann::json::error_handler_t::replace));
    return;
  }
  std::vector<std::vector<std::string>> rows;
  for (const io::Program::Port& port : program.inputs())
    rows.push_back({"input", port.name, to_string(port.type)});
  for (const io::Program::Port& port : program.outputs())
    rows.push_back({"output", port.name, to_string(port.type)});
  for (const auto& [name, tensor] : program.state())
    rows.push_back({"tensor", name, type_string(tensor)});
  for (const auto& [name, note] : program.notes()) rows.push_back({"note", name, note});
  fmt::print("{}", columns(rows, "lll", ""));
}

std::vector<onnx::NamedValue> run_program(const std::string& path,
                                          const onnx::InputOptions& options) {
  const io::Program program = io::load(path, {.map = true}, Loc());
  std::vector<onnx::NamedValue> results;
  for (const auto& [name, tensor] : program.run(make_inputs(program, options).feeds, Loc())) {
    results.push_back({name, tensor});
  }
  return results;
}

onnx::Benchmark bench_program(const std::string& path, const onnx::BenchmarkOptions& options) {
  using Clock = std::chrono::steady_clock;
  reset_peak_memory();
  const auto start = Clock::now();
  const io::Program program = io::load(path, {.map = true}, Loc());
  const std::chrono::duration<double, std::milli> load = Clock::now() - start;
  const Inputs inputs = make_inputs(program, options.inputs);
  return onnx::benchmark({.load_ms = load.count(),
                          .sizes = inputs.sizes,
                          .run = [&] { static_cast<void>(program.run(inputs.feeds, Loc())); }},
                         options);
}

}  // namespace dyad::tool
