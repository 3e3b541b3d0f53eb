#include "dyad/ir/substitute.h"

#include <unordered_map>
#include <utility>
#include <vector>

#include "dyad/ir/partial_attr_visitor.h"

namespace dyad {
namespace {

/// A visitor that only sizes interest.
class DimVisitor : public PartialAttrVisitor {
 public:
  using PartialAttrVisitor::visit;
  void visit(std::string_view name, Shape& shape) override {
    for (Dim& dim : shape) visit(name, dim);
  }
};

class SymbolFinder final : public DimVisitor {
 public:
  using DimVisitor::visit;
  void visit(std::string_view, Dim& dim) override { found = found || dim.is_symbolic(); }
  bool found = false;
};

class SymbolBinder final : public DimVisitor {
 public:
  explicit SymbolBinder(const std::function<Dim(Dim)>& bound) : bound_(bound) {}
  using DimVisitor::visit;
  void visit(std::string_view, Dim& dim) override {
    if (dim.is_symbolic()) dim = bound_(dim);
  }

 private:
  const std::function<Dim(Dim)>& bound_;
};

/// The attributes with each size that has symbols replaced; null when there is none.
Ref<Attrs> with_sizes(const AttrsInfo& info, const void* attrs,
                      const std::function<Dim(Dim)>& bound) {
  if (!has_symbols(info, attrs)) return {};
  return Attrs::edited(info, attrs, [&](void* copy) {
    SymbolBinder binder(bound);
    info.visit(copy, binder);
  });
}

}  // namespace

bool has_symbols(const AttrsInfo& info, const void* attrs) {
  SymbolFinder finder;
  info.visit(const_cast<void*>(attrs), finder);  // a reading visitor
  return finder.found;
}

Ref<Attrs> substitute_symbols(const AttrsInfo& info, const void* attrs, const SymbolMap& symbols) {
  return with_sizes(info, attrs, [&](Dim dim) { return Dim(evaluate(dim, symbols)); });
}

Ref<Attrs> substitute_symbols(const AttrsInfo& info, const void* attrs,
                              const std::function<Dim(Dim)>& replace) {
  return with_sizes(info, attrs, [&](Dim dim) { return substitute(dim, replace); });
}

Type with_sizes(const Type& type, const std::function<Dim(Dim)>& replace) {
  switch (type.kind()) {
    case Type::Kind::tensor:
      break;
    case Type::Kind::sequence:
      return Type::sequence_of(with_sizes(type.element(), replace));
    case Type::Kind::optional:
      return Type::optional_of(with_sizes(type.element(), replace));
    case Type::Kind::none:
      return type;
  }
  Shape shape = type.shape();
  for (Dim& dim : shape) {
    if (dim.is_symbolic()) dim = substitute(dim, replace);
  }
  return {type.dtype(), shape};
}

Ref<GraphImpl> with_sizes(const GraphImpl& graph, const std::function<Dim(Dim)>& replace) {
  auto copy = make_ref<GraphImpl>();
  std::unordered_map<const Node*, Node*> nodes;
  const auto mapped = [&](Value v) { return v ? nodes.at(v.node)->output(v.index) : Value(); };
  for (const auto& node : graph.nodes()) {
    std::vector<Value> inputs;
    for (const Value v : node->inputs()) inputs.push_back(mapped(v));
    Types types;
    for (const Type& type : node->types()) types.push_back(with_sizes(type, replace));
    const Ref<Attrs> attrs =
        substitute_symbols(node->attrs().info(), node->attrs().data(), replace);
    Node* const made = copy->append(node->op(), attrs ? attrs : node->shared_attrs(), inputs,
                                    std::move(types), node->loc());
    for (const Ref<GraphImpl>& region : node->regions())
      made->add_region(with_sizes(*region, replace));
    nodes.emplace(node.get(), made);
  }
  for (const Value v : graph.outputs()) copy->outputs().push_back(mapped(v));
  return copy;
}

Ref<Attrs> attrs_with(const Node& node, const SymbolMap& symbols) {
  Ref<Attrs> numbers = substitute_symbols(node.attrs().info(), node.attrs().data(), symbols);
  return numbers ? numbers : node.shared_attrs();
}

}  // namespace dyad
