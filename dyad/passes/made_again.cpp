#include "dyad/passes/made_again.h"

#include <algorithm>
#include <array>
#include <utility>

#include "dyad/ir/graph_ops.h"
#include "dyad/passes/fuse.h"
#include "dyad/passes/fused_op.h"
#include "dyad/passes/node_table.h"
#include "dyad/passes/region_writer.h"
#include "dyad/passes/rewriter.h"

namespace dyad::passes {
namespace {

/// Copies the graph; nodes from the peak on get the chosen values from kernels of their own or of
/// others that read the same, and views of others where those must copy.
class Writer {
 public:
  Writer(const GraphImpl& graph, const Lifetimes& lifetimes, const Parts& chosen,
         const std::unordered_set<const Node*>& copies)
      : rewriter_(graph),
        lifetimes_(lifetimes),
        chosen_(chosen),
        copies_(copies),
        uses_(count_uses(graph)) {
    for (const auto& node : graph.nodes()) {
      if (lifetimes.position(*node) < lifetimes.peak() || !is_kernel_of_one(*node)) continue;
      for (const Value v : node->inputs()) {
        if (v && v.type().shape().same_as(node->types()[0].shape())) kernels_[v].push_back(&*node);
      }
    }
  }

  Ref<GraphImpl> write() {
    for (const auto& node : rewriter_.from().nodes()) {
      now_ = lifetimes_.position(*node);
      if (joined_.contains(node.get())) continue;
      if (now_ >= lifetimes_.peak()) {
        for (const Value v : node->inputs()) {
          if (v) bring(v);
        }
      }
      rewriter_.copy(*node);
    }
    return rewriter_.finish();
  }

 private:
  /// A kernel that goes over elements and has one result.
  static bool is_kernel_of_one(const Node& node) {
    const bool is_kernel =
        &node.op() == &kFusedOp ? reduction_of(node) == nullptr : is_pointwise(node);
    return is_kernel && node.types().size() == 1;
  }

  /// Makes the value anew if it is, or lies in, a chosen one, and before it what it is made of.
  void bring(Value wanted) {
    std::vector<Value> needed{wanted}, missing;
    while (!needed.empty()) {
      const Value v = needed.back();
      needed.pop_back();
      if (!v || !is_made_again(v) || brought_.contains(v)) continue;
      const bool is_view = v.node->op().kind == BodyKind::view;
      // A view behind the peak is copied in its place, and looks at the new one.
      if (is_view && lifetimes_.position(*v.node) >= lifetimes_.peak()) continue;
      brought_.insert(v);
      missing.push_back(v);
      if (is_view) {
        needed.insert(needed.end(), v.node->inputs().begin(), v.node->inputs().end());
      } else {
        const Part& part = chosen_.at(v);
        needed.insert(needed.end(), part.inputs.begin(), part.inputs.end());
      }
    }
    std::ranges::sort(missing, {},
                      [&](Value v) { return std::pair(lifetimes_.position(*v.node), v.index); });
    for (const Value v : missing) {
      make(v);
      made_.insert(v);
    }
  }

  void make(Value v) {
    const bool is_view = v.node->op().kind == BodyKind::view;
    if (!is_view && make_beside(v, chosen_.at(v))) return;
    if (is_view || !chosen_.at(v).region) {
      // All results of a node come at once.
      if (!is_view && !copied_.insert(v.node).second) return;
      rewriter_.copy(*v.node);
      return;
    }
    const Part& part = chosen_.at(v);
    const NoAttrs none;
    Node* const made = rewriter_.to()->append(kFusedOp, Attrs::copy_of(attrs_info<NoAttrs>, &none),
                                              rewriter_.at(part.inputs), {v.type()}, v.node->loc());
    made->add_region(part.region);
    rewriter_.set(v, made->output());
  }

  /// Lets a later kernel that reads an input of the part make the value as well: what both read is
  /// read once, what both compute is computed once.
  bool make_beside(Value v, const Part& part) {
    if (!part.region && !is_pointwise(*v.node)) return false;
    const Node* const other = find_beside(v, part);
    if (!other) return false;
    for (const Value input : other->inputs()) {
      if (input && !is_there(input)) copy_now(input);
    }
    RegionWriter kernel(rewriter_, [](const Node&) { return false; });
    const std::array results{v, Value{const_cast<Node*>(other), 0}};
    add(kernel, part.region.get(), part.inputs, results[0]);
    add(kernel, &other->op() == &kFusedOp ? other->regions()[0].get() : nullptr, other->inputs(),
        results[1]);
    const NoAttrs none;
    kernel.finish(kFusedOp, Attrs::copy_of(attrs_info<NoAttrs>, &none), results, other->loc());
    joined_.insert(other);
    return true;
  }

  /// Adds what makes `result`: its node, or a region on these inputs.
  static void add(RegionWriter& kernel, const GraphImpl* region, std::span<const Value> inputs,
                  Value result) {
    if (region) return kernel.add(*region, inputs, {&result, 1});
    kernel.add(*result.node);
  }

  /// A kernel over the elements of `v` that could run now and would take no more memory: its result
  /// comes in the place of an input.
  [[nodiscard]] const Node* find_beside(Value v, const Part& part) const {
    for (const Value input : part.inputs) {
      const auto found = kernels_.find(input);
      if (found == kernels_.end() || !input.type().shape().same_as(v.type().shape())) continue;
      for (const Node* node : found->second) {
        const std::size_t operands = part.inputs.size() + node->inputs().size() + 2;
        if (lifetimes_.position(*node) > now_ && !joined_.contains(node) &&
            operands <= static_cast<std::size_t>(FuseOptions().max_operands) &&
            std::ranges::all_of(node->inputs(),
                                [&](Value w) { return !w || is_there(w) || may_come_now(w); }) &&
            std::ranges::any_of(node->inputs(), [&](Value w) { return takes_over(*node, w); })) {
          return node;
        }
      }
    }
    return nullptr;
  }

  /// Whether a product gives it, seen through views, from what is there, and would run soon anyway.
  [[nodiscard]] bool may_come_now(Value v) const {
    constexpr std::size_t kSoon = 8;
    const Node& node = *root_of(v).node;
    return lifetimes_.position(*v.node) <= now_ + kSoon && node.op().kind == BodyKind::opaque &&
           node.op().effect == Effect::pure && node.regions().empty() && !is_source(node) &&
           !joined_.contains(&node) && std::ranges::all_of(node.inputs(), [&](Value w) {
             return !w || is_there(w) || can_be_made(w);
           });
  }
  /// Whether it is made again of what is there.
  [[nodiscard]] bool can_be_made(Value v) const {
    const auto part = chosen_.find(v);
    return part != chosen_.end() && !brought_.contains(v) &&
           std::ranges::all_of(part->second.inputs, [&](Value w) { return is_there(w); });
  }
  void copy_now(Value v) {
    if (joined_.contains(v.node) || is_there(v)) return;
    if (v.node->op().kind == BodyKind::view) {
      copy_now(v.node->inputs()[0]);
    } else {
      for (const Value w : v.node->inputs()) {
        if (w) bring(w);
      }
    }
    rewriter_.copy(*v.node);
    joined_.insert(v.node);
  }

  [[nodiscard]] bool is_there(Value v) const {
    return is_made_again(v) ? made_.contains(v) : lifetimes_.position(*v.node) < now_;
  }

  /// Whether the kernel is the only one to read its input, which is as large as its result.
  [[nodiscard]] bool takes_over(const Node& node, Value v) const {
    if (!v || !v.type().same_as(node.types()[0])) return false;
    for (; v.node->op().kind == BodyKind::view; v = v.node->inputs()[0]) {
      if (uses_[v] != 1) return false;
    }
    return uses_[v] == 1 && !is_source(*v.node) && !is_made_again(v);
  }

  [[nodiscard]] bool is_made_again(Value v) const {
    for (; v.node->op().kind == BodyKind::view; v = v.node->inputs()[0]) {
      if (copies_.contains(v.node)) return true;
    }
    return chosen_.contains(v);
  }

  Rewriter rewriter_;
  const Lifetimes& lifetimes_;
  const Parts& chosen_;
  const std::unordered_set<const Node*>& copies_;
  ValueTable<int> uses_;
  /// By what they read in full: kernels from the peak on.
  std::unordered_map<Value, std::vector<const Node*>, ValueHash> kernels_;
  std::unordered_set<const Node*> joined_;  ///< written already, with a part or for one
  std::size_t now_ = 0;                     ///< position of the node that is copied next
  std::unordered_set<Value, ValueHash> brought_, made_;
  std::unordered_set<const Node*> copied_;
};

}  // namespace

namespace {

/// The nodes of a fused node's region that make one of its results, by their places there; nothing
/// where that needs one that `may` not be computed twice.
std::optional<std::vector<bool>> needed_for(Value result,
                                            const std::function<bool(const Node&)>& may) {
  const GraphImpl& region = *result.node->regions()[0];
  NodeTable<char> needed(region, 0);
  needed[*region.outputs()[static_cast<std::size_t>(result.index)].node] = 1;
  const auto& inner = region.nodes();
  std::vector<bool> places(inner.size(), false);
  for (std::size_t i = inner.size(); i-- > 0;) {
    if (needed[*inner[i]] == 0) continue;
    if (!is_source(*inner[i]) && !may(*inner[i])) return {};
    places[i] = true;
    for (const Value v : inner[i]->inputs()) needed[*v.node] = 1;
  }
  return places;
}

/// What those of them that are placeholders of the region stand for.
std::vector<Value> inputs_at(const Node& fused, const std::vector<bool>& places) {
  std::vector<Value> inputs;
  std::size_t input = 0, place = 0;
  for (const auto& inner : fused.regions()[0]->nodes()) {
    const bool is_needed = places[place++];
    if (&inner->op() != &kPlaceholderOp) continue;
    if (is_needed) inputs.push_back(fused.inputs()[input]);
    ++input;
  }
  return inputs;
}

}  // namespace

std::optional<std::vector<Value>> inputs_of_part(Value result,
                                                 const std::function<bool(const Node&)>& may) {
  const Node& node = *result.node;
  if (&node.op() == &kFusedOp) {
    const auto places = needed_for(result, may);
    return places ? std::optional(inputs_at(node, *places)) : std::nullopt;
  }
  const bool may_come_again = node.types().size() == 1 && may(node) &&
                              std::ranges::all_of(node.inputs(), [](Value v) { return bool(v); });
  if (!may_come_again) return {};
  return std::vector<Value>(node.inputs().begin(), node.inputs().end());
}

std::optional<Part> part_of(Value result, const std::function<bool(const Node&)>& may) {
  const Node& node = *result.node;
  std::optional<Part> part;
  if (&node.op() != &kFusedOp) {
    if (auto inputs = inputs_of_part(result, may)) part = {*std::move(inputs)};
    return part;
  }
  const auto places = needed_for(result, may);
  if (!places) return part;
  const GraphImpl& region = *node.regions()[0];
  part = {inputs_at(node, *places), make_ref<GraphImpl>()};
  ValueTable<Value> made(region);
  for (std::size_t i = 0; i < region.nodes().size(); ++i) {
    if (!(*places)[i]) continue;
    Node& old = *region.nodes()[i];
    std::vector<Value> operands;
    operands.reserve(old.inputs().size());
    for (const Value v : old.inputs()) operands.push_back(made[v]);
    Node* const copy = part->region->append_copy(old, operands);
    for (int k = 0; k < static_cast<int>(old.types().size()); ++k)
      made[old.output(k)] = copy->output(k);
  }
  part->region->outputs().push_back(made[region.outputs()[static_cast<std::size_t>(result.index)]]);
  return part;
}

Ref<GraphImpl> make_again(const GraphImpl& graph, const Lifetimes& lifetimes, const Parts& chosen,
                          const std::unordered_set<const Node*>& copies) {
  return Writer(graph, lifetimes, chosen, copies).write();
}

}  // namespace dyad::passes
