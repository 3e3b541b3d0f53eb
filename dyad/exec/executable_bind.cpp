#include "dyad/exec/executable_bind.h"

#include <fmt/format.h>

#include <unordered_map>

#include "dyad/base/error.h"
#include "dyad/exec/executable_errors.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/ir/substitute.h"

namespace dyad::exec {
namespace {

/// Binds symbols placeholder by placeholder, remembering where each got its value.
class Binder {
 public:
  Binder(const GraphImpl& graph, std::span<const Tensor> values, const SymbolMap& outer, Loc where)
      : graph_(graph), values_(values), symbols_(outer), where_(where) {}

  SymbolMap bind() {
    if (values_.size() != graph_.placeholders().size()) {
      throw ValueError(fmt::format("the graph has {} placeholders, but {} values were given",
                                   graph_.placeholders().size(), values_.size()),
                       where_);
    }
    for_each_axis([this](std::size_t i, std::size_t axis) { solve(i, axis); });
    for_each_axis([this](std::size_t i, std::size_t axis) { check(i, axis); });
    return std::move(symbols_);
  }

 private:
  struct Origin {
    Dim symbol;
    std::size_t placeholder, axis;
  };

  [[nodiscard]] const Type& type(std::size_t i) const { return graph_.placeholders()[i].type(); }
  [[nodiscard]] const std::string& name(std::size_t i) const {
    return graph_.placeholders()[i].node->attrs_as<PlaceholderAttrs>().name;
  }

  template <class F>
  void for_each_axis(F&& f) {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      check_kind(i);
      for (std::size_t axis = 0; axis < type(i).shape().size(); ++axis) f(i, axis);
    }
  }

  template <class E>
  [[noreturn]] void fail(std::size_t i, const std::string& rule) const {
    throw E(fmt::format("placeholder \"{}\": {} was given {}: {}", name(i), to_string(type(i)),
                        type_string(values_[i]), rule),
            where_, graph_.placeholders()[i].node->loc());
  }

  void check_kind(std::size_t i) const {
    const Tensor& value = values_[i];
    if (!value.defined() || !value.is_concrete()) {
      throw GraphError(fmt::format("placeholder \"{}\": {} was given no tensor with data", name(i),
                                   to_string(type(i))),
                       where_, graph_.placeholders()[i].node->loc());
    }
    if (value.dtype() != type(i).dtype()) {
      fail<DTypeError>(i, fmt::format("the dtype must be {0} but is {1}; convert it with .to({0})",
                                      name_of(type(i).dtype()), name_of(value.dtype())));
    }
    if (value.rank() != type(i).rank()) {
      fail<ShapeError>(
          i, fmt::format("it must have {} axes but has {}", type(i).rank(), value.rank()));
    }
  }

  void solve(std::size_t i, std::size_t axis) {
    const Dim declared = type(i).shape()[axis];
    const std::int64_t given = values_[i].shape().numbers()[axis];
    std::int64_t coefficient = 0, constant = 0;
    Dim symbol;
    if (declared.is_number() || !as_linear(declared, coefficient, symbol, constant) ||
        symbols_.find(symbol)) {
      return;
    }
    if (coefficient == 0 || (given - constant) % coefficient != 0 ||
        (given - constant) / coefficient < 0) {
      fail<ShapeError>(
          i, fmt::format("axis {} is {}, which {} cannot be", axis, given, to_string(declared)));
    }
    symbols_.bind(symbol, (given - constant) / coefficient);
    origins_.push_back({symbol, i, axis});
  }

  void check(std::size_t i, std::size_t axis) const {
    const Dim declared = type(i).shape()[axis];
    const std::int64_t given = values_[i].shape().numbers()[axis];
    if (declared.is_number()) {
      if (declared.number() == given) return;
      fail<ShapeError>(i,
                       fmt::format("axis {} must be {} but is {}", axis, declared.number(), given));
    }
    const std::int64_t expected = evaluate_declared(i, declared);
    if (expected == given) return;
    fail<ShapeError>(i, fmt::format("axis {} is {}, but {} is {} by {}", axis, given,
                                    to_string(declared), expected, origin_of(declared)));
  }

  [[nodiscard]] std::int64_t evaluate_declared(std::size_t i, Dim declared) const {
    try {
      return dyad::evaluate(declared, symbols_);
    } catch (const Error& error) {
      rethrow_at(error, where_, graph_.placeholders()[i].node->loc());
    }
  }

  [[nodiscard]] std::string origin_of(Dim declared) const {
    std::vector<Dim> symbols;
    collect_symbols(declared, symbols);
    std::string text;
    for (const Dim symbol : symbols) {
      for (const Origin& origin : origins_) {
        if (!origin.symbol.same_as(symbol)) continue;
        text += fmt::format("{}axis {} of \"{}\"", text.empty() ? "" : " and ", origin.axis,
                            name(origin.placeholder));
      }
    }
    return text.empty() ? "the graph around it" : text;
  }

  const GraphImpl& graph_;
  std::span<const Tensor> values_;
  SymbolMap symbols_;
  Loc where_;
  std::vector<Origin> origins_;
};

}  // namespace

SymbolMap bind_symbols(const GraphImpl& graph, std::span<const Tensor> placeholders,
                       const SymbolMap& outer, Loc where) {
  return Binder(graph, placeholders, outer, where).bind();
}

void bind_told(const Shape& declared, const Tensor& value, SymbolMap& symbols) {
  for (std::size_t axis = 0; axis < declared.size(); ++axis) {
    std::int64_t coefficient = 0, constant = 0;
    Dim symbol;
    if (as_linear(declared[axis], coefficient, symbol, constant) &&
        declared[axis].same_as(symbol) && !symbols.find(symbol))
      symbols.bind(symbol, value.shape().numbers()[axis]);
  }
}

Shape evaluate(const Shape& shape, const SymbolMap& symbols) {
  Shape numbers;
  for (const Dim d : shape) numbers.push_back(Dim(dyad::evaluate(d, symbols)));
  return numbers;
}

namespace {

/// A graph may say more of sizes than its operators do (verify's is_instance_of): is it so now?
void check_written(const Node& node, const Types& results, const SymbolMap& symbols) {
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Type& written = node.types()[i];
    if (!written.is_tensor() || !results[i].is_tensor()) continue;
    const Shape shape = evaluate(written.shape(), symbols);
    if (shape.same_as(results[i].shape())) continue;
    throw GraphError(fmt::format("{} gives {} at these sizes, but the graph says {}",
                                 node.op().name, to_string(results[i].shape()), to_string(shape)));
  }
}

}  // namespace

void check_types(const GraphImpl& graph, const SymbolMap& symbols, Loc where) {
  std::unordered_map<Value, Type, ValueHash> types;
  for (const auto& node : graph.nodes()) {
    try {
      Types results;
      if (node->op().kind == BodyKind::structural || node->op().kind == BodyKind::control) {
        for (const Type& type : node->types()) {
          results.emplace_back(type.dtype(), evaluate(type.shape(), symbols));
        }
      } else {
        Types inputs;
        for (const Value v : node->inputs()) inputs.push_back(v ? types.at(v) : Type::none());
        results = infer_types(node->op(), inputs, attrs_with(*node, symbols)->data(), node->loc());
        check_written(*node, results, symbols);
      }
      for (int i = 0; i < static_cast<int>(results.size()); ++i) {
        types[node->output(i)] = std::move(results[static_cast<std::size_t>(i)]);
      }
    } catch (const Error& error) {
      rethrow_at(error, where, node->loc());
    }
  }
}

}  // namespace dyad::exec
