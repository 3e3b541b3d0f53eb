#include "dyad/passes/fuse_rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "dyad/ops/attrs/indexing.h"
#include "dyad/passes/equal_nodes.h"
#include "dyad/passes/fused_op.h"
#include "dyad/passes/fusion_groups.h"
#include "dyad/passes/fusion_notes.h"
#include "dyad/passes/lifetimes.h"
#include "dyad/passes/region_writer.h"
#include "dyad/passes/rewriter.h"

namespace dyad::passes {
namespace {

/// How a node works on rows.
struct RowWork {
  Shape space;
  int axes = 0;  ///< the leading axes along which its elements do not meet; 0: it cannot be split
  bool along = false;  ///< what it gives for an element depends on the rest of the row
};

/// Library operators whose result along one axis, or for the last axes that their weight has, needs
/// nothing else.
constexpr std::array<std::string_view, 4> kAlongAxis{"softmax", "log_softmax", "softmax_backward",
                                                     "log_softmax_backward"};
constexpr std::array<std::string_view, 2> kLastAxes{"layer_norm", "rms_norm"};
constexpr std::array<std::string_view, 3> kIndexing{"gather", "scatter_add", "index_select"};

bool begins_with(const Shape& shape, const Shape& rows, int axes) {
  if (shape.rank() < axes) return false;
  for (int i = 0; i < axes; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (!shape[at].same_as(rows[at])) return false;
  }
  return true;
}

/// Of gather, scatter_add and index_select: rows are the axes before the one that is indexed. Of a
/// table, which has none before it, those of the index: all of them where it names slices, the
/// first of a matrix where it has an entry for each element (with more axes, neighbours mostly have
/// rows along the last one alone).
RowWork indexing_work(const Node& node) {
  const Shape& shape = node.types()[0].shape();
  const Shape& index = node.inputs()[1].type().shape();
  int axes = static_cast<int>(indexed_axis(node));
  if (node.is("index_select")) axes = axes == 0 ? index.rank() : 0;
  if (node.is("gather") && axes == 0 && shape.rank() <= 2) axes = 1;
  for (std::size_t i = 0; i < node.inputs().size(); ++i) {
    if (row_operand(node, i) != RowOperand::whole &&
        !begins_with(node.inputs()[i].type().shape(), shape, axes))
      return {};
  }
  return {shape, axes, true};
}

bool is_view(const Node& node) { return node.op().kind == BodyKind::view; }

RowWork reduction_work(const Node& node) {
  const Shape& space = node.inputs()[0].type().shape();
  const Ints reduced = node.op().reduced_axes(node.attrs().data(), space.rank());
  return {space, reduced.empty() ? 0 : static_cast<int>(reduced[0]), true};
}

RowWork work_of(const Node& node) {
  const OpInfo& op = node.op();
  if (op.effect != Effect::pure) return {};
  if (const Node* const reduction = reduction_of(node)) return reduction_work(*reduction);
  if (&op == &kFusedOp) return {space_of(node), space_of(node).rank()};
  if (op.kind == BodyKind::pointwise && !node.inputs().empty()) {
    return {space_of(node), space_of(node).rank()};
  }
  if (op.kind != BodyKind::opaque) return {};
  const Shape& shape = node.types()[0].shape();
  if (std::ranges::find(kAlongAxis, op.name) != kAlongAxis.end()) {
    const auto axis = node.attrs_as<ops::AxisAttrs>().axis;
    return {shape, static_cast<int>(axis < 0 ? axis + shape.rank() : axis), true};
  }
  if (std::ranges::find(kLastAxes, op.name) != kLastAxes.end()) {
    return {shape, shape.rank() - node.inputs()[1].type().rank(), true};
  }
  if (has_row_sums(node)) {
    return {shape, shape.rank() - node.inputs()[2].type().rank(), true};
  }
  if (std::ranges::find(kIndexing, op.name) != kIndexing.end()) return indexing_work(node);
  return {};
}

/// Whether what a kernel sees through views lies in the row that it works on.
bool sees_own_rows(const Node& node, int axes) {
  if (&node.op() != &kFusedOp) return true;
  return std::ranges::all_of(node.regions()[0]->nodes(), [&](const auto& inner) {
    return !is_view(*inner) ||
           (inner->is("slice") && inner->template attrs_as<ops::SliceAttrs>().axis >= axes);
  });
}

class RowFusion {
 public:
  RowFusion(const GraphImpl& graph, const FuseOptions& options)
      : graph_(graph), options_(options), groups_(graph, options) {
    int place = 0;
    for (const auto& node : graph.nodes()) {
      work_.emplace(node.get(), work_of(*node));
      place_.emplace(node.get(), is_view(*node) || is_source(*node) ? place : place++);
      if (node->op().effect == Effect::pure && !is_source(*node)) (void)equal_.has_before(*node);
    }
  }

  void join() {
    // What joined in the first round may make rows of what was only pointwise before.
    for (int round = 0; round < 2; ++round) {
      last_round_ = round == 1;
      for (const auto& node : graph_.nodes()) {
        if (work(*node).axes == 0) continue;
        join_producers(*node);
        join_siblings(*node);
      }
    }
  }

  Ref<GraphImpl> write() {
    Rewriter rewriter(graph_);
    for (const std::span<Node* const> members : groups_.schedule()) {
      if (count_kernels(members) < 2) {
        for (const Node* node : members) rewriter.copy(*node);
        continue;
      }
      write_rows(rewriter, members);
    }
    return rewriter.finish();
  }

 private:
  [[nodiscard]] const RowWork& work(const Node& node) const { return work_.at(&node); }

  static std::ptrdiff_t count_kernels(std::span<Node* const> members) {
    return std::ranges::count_if(members, [](const Node* node) { return !is_view(*node); });
  }

  /// What a value is a view of, through any number of views.
  static Value viewed(Value v) {
    while (v && is_view(*v.node)) v = v.node->inputs()[0];
    return v;
  }

  void join_producers(const Node& node) {
    for (const Value v : node.inputs()) {
      const Value made = viewed(v);
      if (made && work(*made.node).axes > 0) join(*made.node, node, v);
    }
  }

  /// Those that read the same rows, one of them along the row.
  void join_siblings(const Node& node) {
    for (const Value v : node.inputs()) {
      if (!v || !v.type().shape().same_as(work(node).space)) continue;
      for (const Node* user : groups_.users(*v.node)) {
        if (user->id() >= node.id()) break;
        if (work(*user).axes > 0 && v.type().shape().same_as(work(*user).space) &&
            std::ranges::find(user->inputs(), v) != user->inputs().end()) {
          join(*user, node, {});
        }
      }
    }
  }

  /// Makes one group of those of a and b, and of the views by which `b` reads `value` of a.
  void join(const Node& a, const Node& b, Value value) {
    if (groups_.together(a, b)) return;
    std::vector<const Node*> all;
    for (const Node* first : {&a, &b}) {
      const auto members = groups_.members(*first);
      all.insert(all.end(), members.begin(), members.end());
    }
    std::vector<const Node*> views;
    for (Value v = value; v && is_view(*v.node); v = v.node->inputs()[0]) views.push_back(v.node);
    all.insert(all.end(), views.begin(), views.end());
    std::string why;
    if (makes_too_early(all)) return;
    if (!axes_of(all, &why)) return note_apart(a, b, why);
    for (auto view = views.rbegin(); view != views.rend(); ++view) {
      if (!groups_.merge(a, **view)) return note_apart(a, b, groups_.refusal());
    }
    if (!groups_.merge(a, b)) note_apart(a, b, groups_.refusal());
  }

  /// Whether one group of these nodes would make again, with others, what is needed later only.
  [[nodiscard]] bool makes_too_early(std::span<const Node* const> nodes) const {
    int first = std::numeric_limits<int>::max(), last = 0, count = 0;
    bool holds_again = false;
    for (const Node* node : nodes) {
      if (is_view(*node)) continue;
      holds_again = holds_again || equal_.first(*node);
      first = std::min(first, place_.at(node));
      last = std::max(last, place_.at(node));
      ++count;
    }
    return holds_again && last - first >= count;
  }

  /// Says once, in the last round, that two kernels that might share rows do not.
  void note_apart(const Node& a, const Node& b, const std::string& why) const {
    if (!options_.note || !last_round_ || why.empty()) return;
    options_.note(b.loc(), fmt::format("{} and {} do not run on the same rows: {}", name_of(a),
                                       name_of(b), why));
  }

  /// The operators of a node's kernel: `mul_tanh`.
  static std::string name_of(const Node& node) {
    if (&node.op() != &kFusedOp) return std::string(node.op().name);
    std::string name;
    for (const auto& inner : node.regions()[0]->nodes()) {
      const bool computes =
          inner->op().kind == BodyKind::pointwise || inner->op().kind == BodyKind::reduction;
      if (computes) name += (name.empty() ? "" : "_") + std::string(inner->op().name);
    }
    return name;
  }

  /// How many leading axes number the rows that all these nodes work on; nothing when they do not
  /// work on the same rows, or none of them along a row.
  /// `why` is set when they work on rows that differ.
  [[nodiscard]] std::optional<int> axes_of(std::span<const Node* const> members,
                                           std::string* why = nullptr) const {
    int axes = 0;
    const Shape* rows = nullptr;
    for (const Node* node : members) {
      const RowWork& its = work(*node);
      if (!its.along) continue;
      if (axes != 0 && its.axes != axes) {
        if (why) *why = fmt::format("{} is along another axis", name_of(*node));
        return std::nullopt;
      }
      axes = its.axes;
      rows = &its.space;
    }
    if (axes == 0) return std::nullopt;
    for (const Node* node : members) {
      if (!keeps_rows(*node, members, *rows, axes)) {
        if (why) *why = fmt::format("{} has other rows", name_of(*node));
        return std::nullopt;
      }
    }
    return axes;
  }

  /// Whether a member works row by row, and reads other members' results in the same rows.
  [[nodiscard]] bool keeps_rows(const Node& node, std::span<const Node* const> members,
                                const Shape& rows, int axes) const {
    const bool reads_sums = std::ranges::any_of(node.inputs(), [&](Value v) {
      return is_row_sum(v) && std::ranges::find(members, v.node) != members.end();
    });
    if (reads_sums) return false;
    if (is_view(node)) {
      return begins_with(node.types()[0].shape(), rows, axes) &&
             begins_with(node.inputs()[0].type().shape(), rows, axes);
    }
    if (work(node).axes < axes || !begins_with(work(node).space, rows, axes)) return false;
    const bool is_opaque = node.op().kind == BodyKind::opaque && &node.op() != &kFusedOp;
    for (std::size_t i = 0; i < node.inputs().size(); ++i) {
      const Value v = node.inputs()[i];
      if (!v || std::ranges::find(members, v.node) == members.end()) continue;
      if (is_opaque && row_operand(node, i) != RowOperand::split) return false;
      if (!sees_own_rows(node, axes)) return false;
      if (v.type().rank() != work(node).space.rank() || !begins_with(v.type().shape(), rows, axes))
        return false;
    }
    return true;
  }

  void write_rows(Rewriter& rewriter, std::span<Node* const> members) const {
    // A view that nobody inside reads costs nothing outside.
    std::unordered_set<const Node*> inside;
    for (auto it = members.rbegin(); it != members.rend(); ++it) {
      const bool wanted = std::ranges::any_of(
          groups_.users(**it), [&](const Node* user) { return inside.contains(user); });
      if (!is_view(**it) || wanted) inside.insert(*it);
    }
    RegionWriter writer(rewriter, [](const Node&) { return false; });
    std::vector<Value> results;
    std::vector<const Node*> views_outside;
    std::unordered_set<Value, ValueHash> read_outside(graph_.outputs().begin(),
                                                      graph_.outputs().end());
    for (auto it = members.rbegin(); it != members.rend(); ++it) {
      for (int i = static_cast<int>((*it)->types().size()); i-- > 0;) {
        const Value v = (*it)->output(i);
        if (groups_.is_read_outside(v)) read_outside.insert(v);
        if (!read_outside.contains(v)) continue;
        if (is_view(**it)) {
          views_outside.push_back(*it);
          read_outside.insert((*it)->inputs()[0]);
        } else {
          results.push_back(v);
        }
      }
    }
    std::ranges::reverse(results);
    for (const Node* node : members) {
      if (inside.contains(node)) writer.add(*node);
    }
    const std::vector<const Node*> all(members.begin(), members.end());
    const RowsAttrs attrs{*axes_of(all)};
    note_together(members, results, attrs.axes);
    writer.finish(kRowsOp, Attrs::copy_of(attrs_info<RowsAttrs>, &attrs), results,
                  members.back()->loc());
    for (auto it = views_outside.rbegin(); it != views_outside.rend(); ++it) rewriter.copy(**it);
  }

  void note_together(std::span<Node* const> members, std::span<const Value> results,
                     std::int64_t axes) const {
    if (!options_.note) return;
    std::vector<std::string> names;
    for (const Node* node : members) {
      if (!is_view(*node)) names.push_back(name_of(*node));
    }
    passes::note_together(
        options_, members, results, fmt::format("{}", fmt::join(names, ", ")),
        fmt::format("run together on the rows of {} ax{}", axes, axes == 1 ? "is" : "es"));
  }

  const GraphImpl& graph_;
  const FuseOptions& options_;
  FusionGroups groups_;
  bool last_round_ = false;
  std::unordered_map<const Node*, RowWork> work_;
  std::unordered_map<const Node*, int> place_;  // among the nodes that compute
  EqualNodes equal_;  // where two compute the same, the later is there to be made again
};

}  // namespace

Ref<GraphImpl> fuse_rows(const GraphImpl& graph, const FuseOptions& options) {
  RowFusion fusion(graph, options);
  fusion.join();
  return fusion.write();
}

}  // namespace dyad::passes
