#include "dyad/exec/later_passes.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "dyad/exec/node_users.h"
#include "dyad/ops/attrs/indexing.h"

namespace dyad::exec {
namespace {

/// Numbers of the tape, after `begin` and up to `end`, that a step made.
struct MadeBackwards {
  std::uint64_t begin = 0, end = 0;
  int step = 0;
  bool is_beside = false;
};

struct Found {
  StepsOfPass of;
  std::size_t kin = 0;              ///< the first of those that came back through the same
  std::size_t through = 0;          ///< which that was, by its first
  bool is_beside = false;           ///< what was done before all steps, each for one
  std::vector<MadeBackwards> made;  ///< in order

  [[nodiscard]] const MadeBackwards* find(std::uint64_t sequence) const {
    const auto after = std::ranges::lower_bound(made, sequence, {}, &MadeBackwards::end);
    return after == made.end() || after->begin >= sequence ? nullptr : &*after;
  }
};

/// One row of a tensor.
struct Row {
  Value of;
  int number = 0;
};

std::optional<Row> row_of(const Path& path, const TapedLoop& loop, Value value) {
  if (!value) return std::nullopt;
  const auto row = [&](Value of, Dim number) {
    // The length that is taken for a number inside.
    if (&of.node->op() == &kWithLengthOp && of.node->attrs_as<LengthAttrs>().loop == loop.number)
      of = of.node->inputs()[0];
    return Row{of, static_cast<int>(evaluate(number, path.hints))};
  };
  const Node& node = *value.node;
  if (node.is("select")) {
    const auto& attrs = node.attrs_as<ops::SelectAttrs>();
    return attrs.axis == 0 ? std::optional(row(node.inputs()[0], attrs.index)) : std::nullopt;
  }
  if (!node.is("squeeze")) return std::nullopt;
  const Node& slice = *node.inputs()[0].node;
  if (!slice.is("slice")) return std::nullopt;
  const auto& attrs = slice.attrs_as<ops::SliceAttrs>();
  const bool is_row = attrs.axis == 0 && attrs.step == 1 &&
                      Dim(attrs.end).same_as(attrs.begin + 1) &&
                      node.types()[0].rank() + 1 == slice.types()[0].rank();
  return is_row ? std::optional(row(slice.inputs()[0], attrs.begin)) : std::nullopt;
}

/// Finds the rows that steps read.
class RowReader {
 public:
  RowReader(const Path& path, const TapedLoop& loop, const StepsOfPass& steps)
      : path_(path), loop_(loop), steps_(steps), users_(*path.graph) {
    for (const auto& nodes : steps.nodes) own_.insert(nodes.begin(), nodes.end());
    forget_rows_that_stay();
  }

  [[nodiscard]] std::optional<TapedLoop> loop() {
    TapedLoop made;
    made.number = loop_.number;
    made.length = loop_.length;
    made.loc = loop_.loc;
    made.pass = steps_.pass;
    made.ascends = steps_.ascends;
    made.slices_made.resize(1);
    const auto count = static_cast<int>(steps_.nodes.size());
    std::vector<std::vector<std::pair<std::size_t, Value>>> slices(steps_.nodes.size());
    for (int number = 0; number < count; ++number) {
      const int step = steps_.ascends ? count - 1 - number : number;
      BackwardTrace::Step& trace = made.trace.steps.emplace_back();
      std::map<std::pair<std::size_t, int>, Value> known;
      for (Node* const node : steps_.nodes[static_cast<std::size_t>(step)]) {
        if (is_reading(*node)) continue;
        trace.backward.push_back(node);
        for (std::size_t i = 0; i < node->inputs().size(); ++i) {
          const auto row = moving_row(node->inputs()[i]);
          if (!row) continue;
          const std::size_t source = number_of_source(made, row->of, row->number - step, count);
          const auto [at, is_new] =
              known.emplace(std::pair(source, row->number), node->inputs()[i]);
          if (is_new) slices[static_cast<std::size_t>(number)].emplace_back(source, at->second);
          node->set_input(i, at->second);
        }
      }
    }
    for (std::size_t number = 0; number < slices.size(); ++number) {
      std::vector<Value>& own = made.trace.steps[number].slices;
      own.resize(made.xs.size());
      for (const auto& [source, value] : slices[number]) own[source] = value;
    }
    collect_readers(made);
    const std::unordered_set<const Node*> readers(made.nodes.begin(), made.nodes.end());
    for (const BackwardTrace::Step& step : made.trace.steps) {
      for (const Value row : step.slices) {
        if (row && !readers.contains(row.node)) return std::nullopt;
      }
    }
    return made;
  }

 private:
  /// A row of what no step made, if it is another one in other steps.
  [[nodiscard]] std::optional<Row> moving_row(Value value) const {
    const auto row = row_of(path_, loop_, value);
    if (!row || own_.contains(row->of.node) || stays_.contains(row->of)) return std::nullopt;
    return row;
  }

  /// Whether the node only gets such a row.
  [[nodiscard]] bool is_reading(Node& node) const {
    if (node.types().size() != 1) return false;
    if (moving_row(node.output())) return true;
    const std::span<Node* const> users = users_.of(node);
    return node.is("slice") && !users.empty() && std::ranges::all_of(users, [&](Node* user) {
             return user->is("squeeze") && moving_row(user->output()).has_value();
           });
  }

  /// Tensors of a fixed number of rows, of which several steps read the same one, are not sliced.
  void forget_rows_that_stay() {
    struct Seen {
      int row = 0;
      std::size_t step = 0;
      bool by_others = false, is_same = true;
    };
    std::unordered_map<Value, Seen, ValueHash> rows;
    for (std::size_t step = 0; step < steps_.nodes.size(); ++step) {
      for (const Node* const node : steps_.nodes[step]) {
        for (const Value input : node->inputs()) {
          const auto row = row_of(path_, loop_, input);
          if (!row || !row->of.type().shape()[0].is_number()) continue;
          Seen& seen = rows.try_emplace(row->of, Seen{row->number, step}).first->second;
          seen.by_others = seen.by_others || seen.step != step;
          seen.is_same = seen.is_same && seen.row == row->number;
        }
      }
    }
    for (const auto& [of, seen] : rows) {
      if (seen.by_others && seen.is_same) stays_.insert(of);
    }
  }

  /// Which of the loop's slices it is, `apart` rows after the step's own.
  std::size_t number_of_source(TapedLoop& made, Value of, int apart, int steps) const {
    const auto size = static_cast<int>(evaluate(of.type().shape()[0], path_.hints));
    const TapedLoop::Rows rows{.first = steps_.ascends ? size - steps - apart : apart,
                               .count = size};
    for (std::size_t i = 0; i < made.xs.size(); ++i) {
      if (made.xs[i] == of && made.rows[i].first == rows.first) return i;
    }
    made.xs.push_back(of);
    made.rows.push_back(rows);
    return made.xs.size() - 1;
  }

  /// What gets rows for these steps alone is gone with them.
  void collect_readers(TapedLoop& made) const {
    const auto is_for_steps = [&](const auto& self, Node& node) -> bool {
      const std::span<Node* const> users = users_.of(node);
      return !users.empty() && std::ranges::all_of(users, [&](Node* user) {
        return is_reading(*user) ? self(self, *user) : own_.contains(user);
      });
    };
    for (const auto& node : path_.graph->nodes()) {
      if (is_reading(*node) && is_for_steps(is_for_steps, *node)) made.nodes.push_back(node.get());
    }
  }

  const Path& path_;
  const TapedLoop& loop_;
  const StepsOfPass& steps_;
  const NodeUsers users_;
  std::unordered_set<const Node*> own_;
  std::unordered_set<Value, ValueHash> stays_;
};

}  // namespace

std::vector<StepsOfPass> find_passes(const GraphImpl& graph, const TapedLoop& loop,
                                     std::span<const TapeVisit> visits) {
  const std::size_t steps = loop.tape.size() - 1;
  std::vector<Found> found(1);
  found[0].of.ascends = true;
  for (std::size_t t = 0; t < steps; ++t)
    found[0].made.push_back({loop.tape[t], loop.tape[t + 1], static_cast<int>(t)});
  for (const auto& [sequence, step] : loop.stacking)
    found[0].made.push_back({sequence - 1, sequence, step, true});
  for (std::size_t i = 0; i + 1 < visits.size(); ++i) {
    const TapeVisit& visit = visits[i];
    if (visit.sequence == 0) continue;
    std::size_t through = 0;
    std::optional<MadeBackwards> of;
    for (; through < found.size(); ++through) {
      if (found[through].of.pass >= visit.pass) continue;
      if (const MadeBackwards* const made = found[through].find(visit.sequence)) of = *made;
      if (of) break;
    }
    if (!of) continue;
    const bool ascends = !found[through].of.ascends, is_beside = of->is_beside && !ascends;
    const std::size_t kin_of = found[through].kin;
    std::size_t kin = found.size();
    auto own = found.end();
    for (auto one = found.begin() + 1; one != found.end(); ++one) {
      if (one->of.pass != visit.pass || one->through != kin_of) continue;
      kin = one->kin;
      if (one->is_beside == is_beside) own = one;
    }
    if (own == found.end()) {
      found.push_back({{visit.pass, ascends, std::vector<std::vector<Node*>>(steps), {}},
                       kin,
                       kin_of,
                       is_beside,
                       {}});
      own = found.end() - 1;
    }
    for (int at = visit.nodes; at < visits[i + 1].nodes; ++at) {
      Node* const node = graph.nodes()[static_cast<std::size_t>(at)].get();
      if (node->is("variable") || node->is("placeholder") || &node->op() == &kWithLengthOp)
        continue;
      own->of.nodes[static_cast<std::size_t>(of->step)].push_back(node);
      if (of->is_beside) own->of.beside.insert(node);
    }
    own->made.push_back({visit.latest, visits[i + 1].latest, of->step, of->is_beside});
  }
  std::vector<StepsOfPass> all;
  for (Found& one : std::span(found).subspan(1)) all.push_back(std::move(one.of));
  return all;
}

void gather_steps(MovingRecording& moving, const StepsOfPass& steps) {
  std::unordered_map<const Node*, std::vector<Node*>> behind;  // which nodes others are to be
  std::unordered_set<const Node*> moved;
  for (const auto& nodes : steps.nodes) {
    const auto last = std::find_if(nodes.rbegin(), nodes.rend(),
                                   [&](const Node* node) { return !steps.beside.contains(node); });
    if (last == nodes.rend()) continue;
    const auto is_there = [&](Value input) {
      return !input || input.node->id() <= (*last)->id() || moved.contains(input.node);
    };
    for (Node* const node : nodes) {
      if (node->id() <= (*last)->id() || !std::ranges::all_of(node->inputs(), is_there)) continue;
      behind[*last].push_back(node);
      moved.insert(node);
    }
  }
  if (moved.empty()) return;
  std::vector<Node*> order;
  std::vector<int> before{0};
  for (const auto& node : moving.path.graph->nodes()) {
    if (!moved.contains(node.get())) order.push_back(node.get());
    if (const auto others = behind.find(node.get()); others != behind.end())
      order.insert(order.end(), others->second.begin(), others->second.end());
    before.push_back(static_cast<int>(order.size()));
  }
  moving.arrange(order, before);
}

std::unordered_set<const Node*> nodes_of(std::span<const StepsOfPass> passes, std::size_t first) {
  std::unordered_set<const Node*> all;
  for (const StepsOfPass& pass : passes.subspan(std::min(first, passes.size()))) {
    for (const auto& nodes : pass.nodes) all.insert(nodes.begin(), nodes.end());
  }
  return all;
}

std::optional<TapedLoop> loop_of_pass(const Path& path, const TapedLoop& loop,
                                      const StepsOfPass& steps) {
  return RowReader(path, loop, steps).loop();
}

}  // namespace dyad::exec
