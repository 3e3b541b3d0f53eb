#include "dyad/passes/checkpoints.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "dyad/ir/graph_ops.h"
#include "dyad/passes/dce.h"
#include "dyad/passes/fused_op.h"
#include "dyad/passes/made_again.h"

namespace dyad::passes {
namespace {

/// Whether a node may run twice.
bool may_repeat(const Node& node) {
  const BodyKind kind = node.op().kind;
  return node.op().effect == Effect::pure &&
         (kind == BodyKind::pointwise || kind == BodyKind::reduction || kind == BodyKind::opaque ||
          &node.op() == &kFusedOp);
}

/// What runs before the peak, and how it may be cut.
class Segments {
 public:
  Segments(const GraphImpl& graph, Lifetimes& lifetimes) {
    std::unordered_set<Value, ValueHash> results;
    for (const Value v : graph.outputs()) results.insert(root_of(v));
    for (const auto& node : graph.nodes()) {
      if (&node->op() != &kAssignOp) continue;
      for (const Value v : node->inputs()) results.insert(root_of(v));
    }
    const std::size_t end = lifetimes.peak();
    for (std::size_t i = 0; i < end; ++i) {
      Node& node = *graph.nodes()[i];
      if (node.op().kind == BodyKind::view) continue;
      for (const Value v : node.inputs()) {
        if (!v) continue;
        const auto found = index_.find(root_of(v));
        if (found != index_.end()) values_[found->second].last_use = i;
      }
      for (int k = 0; k < static_cast<int>(node.types().size()); ++k) {
        const Value v = node.output(k);
        const std::int64_t bytes = lifetimes.bytes(v);
        if (bytes == 0) continue;
        index_.emplace(v, values_.size());
        values_.push_back({.value = v,
                           .made = i,
                           .last_use = i,
                           .bytes = bytes,
                           .kept = lifetimes.crosses_peak(v),
                           .repeats = may_repeat(node) && !results.contains(v)});
      }
    }
    find_crossing(end);
  }

  /// The values to compute again where there are so many segments, the last of which is kept whole:
  /// it is needed first.
  [[nodiscard]] Parts chosen(int segments) const {
    const std::vector<std::size_t> cuts = find_cuts(segments);
    Parts parts;
    if (cuts.empty()) return parts;
    for (const Made& one : values_) {
      const bool passes = std::ranges::any_of(
          cuts, [&](std::size_t cut) { return one.made < cut && one.last_use >= cut; });
      if (!one.repeats || passes || one.made >= cuts.back()) continue;
      std::optional<Part> part = part_of(one.value, may_repeat);
      if (!part) part = {{one.value.node->inputs().begin(), one.value.node->inputs().end()}};
      parts.emplace(one.value, std::move(*part));
    }
    return parts;
  }

  /// Values that are kept over the peak now.
  [[nodiscard]] int count() const {
    return static_cast<int>(std::ranges::count_if(values_, &Made::kept));
  }

 private:
  struct Made {
    Value value;
    std::size_t made, last_use;  ///< positions; uses before the peak alone
    std::int64_t bytes;
    bool kept, repeats;
  };

  /// For each position what passes it, and what of the values made until there is kept now.
  void find_crossing(std::size_t end) {
    crossing_.assign(end + 1, 0);
    kept_until_.assign(end + 1, 0);
    for (const Made& one : values_) {
      crossing_[one.made + 1] += one.bytes;
      if (one.last_use < end) crossing_[one.last_use + 1] -= one.bytes;
      if (one.kept) kept_until_[one.made + 1] += one.bytes;
    }
    for (std::size_t i = 1; i <= end; ++i) {
      crossing_[i] += crossing_[i - 1];
      kept_until_[i] += kept_until_[i - 1];
    }
  }

  /// Positions that part what is kept now about equally, where least passes.
  [[nodiscard]] std::vector<std::size_t> find_cuts(int segments) const {
    std::vector<std::size_t> cuts;
    const double all = static_cast<double>(kept_until_.back());
    for (int k = 1; k < segments; ++k) {
      const double least = all * (k - 0.5) / segments, most = all * (k + 0.5) / segments;
      std::size_t best = 0;
      for (std::size_t i = cuts.empty() ? 1 : cuts.back() + 1; i < crossing_.size(); ++i) {
        const auto until = static_cast<double>(kept_until_[i]);
        if (until < least || until > most) continue;
        if (best == 0 || crossing_[i] < crossing_[best]) best = i;
      }
      if (best != 0) cuts.push_back(best);
    }
    return cuts;
  }

  std::vector<Made> values_;
  std::unordered_map<Value, std::size_t, ValueHash> index_;
  std::vector<std::int64_t> crossing_, kept_until_;
};

}  // namespace

Ref<GraphImpl> checkpoint(const Ref<GraphImpl>& graph, const Ref<GraphImpl>& best,
                          const RecomputeOptions& options) {
  Lifetimes lifetimes(*graph, options.sizes);
  const Segments segments(*graph, lifetimes);
  Ref<GraphImpl> least = best;
  std::int64_t bytes = Lifetimes(*best, options.sizes).peak_bytes();
  bool fits = false;
  for (int count = 2; count <= segments.count() && count <= 64; count += 1 + count / 4) {
    const Parts chosen = segments.chosen(count);
    if (chosen.empty()) continue;
    const Ref<GraphImpl> made = make_again(*graph, lifetimes, chosen);
    dce(*made);
    const std::int64_t now = Lifetimes(*made, options.sizes).peak_bytes();
    const bool within = now <= options.memory_limit;
    if (fits ? within && now > bytes : within || now < bytes) {
      least = made;
      bytes = now;
      fits = within;
    }
  }
  return least;
}

}  // namespace dyad::passes
