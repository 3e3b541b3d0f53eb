#include "dyad/passes/size_sources.h"

#include <string_view>

#include "dyad/core/dim.h"
#include "dyad/ir/partial_attr_visitor.h"

namespace dyad::passes {
namespace {

class AttrSymbols final : public PartialAttrVisitor {
 public:
  using PartialAttrVisitor::visit;
  explicit AttrSymbols(std::vector<Dim>& into) : into_(into) {}
  void visit(std::string_view, Dim& value) override { collect_symbols(value, into_); }
  void visit(std::string_view, Shape& value) override {
    for (const Dim d : value) collect_symbols(d, into_);
  }

 private:
  std::vector<Dim>& into_;
};

}  // namespace

void collect_attr_symbols(const Node& node, std::vector<Dim>& into) {
  AttrSymbols reader(into);
  node.attrs().visit(reader);
}

void collect_result_symbols(const Node& node, std::vector<Dim>& into) {
  for (const Type& type : node.types()) {
    if (!type.is_tensor()) continue;
    for (const Dim d : type.shape()) collect_symbols(d, into);
  }
}

void collect_all_symbols(const Node& node, std::vector<Dim>& into) {
  collect_attr_symbols(node, into);
  collect_result_symbols(node, into);
  for (const Ref<GraphImpl>& region : node.regions()) {
    for (const auto& inner : region->nodes()) collect_all_symbols(*inner, into);
  }
}

SizeSources::SizeSources(const GraphImpl& graph) : graph_(&graph) { update(); }

void SizeSources::update() {
  std::vector<Dim> symbols;
  for (; nodes_ < graph_->nodes().size(); ++nodes_) {
    const Node* const node = graph_->nodes()[nodes_].get();
    symbols.clear();
    collect_result_symbols(*node, symbols);
    for (const Dim symbol : symbols) source_of_.try_emplace(symbol.word(), node);
  }
}

std::vector<const Node*> SizeSources::of(const Node& node) const {
  if (source_of_.empty()) return {};
  std::vector<Dim> symbols;
  collect_all_symbols(node, symbols);
  std::vector<const Node*> sources;
  for (const Dim symbol : symbols) {
    const auto found = source_of_.find(symbol.word());
    if (found == source_of_.end() || found->second->id() >= node.id()) continue;
    sources.push_back(found->second);
  }
  return sources;
}

}  // namespace dyad::passes
