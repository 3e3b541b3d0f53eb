#include "dyad/ir/substitute.h"

namespace dyad {
namespace {

/// A visitor that only sizes interest.
class DimVisitor : public AttrVisitor {
 public:
  void visit(std::string_view, bool&) override {}
  void visit(std::string_view, std::int64_t&) override {}
  void visit(std::string_view, double&) override {}
  void visit(std::string_view, std::string&) override {}
  void visit(std::string_view, DType&) override {}
  void visit(std::string_view, Ints&) override {}
  void visit(std::string_view, Tensor&) override {}
  void visit(std::string_view name, Shape& shape) override {
    for (Dim& dim : shape) visit(name, dim);
  }
  using AttrVisitor::visit;
};

class SymbolFinder final : public DimVisitor {
 public:
  using DimVisitor::visit;
  void visit(std::string_view, Dim& dim) override { found = found || dim.is_symbolic(); }
  bool found = false;
};

class SymbolBinder final : public DimVisitor {
 public:
  explicit SymbolBinder(const SymbolMap& symbols) : symbols_(symbols) {}
  using DimVisitor::visit;
  void visit(std::string_view, Dim& dim) override {
    if (dim.is_symbolic()) dim = Dim(evaluate(dim, symbols_));
  }

 private:
  const SymbolMap& symbols_;
};

}  // namespace

bool has_symbols(const AttrsInfo& info, const void* attrs) {
  SymbolFinder finder;
  info.visit(const_cast<void*>(attrs), finder);  // a reading visitor
  return finder.found;
}

Ref<Attrs> substitute_symbols(const AttrsInfo& info, const void* attrs, const SymbolMap& symbols) {
  if (!has_symbols(info, attrs)) return {};
  return Attrs::edited(info, attrs, [&](void* copy) {
    SymbolBinder binder(symbols);
    info.visit(copy, binder);
  });
}

}  // namespace dyad
