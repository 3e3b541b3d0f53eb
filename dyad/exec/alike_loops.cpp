#include "dyad/exec/alike_loops.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "dyad/exec/control_flow_ops.h"
#include "dyad/exec/control_node.h"

namespace dyad::exec {
namespace {

GraphImpl& body(Node& scan) { return *scan.regions()[0]; }

/// What a scan gives beside its states: an output of the node at a place of its body, which may be
/// given several times.
struct Given {
  int place = 0, index = 0, time = 0;
  [[nodiscard]] bool operator==(const Given&) const noexcept = default;
};

std::vector<Given> given_by(Node& scan) {
  std::vector<Given> all;
  const auto states = static_cast<std::size_t>(scan.attrs_as<LoopAttrs>().states);
  for (const Value value : std::span(body(scan).outputs()).subspan(states)) {
    Given given{value.node->id(), value.index};
    while (std::ranges::find(all, given) != all.end()) ++given.time;
    all.push_back(given);
  }
  return all;
}

/// Whether each gives as much as the other; of scans that is what they are to do.
bool are_of_same_op(const std::unique_ptr<Node>& a, const std::unique_ptr<Node>& b) {
  return &a->op() == &b->op() && (a->types().size() == b->types().size() || &a->op() == &kScanOp);
}

bool are_of_same_steps(std::span<Node* const> scans) {
  const auto& attrs = scans[0]->attrs_as<LoopAttrs>();
  return attrs.slices > 0 && std::ranges::all_of(scans, [&](Node* scan) {
           const auto& own = scan->attrs_as<LoopAttrs>();
           return own.states == attrs.states && own.slices == attrs.slices &&
                  std::ranges::equal(body(*scan).nodes(), body(*scans[0]).nodes(), are_of_same_op);
         });
}

void replace(GraphImpl& graph, const ValueMap& moved) {
  for (const auto& node : graph.nodes()) {
    for (std::size_t i = 0; i < node->inputs().size(); ++i)
      node->set_input(i, now_of(moved, node->inputs()[i]));
  }
  for (Value& output : graph.outputs()) output = now_of(moved, output);
}

/// The same for the scans in the bodies; false where some still differ in what they give.
bool give_alike_inside(std::span<Node* const> scans) {
  for (std::size_t at = 0; at < body(*scans[0]).nodes().size(); ++at) {
    std::vector<Node*> inside;
    for (Node* const scan : scans) inside.push_back(body(*scan).nodes()[at].get());
    if (&inside[0]->op() != &kScanOp) continue;
    const ValueMap moved = give_alike(inside);
    if (!moved.empty()) {
      for (Node* const scan : scans) replace(body(*scan), moved);
    }
    const auto gives_as_much = [&](const Node* node) {
      return node->types().size() == inside[0]->types().size();
    };
    if (!std::ranges::all_of(inside, gives_as_much)) return false;
  }
  return true;
}

}  // namespace

ValueMap give_alike(std::span<Node* const> scans) {
  ValueMap moved;
  if (!are_of_same_steps(scans) || !give_alike_inside(scans)) return moved;
  std::vector<Given> all;
  for (Node* const scan : scans) {
    for (const Given& given : given_by(*scan)) {
      if (std::ranges::find(all, given) == all.end()) all.push_back(given);
    }
  }
  for (Node* const scan : scans) {
    const std::vector<Given> own = given_by(*scan);
    if (own == all) continue;
    const auto states = static_cast<std::size_t>(scan->attrs_as<LoopAttrs>().states);
    const Dim length = scan->inputs()[states].type().shape()[0];
    std::vector<Value>& outputs = body(*scan).outputs();
    outputs.resize(states);
    Types types(scan->types().begin(), scan->types().begin() + static_cast<int>(states));
    for (const Given& given : all) {
      const Value value =
          body(*scan).nodes()[static_cast<std::size_t>(given.place)]->output(given.index);
      outputs.push_back(value);
      types.push_back(stacked(value.type(), length));
    }
    scan->set_types(std::move(types));
    for (std::size_t i = 0; i < own.size(); ++i) {
      const auto now = std::ranges::find(all, own[i]) - all.begin();
      if (static_cast<std::size_t>(now) == i) continue;
      const auto first = static_cast<int>(states);
      moved.emplace(scan->output(first + static_cast<int>(i)),
                    scan->output(first + static_cast<int>(now)));
    }
  }
  return moved;
}

}  // namespace dyad::exec
