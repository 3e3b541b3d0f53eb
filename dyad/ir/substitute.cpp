#include "dyad/ir/substitute.h"

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

Ref<Attrs> attrs_with(const Node& node, const SymbolMap& symbols) {
  Ref<Attrs> numbers = substitute_symbols(node.attrs().info(), node.attrs().data(), symbols);
  return numbers ? numbers : node.shared_attrs();
}

}  // namespace dyad
