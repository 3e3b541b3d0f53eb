#include "dyad/passes/join_parts.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dyad/core/tensor_impl.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/ops/attrs/indexing.h"
#include "dyad/ops/registry.h"
#include "dyad/passes/dce.h"
#include "dyad/passes/rewriter.h"

namespace dyad::passes {
namespace {

/// The node that made a value, before views of it.
const Node* maker_of(Value v) {
  while (v.node->op().kind == BodyKind::view) v = v.node->inputs()[0];
  return v.node;
}

/// A part of a larger tensor along an axis.
struct Segment {
  Value value;
  std::int64_t begin, end;
};
/// Segments along one axis.
struct Segments {
  std::size_t axis = 0;
  std::vector<Segment> parts;
};

/// What a padding by zeros puts where, when it is along one axis and its sizes are known.
std::optional<Segments> part_of(const Node& node) {
  if (!node.is("pad")) return {};
  const auto& attrs = node.attrs_as<ops::PadAttrs>();
  if (attrs.value != 0) return {};
  std::optional<Segments> found;
  const Value padded = node.inputs()[0];
  for (std::size_t i = 0; i < attrs.low.size(); ++i) {
    const Dim low = attrs.low[i], high = attrs.high[i], size = padded.type().shape()[i];
    if (!low.is_number() || !high.is_number()) return {};
    if (low.number() == 0 && high.number() == 0) continue;
    if (found || low.number() < 0 || high.number() < 0 || !size.is_number()) return {};
    found = Segments{i, {{padded, low.number(), low.number() + size.number()}}};
  }
  return found;
}

class PartJoiner {
 public:
  explicit PartJoiner(const GraphImpl& graph)
      : graph_(graph), rewriter_(graph), uses_(count_uses(graph)) {}

  Ref<GraphImpl> run() {
    bool joined = false;
    for (const auto& node : graph_.nodes()) {
      rewriter_.copy(*node);
      if (node->types().size() != 1 || !is_floating(node->types()[0].dtype())) continue;
      std::optional<Segments> parts = part_of(*node);
      if (!parts) parts = sum_of(*node);
      if (!parts) continue;
      if (fills(*parts, *node)) {
        rewriter_.set(node->output(), join(*parts, *node));
        joined = true;
      } else {
        parts_of_.emplace(node->output(), std::move(*parts));
      }
    }
    Ref<GraphImpl> made = rewriter_.finish();
    if (joined) dce(*made);
    return made;
  }

 private:
  /// The parts of both operands of an addition that nothing else uses.
  [[nodiscard]] std::optional<Segments> sum_of(const Node& node) const {
    if (!node.is("add")) return {};
    std::optional<Segments> sum;
    for (const Value v : node.inputs()) {
      const auto found = parts_of_.find(v);
      if (found == parts_of_.end() || uses_[v] != 1 || !v.type().same_as(node.types()[0]) ||
          (sum && sum->axis != found->second.axis)) {
        return {};
      }
      if (!sum) {
        sum = found->second;
      } else {
        sum->parts.insert(sum->parts.end(), found->second.parts.begin(), found->second.parts.end());
      }
    }
    return sum;
  }

  /// Sorts the parts; true when they follow one another from the begin of the axis to its end. They
  /// must come from one node, so that all lie alike in memory and the result does as the sum would.
  static bool fills(Segments& parts, const Node& node) {
    const Dim size = node.types()[0].shape()[parts.axis];
    if (parts.parts.size() < 2 || !size.is_number()) return false;
    std::ranges::sort(parts.parts, {}, &Segment::begin);
    std::int64_t at = 0;
    for (const Segment& part : parts.parts) {
      if (part.begin != at || maker_of(part.value) != maker_of(parts.parts[0].value)) return false;
      at = part.end;
    }
    return at == size.number();
  }

  Value join(const Segments& parts, const Node& node) {
    std::vector<Value> values;
    for (const Segment& part : parts.parts) values.push_back(rewriter_.at(part.value));
    GraphImpl& graph = *rewriter_.to();
    const ops::AxisAttrs along{.axis = static_cast<std::int64_t>(parts.axis)};
    const OpInfo& concat = ops::builtin_op("concat");
    const Value whole =
        graph.append_checked(concat, Attrs::copy_of(*concat.attrs, &along), values, node.loc())
            ->output();
    const DType dtype = node.types()[0].dtype();
    Tensor nothing = make_empty(dtype, {});
    std::memset(nothing.impl()->data, 0, size_of(dtype));
    const Value zero = graph.add_constant(std::move(nothing), node.loc());
    return graph.append_checked(node.op(), node.shared_attrs(), {whole, zero}, node.loc())
        ->output();
  }

  const GraphImpl& graph_;
  Rewriter rewriter_;
  ValueTable<int> uses_;
  std::unordered_map<Value, Segments, ValueHash> parts_of_;
};

}  // namespace

Ref<GraphImpl> join_parts(const GraphImpl& graph) { return PartJoiner(graph).run(); }

}  // namespace dyad::passes
