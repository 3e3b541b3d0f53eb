#include "dyad/passes/fuse.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "dyad/core/element.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/ops/attrs/indexing.h"
#include "dyad/passes/dce.h"
#include "dyad/passes/fused_op.h"
#include "dyad/passes/fusion_groups.h"
#include "dyad/passes/fusion_notes.h"
#include "dyad/passes/join_reductions.h"
#include "dyad/passes/region_writer.h"
#include "dyad/passes/rewriter.h"

namespace dyad::passes {
namespace {

const Shape& shape_of(const Node& node) { return node.types()[0].shape(); }

/// A constant scalar or a tensor filled with one number: an immediate of any kernel that uses it
/// (but for integers that a double does not hold).
bool is_immediate(const Node& node) {
  if (node.is("full")) return true;
  if (&node.op() != &kConstantOp || shape_of(node).rank() != 0) return false;
  const Tensor& literal = node.attrs_as<ConstantAttrs>().value;
  if (is_floating(literal.dtype())) return true;
  if (!contains(kAny | kSmall, literal.dtype())) return false;
  constexpr std::int64_t kMost = std::int64_t{1} << 53;
  const std::int64_t value = visit_element(literal.dtype(), [&]<class T>(std::type_identity<T>) {
    const T element = *reinterpret_cast<const T*>(literal.impl()->data);
    if constexpr (std::is_same_v<T, std::uint64_t>) {
      if (element > static_cast<std::uint64_t>(kMost)) return kMost + 1;
    }
    return convert_element<std::int64_t>(element);
  });
  return value >= -kMost && value <= kMost;
}

/// Whether a kernel that goes over the elements of its result may make it.
bool is_made_by_element(const Node& node) { return is_pointwise(node) || node.op().counted; }

/// Alone or not, it is worth a region: the kernel needs no memory for the filled tensor.
bool reads_filled(const Node& node) {
  return is_pointwise(node) &&
         std::ranges::any_of(node.inputs(), [](Value v) { return v && v.node->is("full"); });
}

/// Chains and diamonds: a pointwise operator joins those whose results it uses.
void join_producers(FusionGroups& groups, const Node& node, const FuseOptions& options) {
  for (const Value v : node.inputs()) {
    if (!v || !is_made_by_element(*v.node) || is_immediate(*v.node)) continue;
    if (!shape_of(*v.node).same_as(shape_of(node))) {
      note_apart(options, *v.node, node,
                 fmt::format("{} is computed once, not for each element of {}",
                             to_string(shape_of(*v.node)), to_string(shape_of(node))));
    } else if (!groups.merge(*v.node, node)) {
      note_apart(options, *v.node, node, groups.refusal());
    }
  }
}

/// A view that an operand's strides express, whatever they are, and that repeats no element.
bool is_index_map(const Node& node) {
  return node.op().kind == BodyKind::view && !node.op().may_copy && !node.is("expand") &&
         !node.is("stop_gradient") && node.types()[0].dtype() == node.inputs()[0].type().dtype();
}

/// Whether these cut a tensor into parts that have no element in common.
bool are_apart(std::span<Node* const> views) {
  std::vector<std::pair<std::int64_t, std::int64_t>> parts;
  std::int64_t axis = 0;
  for (const Node* view : views) {
    if (!view->is("slice")) return false;
    const auto& attrs = view->attrs_as<ops::SliceAttrs>();
    if (attrs.axis < 0) return false;  // before it is in canonical form
    const Dim size = view->types()[0].shape()[static_cast<std::size_t>(attrs.axis)];
    if (!attrs.begin.is_number() || attrs.begin.number() < 0 || !size.is_number() ||
        attrs.step != 1 || (!parts.empty() && attrs.axis != axis))
      return false;
    axis = attrs.axis;
    parts.emplace_back(attrs.begin.number(), attrs.begin.number() + size.number());
  }
  std::ranges::sort(parts);
  return std::ranges::adjacent_find(parts, [](const auto& one, const auto& next) {
           return next.first < one.second;
         }) == parts.end();
}

/// Views of what a group computes, which may be seen through: the group then computes it at the
/// places that the view shows.
class SeenThrough {
 public:
  SeenThrough(FusionGroups& groups, const GraphImpl& graph) : groups_(groups), graph_(graph) {}

  /// Lets the reader take in the view that it reads, and what that is a view of.
  void join(const Node& reader, Value view, const FuseOptions& options) {
    const Node* base = view.node;
    while (is_index_map(*base)) base = base->inputs()[0].node;
    if (!is_pointwise(*base) || groups_.together(*base, reader)) return;
    const std::string_view view_name = view.node->op().name;
    if (!view.type().shape().same_as(shape_of(reader))) {
      return note_apart(options, *base, reader,
                        fmt::format("{} is computed once, not for each element of {}",
                                    to_string(view.type().shape()), to_string(shape_of(reader))));
    }
    if (std::ranges::any_of(groups_.members(*base),
                            [](const Node* member) { return member->op().counted; })) {
      return note_apart(options, *base, reader,
                        fmt::format("random numbers are not seen through {}", view_name));
    }
    std::vector<const Node*> views;
    if (const Node* const elsewhere = find_leaving(reader, *view.node, *base, views)) {
      return note_apart(options, *base, reader,
                        fmt::format("the result of {} is read elsewhere too, not only through {}",
                                    elsewhere->op().name, view_name));
    }
    const auto times = static_cast<int>(groups_.users(*base).size());
    const int operands = operands_of(reader) + times * operands_of(*base);
    if (operands > options.max_operands) {
      return note_apart(options, *base, reader,
                        fmt::format("{} tensors seen through views, {} are allowed", operands,
                                    options.max_operands));
    }
    const std::vector<Node*> inner(groups_.members(*base).begin(), groups_.members(*base).end());
    const bool merged =
        std::ranges::all_of(views, [&](const Node* node) { return groups_.merge(*node, reader); });
    if (!merged || !groups_.merge(*base, reader))
      return note_apart(options, *base, reader, groups_.refusal());
    for (const Node* member : inner) {
      Seen& seen = seen_[member];
      if (!seen.from) seen.from = base;
      seen.times *= times;
    }
  }

 private:
  /// Through how many views a member of a group is seen.
  struct Seen {
    const Node* from = nullptr;  ///< what these show first; null: through none
    int times = 1;
  };

  /// How many operands the kernel of a group has for what it reads: one for each view that shows
  /// it.
  [[nodiscard]] int operands_of(const Node& of) const {
    std::unordered_map<Value, std::vector<Seen>, ValueHash> reads;
    int count = 0;
    for (const Node* member : groups_.members(of)) {
      const auto found = seen_.find(member);
      const Seen seen = found == seen_.end() ? Seen() : found->second;
      for (const Value v : member->inputs()) {
        if (!v || groups_.together(*v.node, of)) continue;
        std::vector<Seen>& known = reads[v];
        if (std::ranges::find(known, seen.from, &Seen::from) != known.end()) continue;
        known.push_back(seen);
        count += seen.times;
      }
    }
    return count;
  }

  /// What is seen through must be needed for the reader's group alone: views, and the group that
  /// computes `base`. One of these that is not, or null and all of the views.
  [[nodiscard]] const Node* find_leaving(const Node& reader, const Node& view, const Node& base,
                                         std::vector<const Node*>& views) const {
    const auto tops = groups_.users(base);
    const bool several = tops.size() > 1 && are_apart(tops);
    for (const Node* node = &view; node != &base; node = node->inputs()[0].node) {
      if (!is_for(*node, reader)) return node;
      views.push_back(node);
    }
    for (const Node* top : tops) {
      if (std::ranges::find(views, top) != views.end()) continue;
      if (!several || !is_for(*top, reader)) return &base;
      // As above, from the reader on: what is in the group is read inside of it alone.
      const auto first = static_cast<std::ptrdiff_t>(views.size());
      for (const Node* node = top; !groups_.together(*node, reader); node = groups_.users(*node)[0])
        views.push_back(node);
      std::reverse(views.begin() + first, views.end());
    }
    return find_read_elsewhere(groups_, graph_, base, [&](const Node& member, const Node&) {
      return &member == &base;  // by these views
    });
  }
  /// Whether nobody reads it but one of the reader's group, maybe through views.
  [[nodiscard]] bool is_for(const Node& node, const Node& reader) const {
    const Node* at = &node;
    while (groups_.users(*at).size() == 1 && !is_output(graph_, *at)) {
      const Node& shown = *at;
      at = groups_.users(shown)[0];
      if (groups_.together(*at, reader)) return shape_of(shown).same_as(shape_of(*at));
      if (!is_index_map(*at)) return false;
    }
    return false;
  }
  FusionGroups& groups_;
  const GraphImpl& graph_;
  std::unordered_map<const Node*, Seen> seen_;
};

/// Siblings: operators that read the same tensor in full read it once. Only the nearest are tried:
/// with all users of a tensor that each of n operators reads, compilation would take n^2 tries.
void join_siblings(FusionGroups& groups, const Node& node, const FuseOptions& options) {
  constexpr std::ptrdiff_t kNear = 16;
  for (const Value v : node.inputs()) {
    if (!v || !v.type().shape().same_as(shape_of(node))) continue;
    const std::span<Node* const> users = groups.users(*v.node);
    const auto here = std::ranges::lower_bound(users, node.id(), {}, &Node::id);
    const Node* refused = nullptr;  // the nearest that reads it in another kernel
    for (auto at = here - std::min(here - users.begin(), kNear); at != here; ++at) {
      const Node& user = **at;
      if (is_pointwise(user) && shape_of(user).same_as(shape_of(node)) &&
          std::ranges::find(user.inputs(), v) != user.inputs().end() &&
          !groups.together(user, node) && !groups.merge(user, node)) {
        refused = &user;
      }
    }
    if (refused && !groups.together(*refused, node))
      note_read_twice(options, *refused, node, v, groups.refusal());
  }
}

/// The values of a group that others want.
std::vector<Value> results_of(const FusionGroups& groups, std::span<Node* const> members,
                              const std::unordered_set<Value, ValueHash>& outputs) {
  std::vector<Value> results;
  for (Node* node : members) {
    for (int i = 0; i < static_cast<int>(node->types().size()); ++i) {
      const Value v = node->output(i);
      if (outputs.contains(v) || groups.is_read_outside(v)) results.push_back(v);
    }
  }
  return results;
}

}  // namespace

Ref<GraphImpl> fuse(const GraphImpl& graph, const FuseOptions& options) {
  FusionGroups groups(graph, options);
  for (const auto& node : graph.nodes()) {
    if (!is_pointwise(*node)) continue;
    join_producers(groups, *node, options);
    join_siblings(groups, *node, options);
  }
  // Groups have all their members of one shape now: what else reads these is known.
  SeenThrough seen(groups, graph);
  for (const auto& node : graph.nodes()) {
    if (!is_pointwise(*node)) continue;
    for (const Value v : node->inputs()) {
      if (v && is_index_map(*v.node)) seen.join(*node, v, options);
    }
  }
  join_reductions(groups, graph, options);

  Rewriter rewriter(graph);
  const std::unordered_set<Value, ValueHash> outputs(graph.outputs().begin(),
                                                     graph.outputs().end());
  const NoAttrs none;
  const Ref<Attrs> no_attrs = Attrs::copy_of(attrs_info<NoAttrs>, &none);
  for (const std::span<Node* const> members : groups.schedule()) {
    if (members.size() == 1 && !reads_filled(*members[0])) {
      rewriter.copy(*members[0]);
    } else {
      RegionWriter writer(rewriter, is_immediate);
      for (const Node* node : members) writer.add(*node);
      const std::vector<Value> results = results_of(groups, members, outputs);
      writer.finish(kFusedOp, no_attrs, results, members.back()->loc());
      if (members.size() > 1)
        note_together(options, members, results, names_in(members), "share a kernel");
    }
  }
  Ref<GraphImpl> fused = rewriter.finish();
  dce(*fused);  // immediates that only kernels used
  return fused;
}

}  // namespace dyad::passes
