#include "dyad/passes/join_reductions.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "dyad/ir/scalar_reduction.h"
#include "dyad/passes/fused_op.h"
#include "dyad/passes/fusion_notes.h"

namespace dyad::passes {
namespace {

constexpr std::size_t kMostAccumulators = 4;  // of a kernel

/// A reduction that may share a kernel with others: of one tensor, to one.
bool may_share(const Node& node) {
  return node.op().kind == BodyKind::reduction && node.op().effect == Effect::pure &&
         node.inputs().size() == 1 && node.types().size() == 1;
}

const Shape& space_of_input(const Node& reduction) { return reduction.inputs()[0].type().shape(); }

class Joiner {
 public:
  Joiner(FusionGroups& groups, const GraphImpl& graph, const FuseOptions& options)
      : groups_(groups), graph_(graph), options_(options) {
    for (const auto& node : graph.nodes()) {
      if (may_share(*node)) reductions_.push_back(node.get());
    }
  }

  void run() {
    for (const Node* reduction : reductions_) join_prologue(*reduction);
    for (std::size_t i = 0; i < reductions_.size(); ++i) join_sibling(i);
  }

 private:
  /// A group whose results reductions over the same axes alone want is computed in their kernel.
  void join_prologue(const Node& reduction) {
    const Node& made = *reduction.inputs()[0].node;
    if (!is_pointwise(made) || groups_.together(made, reduction)) return;
    std::vector<const Node*> readers;
    const Node* const elsewhere =
        find_read_elsewhere(groups_, graph_, made, [&](const Node&, const Node& user) {
          if (&user != &reduction && !(may_share(user) && go_over_the_same(user, reduction)))
            return false;
          if (std::ranges::find(readers, &user) == readers.end()) readers.push_back(&user);
          return true;
        });
    if (elsewhere) {
      return note_apart(
          options_, made, reduction,
          fmt::format("the result of {} is read elsewhere too", elsewhere->op().name));
    }
    std::size_t accumulators = 0;
    for (const Node* reader : readers) accumulators += accumulators_of_group(*reader);
    if (accumulators > kMostAccumulators) {
      return note_apart(options_, made, reduction,
                        fmt::format("the reductions of it need {} accumulators, a kernel has {}",
                                    accumulators, kMostAccumulators));
    }
    // All or none of several. None needs another one: that would lead out of the group and back.
    if (readers.size() > 1 && !has_room(made, readers.size())) {
      return note_apart(options_, made, reduction,
                        "several reductions of it would make too large a kernel");
    }
    for (const Node* reader : readers) {
      if (!groups_.merge(made, *reader)) note_apart(options_, made, *reader, groups_.refusal());
    }
  }

  /// Whether the limits allow so many nodes more in a group, each with a result of its own.
  [[nodiscard]] bool has_room(const Node& of, std::size_t more) const {
    std::unordered_set<Value, ValueHash> read;
    const auto members = groups_.members(of);
    for (const Node* member : members) {
      for (const Value v : member->inputs()) {
        if (v && !groups_.together(*v.node, of)) read.insert(v);
      }
    }
    const std::size_t nodes = members.size() + more;
    return nodes <= static_cast<std::size_t>(options_.max_nodes) &&
           read.size() + nodes <= static_cast<std::size_t>(options_.max_operands);
  }

  /// Lets a reduction, with its prologue, join one of those before it.
  void join_sibling(std::size_t number) {
    constexpr std::size_t kNear = 16;
    const Node& reduction = *reductions_[number];
    if (axes_of(reduction).empty()) return;
    for (std::size_t i = number - std::min(number, kNear); i < number; ++i) {
      const Node& other = *reductions_[i];
      if (groups_.together(other, reduction) || !go_over_the_same(other, reduction) ||
          accumulators_of_group(other) + accumulators_of_group(reduction) > kMostAccumulators ||
          need_one_another(other, reduction) || !read_the_same(other, reduction))
        continue;
      if (groups_.merge(other, reduction)) return;
      note_read_twice(options_, other, reduction, reduction.inputs()[0], groups_.refusal());
    }
  }

  const Ints& axes_of(const Node& reduction) {
    const auto [known, is_new] = axes_.try_emplace(&reduction);
    if (is_new) {
      known->second =
          reduction.op().reduced_axes(reduction.attrs().data(), space_of_input(reduction).rank());
    }
    return known->second;
  }

  bool go_over_the_same(const Node& a, const Node& b) {
    return space_of_input(a).same_as(space_of_input(b)) && axes_of(a) == axes_of(b);
  }

  /// Of the reductions in a group.
  std::size_t accumulators_of_group(const Node& of) {
    std::size_t count = 0;
    for (const Node* member : groups_.members(of)) {
      if (member->op().kind == BodyKind::reduction) count += accumulators_of(*member);
    }
    return count;
  }

  std::size_t accumulators_of(const Node& reduction) {
    const auto [known, is_new] = accumulators_.try_emplace(&reduction, 0);
    if (is_new) {
      ReductionBuilder builder(reduction.inputs()[0].type().dtype(),
                               {reduction.types()[0].dtype()});
      reduction.op().reduce(reduction.attrs().data(), builder);
      known->second = builder.build().init.size();
    }
    return known->second;
  }

  /// Whether a member of one group reads a result of the other.
  [[nodiscard]] bool need_one_another(const Node& a, const Node& b) const {
    const auto reads = [&](const Node& reader, const Node& made) {
      return std::ranges::any_of(groups_.members(reader), [&](const Node* member) {
        return std::ranges::any_of(member->inputs(),
                                   [&](Value v) { return v && groups_.together(*v.node, made); });
      });
    };
    return !groups_.together(a, b) && (reads(a, b) || reads(b, a));
  }

  /// Whether the groups of both read a tensor as large as their space from outside.
  [[nodiscard]] bool read_the_same(const Node& a, const Node& b) const {
    std::unordered_set<Value, ValueHash> read;
    const auto for_each_read = [&](const Node& of, const auto& visit) {
      for (const Node* member : groups_.members(of)) {
        for (const Value v : member->inputs()) {
          if (v && !groups_.together(*v.node, of) && v.type().shape().same_as(space_of_input(a)))
            visit(v);
        }
      }
    };
    bool any = false;
    for_each_read(a, [&](Value v) { read.insert(v); });
    for_each_read(b, [&](Value v) { any = any || read.contains(v); });
    return any;
  }

  FusionGroups& groups_;
  const GraphImpl& graph_;
  const FuseOptions& options_;
  std::vector<const Node*> reductions_;
  std::unordered_map<const Node*, Ints> axes_;
  std::unordered_map<const Node*, std::size_t> accumulators_;
};

}  // namespace

void join_reductions(FusionGroups& groups, const GraphImpl& graph, const FuseOptions& options) {
  Joiner(groups, graph, options).run();
}

}  // namespace dyad::passes
