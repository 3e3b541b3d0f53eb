#include "dyad/exec/partial_backward.h"

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "dyad/exec/control_flow_ops.h"
#include "dyad/exec/control_node.h"
#include "dyad/exec/roll_loop.h"
#include "dyad/ir/graph_evaluator.h"
#include "dyad/passes/dce.h"

namespace dyad::exec {
namespace {

/// Programs differentiate few sets of results in turn; of more than so many, that goes which has
/// not been asked for longest.
constexpr std::size_t kMostParts = 8;

/// Which seeds a value is computed from. That of several is the greatest of theirs.
enum class Reach : std::uint8_t { none, missing, given };

using ValueSet = std::unordered_set<Value, ValueHash>;

/// Of values; those not in it are computed from no seeds.
class Reached {
 public:
  [[nodiscard]] Reach operator[](const Value& value) const {
    const auto at = reached_.find(value);
    return at == reached_.end() ? Reach::none : at->second;
  }
  void set(const Value& value, Reach reach) { reached_.insert_or_assign(value, reach); }
  [[nodiscard]] std::vector<Reach> of(std::span<const Value> values) const {
    std::vector<Reach> all;
    all.reserve(values.size());
    for (const Value& value : values) all.push_back((*this)[value]);
    return all;
  }
  /// Finds those of a node's outputs by those of its inputs.
  void follow(Node& node);

 private:
  std::unordered_map<Value, Reach, ValueHash> reached_;
};

/// Those of a region's values, by those of its first parameters.
Reached reached_in(const GraphImpl& region, std::span<const Reach> parameters) {
  Reached reached;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    reached.set(region.placeholders()[i], parameters[i]);
  for (const auto& node : region.nodes()) reached.follow(*node);
  return reached;
}

std::size_t states_of(const Node& scan) {
  return static_cast<std::size_t>(scan.attrs_as<LoopAttrs>().states);
}

/// Those of a scan's parameters in any of its steps, by what they are in the first one.
std::vector<Reach> in_any_step(const Node& scan, std::vector<Reach> parameters) {
  const GraphImpl& body = *scan.regions()[0];
  for (bool settled = false; !settled;) {
    settled = true;
    const std::vector<Reach> next = reached_in(body, parameters).of(body.outputs());
    for (std::size_t state = 0; state < states_of(scan); ++state) {
      if (next[state] <= parameters[state]) continue;
      parameters[state] = next[state];
      settled = false;
    }
  }
  return parameters;
}

void Reached::follow(Node& node) {
  if (node.inputs().empty()) return;
  const std::vector<Reach> inputs = of(node.inputs());
  const Reach most = std::ranges::max(inputs);
  if (most == Reach::none) return;
  std::vector<Reach> outputs(node.types().size(), most);
  const auto through = [&](const GraphImpl& region, std::span<const Reach> parameters) {
    return reached_in(region, parameters).of(region.outputs());
  };
  if (&node.op() == &kScanOp) {
    const std::vector<Reach> parameters = in_any_step(node, inputs);
    outputs = through(*node.regions()[0], parameters);
    // Without a step a state ends as it begins.
    for (std::size_t state = 0; state < states_of(node); ++state)
      outputs[state] = std::max(outputs[state], parameters[state]);
  } else if (&node.op() == &kWhileStatesOp) {
    outputs = through(*node.regions()[2], inputs);
  } else if (&node.op() == &kCondOp) {
    const std::span<const Reach> operands = std::span(inputs).subspan(1);
    outputs = through(*node.regions()[0], operands);
    const std::vector<Reach> otherwise = through(*node.regions()[1], operands);
    for (std::size_t i = 0; i < outputs.size(); ++i)
      outputs[i] = std::max(outputs[i], otherwise[i]);
  }
  for (std::size_t i = 0; i < outputs.size(); ++i)
    set(node.output(static_cast<int>(i)), outputs[i]);
}

/// The rules of a backward part, on the way through its graph. One that a given gradient comes to
/// runs: it has zeros for others, and all that it makes is a gradient; another does not run.
class Rules {
 public:
  /// `seeds`: those that are given.
  Rules(const BackwardPart& part, const Segment& whole, std::span<const ValueId> seeds) {
    for (const BackwardPart::Rule& recorded : part.rules) {
      Rule rule;
      const auto bring_in = [&](std::span<const Value> values, std::vector<Value>& here) {
        for (const Value& value : values) {
          if (const Value known = whole.value_of(value)) {
            here.push_back(known);
          } else {  // a seed that nothing reads
            const bool is_given = std::ranges::find(seeds, id_of(value)) != seeds.end();
            rule.unread = std::max(rule.unread, is_given ? Reach::given : Reach::missing);
          }
        }
      };
      bring_in(recorded.came, rule.came);
      bring_in(recorded.looked_for, rule.looked_for);
      for (const Value& made : recorded.made) {
        if (const Value here = whole.value_of(made)) rule.made.push_back(here);
      }
      rules_.push_back(std::move(rule));
    }
  }
  /// Says what follows once the nodes up to number `last` have run.
  void follow(int last, Reached& reached) {
    for (Rule& rule : rules_) {
      if (rule.reach == Reach::none) continue;
      for (const Value& made : rule.made) {
        if (made.node->id() == last) reached.set(made, rule.reach);
      }
    }
    // Seeds are there from the beginning, wherever their placeholders stand.
    const auto is_there = [&](const Value& came) {
      return came.node->is("placeholder") || came.node->id() <= last;
    };
    for (Rule& rule : rules_) {
      if (rule.reach != Reach::none) continue;
      rule.reach = rule.unread;
      bool is_known = true;
      for (const auto* const values : {&rule.came, &rule.looked_for}) {
        is_known = is_known && std::ranges::all_of(*values, is_there);
        for (const Value& value : *values) rule.reach = std::max(rule.reach, reached[value]);
      }
      if (!is_known) rule.reach = Reach::none;
      if (rule.reach != Reach::given) continue;
      for (const Value& came : rule.came) {
        if (reached[came] != Reach::missing) continue;
        reached.set(came, Reach::given);
        zeros_.insert(came);
      }
    }
  }
  /// The gradients that do not come to a rule that runs.
  [[nodiscard]] const ValueSet& zeros() const noexcept { return zeros_; }

 private:
  struct Rule {
    std::vector<Value> came, looked_for, made;
    Reach unread = Reach::none;  ///< of what came and is not in the graph
    Reach reach = Reach::none;   ///< of all that came, once it is known
  };
  std::vector<Rule> rules_;
  ValueSet zeros_;
};

/// Writes a graph again without what is computed from missing seeds alone.
class Writer {
 public:
  /// `zeros`: what is given, and zeros.
  explicit Writer(Reached reached, ValueSet zeros = {})
      : graph_(make_ref<GraphImpl>()),
        evaluator_(graph_),
        reached_(std::move(reached)),
        zeros_(std::move(zeros)) {}

  void append(Node& node);
  [[nodiscard]] bool is_missing(const Value& value) const {
    return reached_[value] == Reach::missing;
  }
  /// What a value is now.
  [[nodiscard]] Value now(const Value& value) const { return now_.at(value); }
  [[nodiscard]] const Ref<GraphImpl>& graph() const noexcept { return graph_; }

 private:
  /// Rules have zeros in the place of a gradient that does not come.
  Value now_or_zeros(const Value& value, Loc loc) {
    if (!value) return {};
    return is_missing(value) ? written(zeros_of(value.type(), loc), loc) : now(value);
  }
  Value written(const Tensor& tensor, Loc loc) { return evaluator_.value_of(tensor, nullptr, loc); }
  [[nodiscard]] Value left_of_sum(const Node& node) const;
  void append_scan(Node& scan);
  void append_copy(Node& node, std::span<const Value> inputs);
  /// Writes the body of a scan, or a way of a cond, again; `scan` is null for the latter.
  static Ref<GraphImpl> region(const GraphImpl& of, std::span<const Reach> parameters,
                               const Node* scan);

  Ref<GraphImpl> graph_;
  GraphEvaluator evaluator_;
  Reached reached_;
  ValueSet zeros_;
  ValueMap now_;
};

void Writer::append(Node& node) {
  const Evaluator::Scope current(evaluator_);
  const std::vector<Reach> inputs = reached_.of(node.inputs());
  const int outputs = static_cast<int>(node.types().size());
  int left_out = 0;
  for (int i = 0; i < outputs; ++i) {
    const Value output = node.output(i);
    if (zeros_.contains(output)) {
      now_.emplace(output, written(zeros_of(output.type(), node.loc()), node.loc()));
      ++left_out;
    } else if (is_missing(output)) {
      ++left_out;
    }
  }
  const bool is_left_out = outputs > 0
                               ? left_out == outputs
                               : !inputs.empty() && std::ranges::max(inputs) == Reach::missing;
  if (is_left_out) return;
  if (std::ranges::find(inputs, Reach::given) != inputs.end()) {
    if (&node.op() == &kScanOp) return append_scan(node);
    if (const Value left = left_of_sum(node)) {
      now_.emplace(node.output(), left);
      return;
    }
  }
  std::vector<Value> here;
  for (const Value& input : node.inputs()) here.push_back(now_or_zeros(input, node.loc()));
  append_copy(node, here);
  Node& made = *graph_->nodes().back();
  if (&node.op() == &kCondOp) {
    for (std::size_t way = 0; way < 2; ++way)
      made.set_region(way, region(*node.regions()[way], std::span(inputs).subspan(1), nullptr));
  } else if (&node.op() == &kWhileStatesOp) {
    made.set_region(2, region(*node.regions()[2], inputs, nullptr));
  }
}

/// Of a sum of gradients of which one does not come: the other one, or nothing.
Value Writer::left_of_sum(const Node& node) const {
  if (!node.is("add")) return {};
  const Value a = node.inputs()[0], b = node.inputs()[1];
  if (is_missing(a) || is_missing(b)) {
    const Value left = is_missing(a) ? b : a;
    return left.type().same_as(node.types()[0]) ? now(left) : Value();
  }
  // Several slices of a gradient lie side by side, plus 0; a single one has zeros around it.
  if (!a.node->is("concat") || !b.node->is("constant")) return {};
  const auto is_given = [&](const Value& part) { return reached_[part] == Reach::given; };
  const auto parts = a.node->inputs();
  const bool is_single = std::ranges::count_if(parts, is_given) == 1;
  const bool any_missing =
      std::ranges::any_of(parts, [&](const Value& part) { return is_missing(part); });
  return is_single && any_missing ? now(a) : Value();
}

void Writer::append_scan(Node& scan) {
  const std::vector<Reach> inputs = reached_.of(scan.inputs());
  const std::vector<Reach> parameters = in_any_step(scan, inputs);
  const std::size_t states = states_of(scan);
  std::vector<Value> here;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Value& input = scan.inputs()[i];
    if (inputs[i] != Reach::missing || parameters[i] != Reach::given) {
      here.push_back(now_or_zeros(input, scan.loc()));
      continue;
    }
    // What the first step lacks and others have is mostly a sum that they go on with.
    const Dim steps = states < inputs.size() ? scan.inputs()[states].type().shape()[0] : Dim(1);
    here.push_back(written(nothing_of(input.type(), steps, scan.loc()), scan.loc()));
  }
  append_copy(scan, here);
  graph_->nodes().back()->set_region(0, region(*scan.regions()[0], parameters, &scan));
}

void Writer::append_copy(Node& node, std::span<const Value> inputs) {
  Node* const made = graph_->append_copy(node, inputs);
  for (int i = 0; i < static_cast<int>(node.types().size()); ++i)
    now_.emplace(node.output(i), made->output(i));
}

Ref<GraphImpl> Writer::region(const GraphImpl& of, std::span<const Reach> parameters,
                              const Node* scan) {
  Writer writer(reached_in(of, parameters));
  const Evaluator::Scope current(writer.evaluator_);
  for (const Value& parameter : of.placeholders()) writer.append_copy(*parameter.node, {});
  for (const auto& node : of.nodes()) {
    if (!node->is("placeholder")) writer.append(*node);
  }
  for (std::size_t i = 0; i < of.outputs().size(); ++i) {
    const Value& output = of.outputs()[i];
    const Loc loc = output.node->loc();
    Value now;
    if (!writer.is_missing(output)) {
      now = writer.now(output);
    } else if (scan && i < states_of(*scan) && parameters[i] != Reach::given) {
      now = writer.now(of.placeholders()[i]);  // nobody looks at it: it stays as it is
    } else {
      now = writer.written(nothing_of(output.type(), loc), loc);
    }
    writer.graph_->outputs().push_back(now);
  }
  return writer.graph_;
}

}  // namespace

PartialBackward::PartialBackward(std::shared_ptr<const Path> path,
                                 std::shared_ptr<const Segment> whole)
    : path_(std::move(path)), whole_(std::move(whole)) {}

PartialBackward::Part PartialBackward::part_for(const std::vector<ValueId>& seeds) {
  const std::scoped_lock lock(mutex_);
  const auto known = std::ranges::find(parts_, seeds, &Part::seeds);
  if (known != parts_.end()) {
    std::rotate(known, known + 1, parts_.end());
    return parts_.back();
  }
  if (parts_.size() == kMostParts) parts_.erase(parts_.begin());
  return parts_.emplace_back(make(seeds));
}

PartialBackward::Part PartialBackward::make(const std::vector<ValueId>& seeds) const {
  const GraphImpl& graph = whole_->graph();
  const std::vector<ValueId> inputs = whole_->inputs();
  std::vector<ValueId> remaining, given;
  Reached reached;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const bool is_seed = inputs[i].node >= path_->backward->begin;
    const bool is_given = std::ranges::find(seeds, inputs[i]) != seeds.end();
    if (is_seed) reached.set(graph.placeholders()[i], is_given ? Reach::given : Reach::missing);
    if (!is_seed || is_given) remaining.push_back(inputs[i]);
  }
  Rules rules(*path_->backward, *whole_, seeds);
  rules.follow(-1, reached);
  for (const auto& node : graph.nodes()) {
    reached.follow(*node);
    rules.follow(node->id(), reached);
  }
  Writer writer(std::move(reached), rules.zeros());
  for (const auto& node : graph.nodes()) writer.append(*node);
  for (std::size_t i = 0; i < graph.outputs().size(); ++i) {
    if (writer.is_missing(graph.outputs()[i])) continue;
    writer.graph()->outputs().push_back(writer.now(graph.outputs()[i]));
    given.push_back(whole_->exposed()[i]);
  }
  passes::dce(*writer.graph());
  auto segment = std::make_shared<Segment>(*whole_, writer.graph(), remaining, std::move(given));
  return {seeds, std::move(segment)};
}

std::vector<PartialBackward::Part> PartialBackward::parts() const {
  const std::scoped_lock lock(mutex_);
  return parts_;
}

}  // namespace dyad::exec
