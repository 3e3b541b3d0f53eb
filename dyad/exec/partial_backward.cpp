#include "dyad/exec/partial_backward.h"

#include <algorithm>
#include <utility>

#include "dyad/exec/guarded_sizes.h"
#include "dyad/exec/seed_reach.h"
#include "dyad/passes/dce.h"

namespace dyad::exec {
namespace {

/// Programs differentiate few sets of results in turn; of more than so many, that goes which has
/// not been asked for longest.
constexpr std::size_t kMostParts = 8;

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
          } else if (std::ranges::find(part.seeds, value) != part.seeds.end()) {
            // Nothing reads it.
            const bool is_given = std::ranges::find(seeds, id_of(value)) != seeds.end();
            rule.unread = std::max(rule.unread, is_given ? Reach::given : Reach::missing);
          }
        }
      };
      bring_in(recorded.came, rule.came);
      bring_in(recorded.looked_for, rule.looked_for);
      bring_in(recorded.made, rule.made);
      bring_in(recorded.inside, rule.inside);
      rules_.push_back(std::move(rule));
    }
  }
  /// Says what follows once the nodes up to number `last` have run.
  void follow(int last, SeedReach& reached) {
    for (Rule& rule : rules_) {
      if (rule.reach == Reach::none) continue;
      for (const Value& made : rule.made) {
        if (made.node->id() == last && reached[made] == Reach::none) reached.set(made, rule.reach);
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
        for (const Value& inside : rule.inside) reached.set_zeros(*inside.node, came);
      }
    }
  }

 private:
  struct Rule {
    std::vector<Value> came, looked_for, made, inside;
    Reach unread = Reach::none;  ///< of what came and is not in the graph
    Reach reach = Reach::none;   ///< of all that came, once it is known
  };
  std::vector<Rule> rules_;
};

}  // namespace

PartialBackward::PartialBackward(std::shared_ptr<const Path> path,
                                 std::shared_ptr<const Segment> whole)
    : path_(std::move(path)),
      whole_(std::move(whole)),
      has_loops_(std::ranges::any_of(whole_->graph().nodes(),
                                     [](const auto& node) { return !node->regions().empty(); })) {}

PartialBackward::Part PartialBackward::part_for(const std::vector<ValueId>& seeds,
                                                const SymbolMap& sizes) {
  const std::scoped_lock lock(mutex_);
  const auto known = std::ranges::find_if(parts_, [&](const Part& part) {
    return part.seeds == seeds && std::ranges::all_of(part.loops, [&](const LoopSteps& steps) {
             return steps.hold(sizes);
           });
  });
  if (known != parts_.end()) {
    std::rotate(known, known + 1, parts_.end());
    return parts_.back();
  }
  if (parts_.size() == kMostParts) parts_.erase(parts_.begin());
  return parts_.emplace_back(make(seeds, sizes));
}

PartialBackward::Part PartialBackward::make(const std::vector<ValueId>& seeds,
                                            const SymbolMap& sizes) const {
  const GuardedSizes guarded(path_->guards);
  const SizeFacts::Scope facts(guarded);
  const GraphImpl& graph = whole_->graph();
  const std::vector<ValueId> inputs = whole_->inputs();
  std::vector<ValueId> remaining, given;
  SeedReach reached;
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
  PartWriter writer(std::move(reached), sizes);
  for (const auto& node : graph.nodes()) writer.append(*node);
  for (std::size_t i = 0; i < graph.outputs().size(); ++i) {
    if (writer.is_missing(graph.outputs()[i])) continue;
    writer.graph()->outputs().push_back(writer.now(graph.outputs()[i]));
    given.push_back(whole_->exposed()[i]);
  }
  passes::dce(*writer.graph());
  auto segment = std::make_shared<Segment>(*whole_, writer.graph(), remaining, std::move(given));
  return {seeds, writer.apart(), std::move(segment)};
}

std::vector<PartialBackward::Part> PartialBackward::parts() const {
  const std::scoped_lock lock(mutex_);
  return parts_;
}

}  // namespace dyad::exec
