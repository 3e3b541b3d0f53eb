#include "dyad/exec/compile.h"

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>
#include <string>

#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/tape.h"
#include "dyad/base/error.h"
#include "dyad/core/generator.h"
#include "dyad/exec/compiled_call.h"
#include "dyad/exec/eager.h"
#include "dyad/exec/recorder.h"
#include "dyad/exec/segment.h"
#include "dyad/ir/graph_evaluator.h"

namespace dyad::exec {
namespace {

using Key = std::vector<std::int64_t>;

/// Why a recording does not fit a call.
struct Mismatch {
  std::string text;
  Loc loc;
};

/// How an argument lies in memory.
struct ArgumentLayout {
  Strides strides;
  bool contiguous = false;
};

/// The recordings made under one set of assumptions: argument types, sizes or symbols, guards.
struct Entry {
  Key key;
  std::vector<Shape> shapes;
  std::shared_ptr<DecisionTree> tree;
  std::vector<std::any> skeletons;  ///< one for each leaf of the tree
  std::vector<DimGuard> guards;
  std::vector<StateGuard> states;
  std::vector<GradNote> grads;
  std::vector<std::pair<Tensor, bool>> captures;
  std::vector<bool> writes_argument;
  std::vector<Tensor> written_captures;
  bool overlap = false;  ///< what is written shares memory with another tensor from outside
  bool strides_matter = false;
  std::vector<ArgumentLayout> layouts;  ///< of the arguments when it was recorded
  std::vector<std::string> types;
  std::string reason;
  Loc reason_loc;
  std::string refusal;
  std::int64_t calls = 0;
};

Key key_of(std::span<const Tensor> arguments, std::span<const std::int64_t> numbers) {
  Key key{grad_enabled() ? 1 : 0, static_cast<std::int64_t>(arguments.size())};
  for (const Tensor& argument : arguments) {
    key.push_back(static_cast<std::int64_t>(argument.dtype()));
    key.push_back(argument.rank());
    key.push_back(argument.tracks_grad() ? 1 : 0);
  }
  key.insert(key.end(), numbers.begin(), numbers.end());
  return key;
}

/// What distinguishes two keys, in words.
std::string key_difference(const Entry& entry, const Key& key, std::span<const Tensor> arguments) {
  if (entry.key[0] != key[0])
    return key[0] ? "gradients are recorded now" : "gradients are not recorded now";
  if (entry.key[1] != key[1]) return "another number of tensors";
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (std::equal(key.begin() + 2 + 3 * static_cast<std::ptrdiff_t>(i),
                   key.begin() + 5 + 3 * static_cast<std::ptrdiff_t>(i),
                   entry.key.begin() + 2 + 3 * static_cast<std::ptrdiff_t>(i))) {
      continue;
    }
    std::string now = type_string(arguments[i]);
    if (entry.types[i] == now)
      now += arguments[i].tracks_grad() ? " with gradients" : " without gradients";
    return "argument " + std::to_string(i) + " was " + entry.types[i] + ", is " + now;
  }
  return "a number among the arguments changed";
}

std::string guard_string(const DimGuard& guard) {
  switch (guard.kind) {
    case DimGuard::Kind::equal:
      return to_string(guard.a) + (guard.answer ? " == " : " != ") + to_string(guard.b);
    case DimGuard::Kind::less:
      if (guard.a.is_number()) {
        return to_string(guard.b) + (guard.answer ? " > " : " <= ") + to_string(guard.a);
      }
      return to_string(guard.a) + (guard.answer ? " < " : " >= ") + to_string(guard.b);
    case DimGuard::Kind::value:
      return to_string(guard.a) + " == " + std::to_string(guard.answer);
  }
  return {};
}

bool holds(const DimGuard& guard, const SymbolMap& symbols) {
  const std::int64_t a = evaluate(guard.a, symbols);
  switch (guard.kind) {
    case DimGuard::Kind::equal:
      return (a == evaluate(guard.b, symbols)) == (guard.answer != 0);
    case DimGuard::Kind::less:
      return (a < evaluate(guard.b, symbols)) == (guard.answer != 0);
    case DimGuard::Kind::value:
      return a == guard.answer;
  }
  return false;
}

std::optional<Mismatch> sizes_differ(const Entry& entry, std::span<const Tensor> arguments,
                                     SymbolMap& symbols) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    for (std::size_t axis = 0; axis < entry.shapes[i].size(); ++axis) {
      const Dim expected = entry.shapes[i][axis];
      const std::int64_t size = arguments[i].impl()->shape[axis].number();
      const auto differs = [&](const std::string& was) {
        return Mismatch{"size of argument " + std::to_string(i) + " along axis " +
                            std::to_string(axis) + " was " + was + ", is " + std::to_string(size),
                        {}};
      };
      if (expected.is_number()) {
        if (expected.number() != size) return differs(std::to_string(expected.number()));
      } else if (size < 2) {
        return differs(to_string(expected) + " >= 2");
      } else if (const std::int64_t* bound = symbols.find(expected)) {
        if (*bound != size) return differs(to_string(expected) + " = " + std::to_string(*bound));
      } else {
        symbols.bind(expected, size);
      }
    }
  }
  return std::nullopt;
}

/// True when a tensor that the recording writes shares memory with another one from outside.
bool writes_overlap(const Entry& entry, std::span<const Tensor> arguments) {
  for (std::size_t i = 0; i < entry.writes_argument.size(); ++i) {
    if (!entry.writes_argument[i]) continue;
    if (is_broadcast(*arguments[i].impl())) return true;
    for (std::size_t j = 0; j < arguments.size(); ++j) {
      if (i != j && share_memory(arguments[i], arguments[j])) return true;
    }
    for (const auto& [capture, tracked] : entry.captures) {
      if (share_memory(arguments[i], capture)) return true;
    }
  }
  for (const Tensor& written : entry.written_captures) {
    for (const Tensor& argument : arguments) {
      if (share_memory(written, argument)) return true;
    }
  }
  return false;
}

std::optional<Mismatch> memory_differs(const Entry& entry, std::span<const Tensor> arguments) {
  if (writes_overlap(entry, arguments) != entry.overlap) {
    return Mismatch{entry.overlap ? "no argument shares memory with another tensor now"
                                  : "an argument shares memory with another tensor now, and one "
                                    "of the two is written",
                    {}};
  }
  if (!entry.strides_matter) return std::nullopt;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const TensorImpl& now = *arguments[i].impl();
    const ArgumentLayout& then = entry.layouts[i];
    if ((now.contiguous && then.contiguous) || now.strides == then.strides) continue;
    return Mismatch{"the strides of argument " + std::to_string(i) +
                        " are others now, which decide whether a reshape is a view",
                    {}};
  }
  return std::nullopt;
}

std::optional<Mismatch> mismatch(const Entry& entry, const Key& key,
                                 std::span<const Tensor> arguments, SymbolMap& symbols) {
  if (entry.key != key) return Mismatch{key_difference(entry, key, arguments), {}};
  if (auto sizes = sizes_differ(entry, arguments, symbols)) return sizes;
  if (auto memory = memory_differs(entry, arguments)) return memory;
  for (const DimGuard& guard : entry.guards) {
    if (holds(guard, symbols)) continue;
    std::string now;
    for (const auto& [symbol, value] : symbols.entries())
      now += (now.empty() ? "" : ", ") + to_string(symbol) + " = " + std::to_string(value);
    return Mismatch{"guard " + guard_string(guard) + " failed with " + now, guard.loc};
  }
  for (const StateGuard& guard : entry.states) {
    if (guard.state->peek() == guard.value) continue;
    return Mismatch{guard.state->name() + " was " + std::to_string(guard.value) + ", is " +
                        std::to_string(guard.state->peek()),
                    {}};
  }
  for (const GradNote& note : entry.grads) {
    const bool defined = autograd::grad_of(*note.leaf.impl()).defined();
    if (!note.reads_first || defined == note.defined_before) continue;
    return Mismatch{"a gradient of " + type_string(note.leaf) +
                        (defined ? " is there to add to now" : " was there to add to before"),
                    {}};
  }
  for (const auto& [tensor, tracked] : entry.captures) {
    if (tensor.tracks_grad() == tracked) continue;
    return Mismatch{"a tensor from outside, " + type_string(tensor) + ", " +
                        (tracked ? "no longer requires" : "now requires") + " gradients",
                    {}};
  }
  return std::nullopt;
}

}  // namespace

struct CompiledCore::State {
  CompileOptions options;
  Loc loc;
  mutable std::mutex mutex;
  CancelToken token;
  std::vector<std::unique_ptr<Entry>> entries;
  std::map<Key, std::vector<std::vector<bool>>>
      varying;                   ///< per argument and axis: a size that has varied
  std::map<Key, bool> distinct;  ///< sizes that were equal at first turned out not to be one
  std::int64_t calls = 0, replays = 0, recorded = 0, rechecks = 0, eager = 0;

  FlatResult call(std::span<const Tensor> arguments, std::span<const std::int64_t> numbers,
                  const Body& body);
  FlatResult record_first(const Key& key, std::span<const Tensor> arguments, const Body& body,
                          Mismatch reason);
  FlatResult record_again(Entry& entry, const SymbolMap& symbols, std::span<const Tensor> arguments,
                          const Body& body);
  FlatResult replay(Entry& entry, const SymbolMap& symbols, std::span<const Tensor> arguments,
                    const Body& body);
  std::vector<Shape> shapes_for(const Key& key, std::span<const Tensor> arguments,
                                SymbolMap& hints);
  void learn(Entry& entry, const Path& path) const;
  void check_limits(Entry& entry) const;
};

CompiledCore::CompiledCore(CompileOptions options, Loc loc) : state_(std::make_unique<State>()) {
  state_->options = std::move(options);
  state_->loc = loc;
}

CompiledCore::~CompiledCore() = default;

FlatResult CompiledCore::call(std::span<const Tensor> arguments,
                              std::span<const std::int64_t> numbers, const Body& body) {
  const bool symbolic = std::any_of(arguments.begin(), arguments.end(),
                                    [](const Tensor& t) { return t.is_symbolic(); });
  // Inside another recording or a graph's definition the function is simply part of it.
  if (!Evaluator::is_eager() || symbolic || DetectAnomaly::active()) return body(arguments);
  const std::lock_guard lock(state_->mutex);
  return state_->call(arguments, numbers, body);
}

FlatResult CompiledCore::State::call(std::span<const Tensor> arguments,
                                     std::span<const std::int64_t> numbers, const Body& body) {
  ++calls;
  token.reset();
  const Key key = key_of(arguments, numbers);
  Mismatch reason{"first call", {}};
  bool same_key = false;
  for (auto it = entries.rbegin(); it != entries.rend(); ++it) {
    Entry& entry = **it;
    SymbolMap symbols;
    std::optional<Mismatch> differs = mismatch(entry, key, arguments, symbols);
    if (!differs) {
      ++entry.calls;
      if (!entry.refusal.empty()) {
        ++eager;
        return body(arguments);
      }
      const auto count = static_cast<std::uint64_t>(entry.calls);
      if (options.recheck && std::has_single_bit(count)) {
        ++rechecks;
        return record_again(entry, symbols, arguments, body);
      }
      return replay(entry, symbols, arguments, body);
    }
    // The newest recording of the same kind of call is the one to compare with.
    if (!same_key && (entry.key == key || it == entries.rbegin())) reason = *differs;
    same_key = same_key || entry.key == key;
  }
  if (static_cast<int>(entries.size()) >= options.max_recordings) {
    ++eager;
    return body(arguments);
  }
  return record_first(key, arguments, body, reason);
}

std::vector<Shape> CompiledCore::State::shapes_for(const Key& key,
                                                   std::span<const Tensor> arguments,
                                                   SymbolMap& hints) {
  auto& flags = varying[key];
  if (flags.empty()) {
    for (const Tensor& argument : arguments)
      flags.emplace_back(static_cast<std::size_t>(argument.rank()), false);
  }
  for (const auto& entry : entries) {
    if (entry->key != key || !options.dynamic_sizes) continue;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      for (std::size_t axis = 0; axis < flags[i].size(); ++axis) {
        const Dim before = entry->shapes[i][axis];
        if (before.is_symbolic() || before.number() != arguments[i].impl()->shape[axis].number())
          flags[i][axis] = true;
      }
    }
    SymbolMap bound;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      for (std::size_t axis = 0; axis < flags[i].size(); ++axis) {
        const Dim before = entry->shapes[i][axis];
        const std::int64_t size = arguments[i].impl()->shape[axis].number();
        if (before.is_number()) continue;
        const std::int64_t* first = bound.find(before);
        if (first && *first != size) distinct[key] = true;
        if (!first) bound.bind(before, size);
      }
    }
  }
  std::vector<Shape> shapes;
  int next = 0;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    Shape& shape = shapes.emplace_back(arguments[i].impl()->shape);
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      const std::int64_t size = shape[axis].number();
      if (!flags[i][axis] || size < 2) continue;
      Dim symbol;
      for (const auto& [known, value] : hints.entries()) {
        if (value == size && !distinct[key]) symbol = known;
      }
      if (symbol.is_number()) {
        symbol = Dim::symbol("s" + std::to_string(next++));
        hints.bind(symbol, size);
      }
      shape[axis] = symbol;
    }
  }
  return shapes;
}

void CompiledCore::State::learn(Entry& entry, const Path& path) const {
  for (const DimGuard& guard : path.guards) {
    const bool known =
        std::any_of(entry.guards.begin(), entry.guards.end(), [&](const DimGuard& g) {
          return g.kind == guard.kind && g.a.same_as(guard.a) && g.b.same_as(guard.b);
        });
    if (!known) entry.guards.push_back(guard);
  }
  const auto add_new = [](auto& into, const auto& from, auto same) {
    for (const auto& item : from) {
      if (std::none_of(into.begin(), into.end(),
                       [&](const auto& known) { return same(known, item); }))
        into.push_back(item);
    }
  };
  add_new(entry.states, path.states,
          [](const StateGuard& a, const StateGuard& b) { return a.state == b.state; });
  add_new(entry.grads, path.grads,
          [](const GradNote& a, const GradNote& b) { return a.leaf.is_same(b.leaf); });
  add_new(entry.captures, path.captures,
          [](const auto& a, const auto& b) { return a.first.is_same(b.first); });
  entry.writes_argument.resize(static_cast<std::size_t>(path.arguments), false);
  for (const Write& write : path.writes) {
    if (write.argument >= 0) {
      entry.writes_argument[static_cast<std::size_t>(write.argument)] = true;
    } else if (std::none_of(entry.written_captures.begin(), entry.written_captures.end(),
                            [&](const Tensor& t) { return t.is_same(write.variable); })) {
      entry.written_captures.push_back(write.variable);
    }
  }
  entry.strides_matter = entry.strides_matter || path.strides_matter;
}

void CompiledCore::State::check_limits(Entry& entry) const {
  Loc loc;
  const std::size_t outcomes = entry.tree->most_outcomes(loc);
  if (outcomes <= static_cast<std::size_t>(options.max_outcomes)) return;
  entry.refusal = "the number that the host reads at " + to_string(loc) + " took " +
                  std::to_string(outcomes) + " values (max_outcomes is " +
                  std::to_string(options.max_outcomes) +
                  "); where only a comparison matters, compare the tensor itself, as in "
                  "if (x > 1), and only its answer is recorded";
}

FlatResult CompiledCore::State::record_first(const Key& key, std::span<const Tensor> arguments,
                                             const Body& body, Mismatch reason) {
  auto entry = std::make_unique<Entry>();
  SymbolMap hints;
  entry->key = key;
  entry->shapes = shapes_for(key, arguments, hints);
  entry->reason = std::move(reason.text);
  entry->reason_loc = reason.loc;
  for (std::size_t i = 0; i < arguments.size(); ++i)
    entry->types.push_back(type_string(arguments[i].dtype(), entry->shapes[i]));
  Recorder recorder(entry->shapes, arguments, hints, loc);
  FlatResult result;
  auto path = std::make_shared<Path>();
  {
    const Evaluator::Scope scope(recorder);
    result = body(recorder.arguments());
    *path = recorder.finish(result.tensors, loc);
  }
  ++recorded;
  entry->calls = 1;
  learn(*entry, *path);
  entry->overlap = writes_overlap(*entry, arguments);
  for (const Tensor& argument : arguments)
    entry->layouts.push_back({argument.impl()->strides, argument.impl()->contiguous});
  if (!path->refusal.empty()) {
    entry->refusal =
        path->refusal + (path->refused_at ? " (" + to_string(path->refused_at) + ")" : "");
  } else {
    entry->tree = std::make_shared<DecisionTree>(path);
    entry->skeletons.push_back(result.skeleton);
  }
  entries.push_back(std::move(entry));
  return result;
}

FlatResult CompiledCore::State::record_again(Entry& entry, const SymbolMap& symbols,
                                             std::span<const Tensor> arguments, const Body& body) {
  Recorder recorder(entry.shapes, arguments, symbols, loc);
  FlatResult result;
  auto path = std::make_shared<Path>();
  {
    const Evaluator::Scope scope(recorder);
    result = body(recorder.arguments());
    *path = recorder.finish(result.tensors, loc);
  }
  ++recorded;
  if (!path->refusal.empty()) {
    entry.refusal =
        path->refusal + (path->refused_at ? " (" + to_string(path->refused_at) + ")" : "");
    return result;
  }
  for (const DecisionTree::Leaf& leaf : entry.tree->leaves()) {
    std::size_t common = 0;
    if (auto difference = compare_paths(*leaf.path, *path, common)) {
      const Loc at = difference->second ? difference->second : difference->first;
      throw GraphError(
          "compiled function '" + options.name + "', call " + std::to_string(calls) +
              ": it did something else than when it was recorded: " + difference->text +
              "; it depends on something of the host that a recording cannot see: pass that as an "
              "argument "
              "(a number is a guard, a tensor an input), or compile with recheck = false if it is "
              "meant",
          at);
    }
  }
  learn(entry, *path);
  if (entry.tree->add(path)) {
    entry.skeletons.push_back(result.skeleton);
    check_limits(entry);
  }
  return result;
}

FlatResult CompiledCore::State::replay(Entry& entry, const SymbolMap& symbols,
                                       std::span<const Tensor> arguments, const Body& body) {
  const auto random_state = default_generator().state();
  DecisionTree::Outcome outcome;
  {
    const NoGrad no_tape;
    outcome = entry.tree->run(arguments, &token);
  }
  if (outcome.leaf < 0) {
    default_generator().set_state(random_state);  // the call starts again, eagerly
    return record_again(entry, symbols, arguments, body);
  }
  ++replays;
  attach_backward(entry.tree, outcome, arguments, loc);
  return {std::move(outcome.results), entry.skeletons[static_cast<std::size_t>(outcome.leaf)]};
}

Explanation CompiledCore::explain() const {
  const std::lock_guard lock(state_->mutex);
  Explanation page{.name = state_->options.name,
                   .loc = state_->loc,
                   .calls = state_->calls,
                   .replays = state_->replays,
                   .recorded = state_->recorded,
                   .rechecks = state_->rechecks,
                   .eager = state_->eager,
                   .recordings = {}};
  for (const auto& entry : state_->entries) {
    ExplainedRecording& told = page.recordings.emplace_back();
    told.reason = entry->reason;
    told.loc = entry->reason_loc;
    told.arguments = entry->types;
    told.refusal = entry->refusal;
    for (const DimGuard& guard : entry->guards) {
      told.guards.push_back(guard_string(guard) + (guard.loc ? " at " + to_string(guard.loc) : ""));
    }
    // Layers of one kind have states of one name: all of them hold, told once.
    for (const StateGuard& guard : entry->states) {
      std::string text = guard.state->name() + " == " + std::to_string(guard.value);
      if (std::find(told.guards.begin(), told.guards.end(), text) == told.guards.end())
        told.guards.push_back(std::move(text));
    }
    if (!entry->tree) continue;
    told.ways = static_cast<int>(entry->tree->leaves().size());
    for (const DecisionTree::Leaf& leaf : entry->tree->leaves()) {
      for (const Decision& decision : leaf.path->decisions) {
        auto it = std::find_if(told.decisions.begin(), told.decisions.end(),
                               [&](const ExplainedDecision& d) { return d.loc == decision.loc; });
        if (it == told.decisions.end())
          it = told.decisions.insert(told.decisions.end(), {decision.loc, {}});
        const std::string outcome = outcome_string(decision);
        if (std::find(it->outcomes.begin(), it->outcomes.end(), outcome) == it->outcomes.end())
          it->outcomes.push_back(outcome);
      }
    }
    for (Segment* segment : entry->tree->segments()) {
      const ExecutableStats stats = segment->stats();
      told.compiled = told.compiled || stats.plans > 0;
      told.nodes += stats.nodes;
      told.kernels += stats.kernels;
      told.compile_ms += stats.lower_ms + stats.plan_ms;
    }
  }
  return page;
}

std::vector<CompiledGraph> CompiledCore::graphs() const {
  const auto share = [](const GraphImpl& graph) {
    return std::shared_ptr<const GraphImpl>(
        &graph, [keep = Ref<const GraphImpl>(&graph)](const GraphImpl*) {});
  };
  const std::lock_guard lock(state_->mutex);
  std::vector<CompiledGraph> found;
  for (const auto& entry : state_->entries) {
    if (!entry->tree) continue;
    for (Segment* segment : entry->tree->segments())
      found.push_back({share(segment->graph()), share(segment->executable().lowered())});
  }
  return found;
}

void CompiledCore::cancel() noexcept { state_->token.cancel(); }

void CompiledCore::reset() {
  const std::lock_guard lock(state_->mutex);
  state_->entries.clear();
  state_->varying.clear();
  state_->distinct.clear();
}

}  // namespace dyad::exec
