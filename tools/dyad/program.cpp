#include "tools/dyad/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "dyad/base/error.h"
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

}  // namespace

bool is_program(const std::string& path) { return path.ends_with(".dyad"); }

void inspect_program(const std::string& path, bool text) {
  const io::Program program = io::load(path);
  if (text) {
    fmt::print("{}", program.to_string());
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

std::vector<std::pair<std::string, onnx::ModelValue>> run_program(
    const std::string& path, const onnx::InputOptions& options) {
  const io::Program program = io::load(path);
  std::vector<Feed> feeds;
  feeds.reserve(program.inputs().size());
  for (const auto& [name, file] : options.files)
    feeds.emplace_back(name, onnx::load_value(file, Type::Kind::tensor, Loc()).tensor());
  if (options.seed) {
    const SymbolMap sizes = sizes_of(program, options.sizes);
    manual_seed(*options.seed);
    for (const io::Program::Port& input : program.inputs()) {
      const bool given =
          std::ranges::any_of(feeds, [&](const Feed& feed) { return feed.name == input.name; });
      if (!given) feeds.emplace_back(input.name, draw(input.type, sizes));
    }
  }
  std::vector<std::pair<std::string, onnx::ModelValue>> results;
  for (const auto& [name, tensor] : program.run(feeds)) results.emplace_back(name, tensor);
  return results;
}

}  // namespace dyad::tool
