#include <algorithm>
#include <bit>
#include <chrono>
#include <exception>
#include <utility>

#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/tape.h"
#include "dyad/base/error.h"
#include "dyad/exec/call_memory.h"
#include "dyad/exec/compile_scope.h"
#include "dyad/exec/eager.h"
#include "dyad/exec/executable_draft.h"
#include "dyad/exec/partial_backward.h"
#include "dyad/exec/segment.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/ir/substitute.h"
#include "dyad/ops/views.h"
#include "dyad/runtime/threads.h"

namespace dyad::exec {
namespace {

std::int64_t read_outcome(const Tensor& tensor, Decision::Kind kind, Loc loc) {
  EagerEvaluator& eager = EagerEvaluator::instance();
  switch (kind) {
    case Decision::Kind::boolean:
      return eager.read_bool(tensor, loc) ? 1 : 0;
    case Decision::Kind::integer:
      return eager.read_int(tensor, loc);
    case Decision::Kind::floating:
      return std::bit_cast<std::int64_t>(eager.read_double(tensor, loc));
  }
  return 0;
}

/// A value that was made for that lies there already.
void overwrite(const Tensor& target, const Tensor& value) {
  target.impl()->storage->before_write();
  if (target.raw_data() != value.raw_data()) copy_into(target, value);
  target.impl()->storage->bump_version();
}

/// A gradient that is replaced takes along the rows that came after the recording.
void forget_rows(const Path& path, const GradWrite& write, const Tensor& leaf,
                 std::span<const Tensor> arguments) {
  const autograd::LeafGrad* kept = autograd::leaf_grad_of(*leaf.impl());
  if (!kept || !kept->index.defined() || knows_rows(path.grads, *kept, arguments)) return;
  const bool replaced = std::ranges::any_of(
      path.grads, [&](const GradNote& note) { return note.is_same(write) && !note.reads_first; });
  if (replaced) autograd::set_sparse_grad(leaf, {});
}

/// Of the arguments that are given away, those that nothing looks at after the last operator.
std::uint64_t free_after(const Path& path, std::uint64_t given) {
  if (given == 0 || path.backward || !path.spent.outputs.empty()) return 0;
  const auto keep = [&](Value memory) {
    const auto at = std::ranges::find(path.graph->placeholders(), memory);
    const auto number = at - path.graph->placeholders().begin();
    if (number < 64) given &= ~(std::uint64_t{1} << number);
  };
  for (std::size_t i = 0; i < path.outputs.size(); ++i) {
    if (path.places[i].memory) keep(path.places[i].memory);
    keep(path.outputs[i]);
  }
  for (const Write& write : path.writes) {
    if (!write.variable.defined())
      keep(path.graph->placeholders()[static_cast<std::size_t>(write.argument)]);
    keep(write.value);
  }
  for (const GradWrite& write : path.grad_writes) {
    if (write.argument >= 0)
      keep(path.graph->placeholders()[static_cast<std::size_t>(write.argument)]);
    if (write.place.memory) keep(write.place.memory);
    if (write.value) keep(write.value);
  }
  return given;
}

}  // namespace

/// A way through a function as it was when its compilation was asked for.
struct DecisionTree::WayAhead {
  struct Part {
    std::shared_ptr<Segment> segment;
    Segment::Ahead ahead;

    explicit Part(std::shared_ptr<Segment> of) : segment(std::move(of)), ahead(segment->ahead()) {}
  };
  std::vector<Part> parts;  ///< in the order of the call
  std::optional<Part> backward;
  std::shared_ptr<const Path> path;
  std::vector<Tensor> arguments;  ///< without memory, as the values are
  Environment layouts;
  int threads = 1;  ///< of the calls to come

  void compile(const CancelToken& stop) {
    const CompileScope scope(threads);
    for (const Part& part : parts) {
      part.segment->compile(part.ahead, arguments, layouts);
      stop.check();
    }
    if (!backward) return;
    const BackwardPart& of_path = *path->backward;
    for (std::size_t i = 0; i < of_path.seeds.size(); ++i) {
      const Value output = path->outputs[static_cast<std::size_t>(of_path.outputs[i])];
      if (const auto like = layouts.find(id_of(output)); like != layouts.end()) {
        const Tensor seed = like->second;
        layouts.insert_or_assign(id_of(of_path.seeds[i]), seed);
      }
    }
    backward->segment->compile(backward->ahead, arguments, layouts);
  }
};

DecisionTree::DecisionTree(const std::shared_ptr<const Path>& first, ExecutableOptions options)
    : options_(std::move(options)) {
  root_ = grow(first, 0, newest_);
  finish_leaf(first, newest_);
}

std::unique_ptr<DecisionTree::Fork> DecisionTree::grow(const std::shared_ptr<const Path>& path,
                                                       std::size_t decision,
                                                       std::vector<Fork*>& chain) {
  auto fork = std::make_unique<Fork>();
  fork->path = path;
  const bool last = decision == path->decisions.size();
  const int begin = decision == 0 ? 0 : path->decisions[decision - 1].position;
  const int end = last ? path->end : path->decisions[decision].position;
  fork->segment = std::make_shared<Segment>(
      path, begin, end, last ? std::span<const Write>(path->writes) : std::span<const Write>(),
      options_);
  chain.push_back(fork.get());
  for (const ValueId& external : fork->segment->externals()) need(chain, external);
  if (last) return fork;
  fork->decision = static_cast<int>(decision);
  need(chain, id_of(path->decisions[decision].value));
  fork->next.emplace(path->decisions[decision].outcome, grow(path, decision + 1, chain));
  return fork;
}

void DecisionTree::need(const std::vector<Fork*>& chain, ValueId value) {
  const Node& node = *chain.back()->path->graph->nodes()[static_cast<std::size_t>(value.node)];
  if (node.is("placeholder") || node.is("variable") || node.is("constant"))
    return;  // known from outside
  for (Fork* fork : chain) {
    if (fork->segment->makes(value)) fork->segment->expose(value);
  }
}

void DecisionTree::finish_leaf(const std::shared_ptr<const Path>& path,
                               const std::vector<Fork*>& chain) {
  Leaf leaf{.path = path, .backward = nullptr, .partial = nullptr};
  const auto need_at = [&](const Place& place, Value value) {
    need(chain, id_of(place.memory ? place.memory : value));
  };
  for (std::size_t i = 0; i < path->outputs.size(); ++i) need_at(path->places[i], path->outputs[i]);
  for (const GradWrite& write : path->grad_writes) {
    if (write.value) need_at(write.place, write.value);
  }
  for (const Write& write : path->writes) {
    if (!write.variable.defined()) need(chain, id_of(write.value));
  }
  if (path->backward) {
    const BackwardPart& part = *path->backward;
    leaf.backward =
        std::make_shared<Segment>(path, part.begin, static_cast<int>(path->graph->nodes().size()),
                                  std::span<const Write>(), options_);
    part.for_each_grad([&](Value grad) {
      if (grad.node->is("placeholder") || grad.node->is("variable")) return;
      if (leaf.backward->makes(id_of(grad))) {
        leaf.backward->expose(id_of(grad));
      } else {
        need(chain, id_of(grad));
      }
    });
    for (const ValueId& external : leaf.backward->externals()) need(chain, external);
    leaf.partial = std::make_shared<PartialBackward>(path, leaf.backward);
  }
  write_back(*path, *chain.back()->segment, leaf.backward.get());
  chain.back()->leaf = static_cast<int>(leaves_.size());
  leaves_.push_back(std::move(leaf));
}

void DecisionTree::write_back(const Path& path, Segment& last, const Segment* backward) {
  std::vector<Value> wanted;
  const auto want_at = [&](const Place& place, Value value) {
    wanted.push_back(place.memory ? place.memory : value);
  };
  for (std::size_t i = 0; i < path.outputs.size(); ++i) want_at(path.places[i], path.outputs[i]);
  std::vector<std::pair<Value, Value>> targets;
  for (const Write& write : path.writes) {
    wanted.push_back(write.value);
    if (write.variable.defined()) continue;
    targets.emplace_back(path.graph->placeholders()[static_cast<std::size_t>(write.argument)],
                         write.value);
  }
  for (const GradWrite& write : path.grad_writes) {
    want_at(write.place, write.value);
    const auto capture = std::ranges::find_if(
        path.grad_captures, [&](const GradCapture& c) { return c.is_same(write); });
    if (write.in_place && capture != path.grad_captures.end())
      targets.emplace_back(capture->placeholder, write.value);
  }
  if (path.backward) path.backward->for_each_grad([&](Value grad) { wanted.push_back(grad); });
  for (const auto& [target, value] : targets) {
    const auto& node = *value.node;
    if (node.is("placeholder") || node.is("variable") || node.is("constant")) continue;
    const bool is_read_later = backward && std::ranges::find(backward->externals(), id_of(value)) !=
                                               backward->externals().end();
    if (!is_read_later && last.makes(id_of(value)) && std::ranges::count(wanted, value) == 1)
      last.write_back(id_of(target), id_of(value));
  }
}

bool DecisionTree::add(const std::shared_ptr<const Path>& path) {
  std::vector<Fork*> chain{root_.get()};
  for (std::size_t decision = 0; decision < path->decisions.size(); ++decision) {
    Fork& fork = *chain.back();
    const std::int64_t outcome = path->decisions[decision].outcome;
    if (auto it = fork.next.find(outcome); it != fork.next.end()) {
      chain.push_back(it->second.get());
      continue;
    }
    fork.next.emplace(outcome, grow(path, decision + 1, chain));
    finish_leaf(path, chain);
    newest_ = std::move(chain);
    return true;
  }
  return false;
}

std::shared_ptr<DecisionTree::WayAhead> DecisionTree::way_ahead(
    std::span<const Tensor> arguments) const {
  auto way = std::make_shared<WayAhead>();
  for (const Tensor& argument : arguments) way->arguments.push_back(without_memory(argument));
  for (const Fork* fork : newest_) {
    for (const GradCapture& capture : fork->path->grad_captures) {
      if (const Tensor grad = autograd::grad_of(*capture.in(arguments).impl()); grad.defined())
        way->layouts.insert_or_assign(id_of(capture.placeholder), without_memory(grad));
    }
    way->parts.emplace_back(fork->segment);
  }
  const Leaf& leaf = leaves_.back();
  if (leaf.backward) way->backward.emplace(leaf.backward);
  way->path = leaf.path;
  way->threads = runtime::team_size();
  return way;
}

void DecisionTree::compile_ahead(std::span<const Tensor> arguments) {
  std::erase_if(tasks_, [](const auto& task) { return task->over(); });
  tasks_.push_back(std::make_unique<runtime::BackgroundTask>(
      [way = way_ahead(arguments)](const CancelToken& stop) { way->compile(stop); }));
}

void DecisionTree::compile_now(std::span<const Tensor> arguments) const {
  way_ahead(arguments)->compile({});
}

bool DecisionTree::ready() const {
  // On a busy machine idle priority may get no time at all: who waits leaves it a core.
  constexpr auto kPatience = std::chrono::seconds(1);
  return std::ranges::all_of(tasks_, [&](const auto& task) {
    if (task->over()) return true;
    if (task->age() < kPatience) return false;
    task->settle();
    return true;
  });
}

void DecisionTree::wait() const {
  for (const auto& task : tasks_) task->wait();
}

void DecisionTree::forget_replaced_gradients() const {
  if (root_->decision >= 0) return;  // another way may read them
  const Path& path = *leaves_[static_cast<std::size_t>(root_->leaf)].path;
  for (const GradWrite& write : path.grad_writes) {
    const bool read = std::ranges::any_of(
        path.grad_captures, [&](const GradCapture& capture) { return capture.is_same(write); });
    if (write.argument >= 0 || write.in_place || read) continue;
    if (autograd::LeafGrad* kept = autograd::leaf_grad_of(*write.leaf.impl())) kept->grad = {};
  }
}

DecisionTree::Outcome DecisionTree::run(std::span<const Tensor> arguments,
                                        const CancelToken* cancel,
                                        const std::vector<std::size_t>* allowed,
                                        std::uint64_t given_away) {
  forget_replaced_gradients();
  Outcome outcome;
  Fork* fork = root_.get();
  for (;;) {
    // Beyond what paths share the same number stands for something else in each of them.
    for (const GradCapture& capture : fork->path->grad_captures) {
      const Tensor grad = autograd::grad_of(*capture.in(arguments).impl());
      if (grad.defined()) outcome.env.insert_or_assign(id_of(capture.placeholder), grad);
    }
    const bool ends_here = fork->decision < 0;
    if (ends_here && allowed &&
        std::ranges::find(*allowed, static_cast<std::size_t>(fork->leaf)) == allowed->end())
      return outcome;
    Executable& compiled = fork->segment->executable();  // may throw, but no error of an operator
    try {
      fork->segment->run(compiled, arguments, outcome.env, cancel,
                         ends_here ? free_after(*fork->path, given_away) : 0);
    } catch (const CancelledError&) {
      throw;
    } catch (const Error&) {
      outcome.error = std::current_exception();
      return outcome;
    }
    if (ends_here) break;
    const Decision& decision = fork->path->decisions[static_cast<std::size_t>(fork->decision)];
    const Tensor read = look_up(*fork->path, decision.value, arguments, outcome.env);
    const std::int64_t number = read_outcome(read, decision.kind, decision.loc);
    auto next = fork->next.find(number);
    if (next == fork->next.end()) {
      outcome.unseen = outcome_string(number, decision.kind);
      outcome.unseen_at = decision.loc;
      for (const auto& [known, way] : fork->next) {
        outcome.seen += (outcome.seen.empty() ? "" : ", ") + outcome_string(known, decision.kind);
      }
      return outcome;
    }
    fork = next->second.get();
  }
  outcome.leaf = fork->leaf;
  const Path& path = *leaves_[static_cast<std::size_t>(fork->leaf)].path;
  for (const auto& [argument, on] : path.switched)
    arguments[static_cast<std::size_t>(argument)].impl()->requires_grad = on;
  CallMemory memory(path, arguments, outcome.env);
  for (std::size_t i = 0; i < path.outputs.size(); ++i) {
    const auto same_as = static_cast<std::size_t>(path.same_as[i]);
    if (same_as != i) {
      outcome.results.push_back(outcome.results[same_as]);
      continue;
    }
    Tensor result = memory.tensor_at(path.places[i], path.outputs[i]);
    // The tape of the call begins at an object of its own: the caller's is its input.
    if (path.places[i].outside && path.tracked[i] && result.tracks_grad() && !result.is_leaf())
      result = Tensor(make_ref<TensorImpl>(*result.impl()));
    // A detached tensor has the value of the one that tracks gradients.
    const bool has_tape = path.backward || !path.spent.outputs.empty();
    if (!path.tracked[i] && (has_tape || result.tracks_grad())) result = detach(result);
    outcome.results.push_back(std::move(result));
  }
  for (const Write& write : path.writes) {
    if (write.variable.defined()) continue;
    const Tensor& argument = arguments[static_cast<std::size_t>(write.argument)];
    overwrite(argument, look_up(path, write.value, arguments, outcome.env));
  }
  for (const GradWrite& write : path.grad_writes) {
    const Tensor& leaf = write.in(arguments);
    if (write.in_place) {
      overwrite(autograd::grad_of(*leaf.impl()),
                look_up(path, write.value, arguments, outcome.env));
      continue;
    }
    Tensor value = write.value ? memory.tensor_at(write.place, write.value) : Tensor();
    // A result that is put on the tape next takes no gradient along.
    if (value.defined() && !write.place.outside &&
        std::ranges::any_of(outcome.results, [&](const Tensor& r) { return r.is_same(value); }))
      value = detach(value);
    forget_rows(path, write, leaf, arguments);
    if (value.defined() || autograd::leaf_grad_of(*leaf.impl())) {
      autograd::make_leaf_grad(*leaf.impl()).grad = value;  // parts of a sparse one, each alone
    }
  }
  return outcome;
}

std::vector<autograd::GradientPart> DecisionTree::backward(const Leaf& from, Segment& part,
                                                           std::span<const Tensor> arguments,
                                                           Environment env,
                                                           std::span<const Tensor> seeds,
                                                           const SymbolMap& sizes) {
  const BackwardPart& recorded = *from.path->backward;
  for (std::size_t i = 0; i < seeds.size(); ++i) {
    if (seeds[i].defined()) env.insert_or_assign(id_of(recorded.seeds[i]), seeds[i]);
  }
  part.run(part.executable(), arguments, env, nullptr);
  std::vector<autograd::GradientPart> grads;
  const auto tensor_of = [&](Value value) {
    if (!value) return Tensor();
    const bool is_made = from.backward->makes(id_of(value)) && !value.node->is("variable");
    if (is_made && !env.contains(id_of(value))) return Tensor();  // it does not come
    return look_up(*from.path, value, arguments, env);
  };
  for (const auto* values : {&recorded.leaf_grads, &recorded.argument_grads}) {
    std::vector<autograd::GradientPart> given;
    for (const BackwardPart::Part& one : *values) {
      given.push_back({tensor_of(one.whole), {}});
      if (const Tensor rows = tensor_of(one.rows); rows.defined())
        given.back().rows = {tensor_of(one.index), rows};
    }
    const auto add = [&](std::size_t i, std::span<const std::int64_t> steps) {
      grads.push_back(given[i]);
      if (!given[i].whole.defined()) return;
      for (const std::int64_t step : steps)
        grads.back().whole = select(grads.back().whole, 0, step);
    };
    BackwardPart::for_each_of(*values, BackwardPart::steps_at(*values, sizes), add);
  }
  return grads;
}

std::vector<Segment*> DecisionTree::segments() const {
  std::vector<Segment*> found;
  std::vector<const Fork*> forks{root_.get()};
  for (std::size_t i = 0; i < forks.size(); ++i) {
    found.push_back(forks[i]->segment.get());
    for (const auto& [outcome, next] : forks[i]->next) forks.push_back(next.get());
  }
  return found;
}

std::size_t DecisionTree::most_outcomes(Loc& loc) const {
  std::size_t most = 0;
  std::vector<const Fork*> forks{root_.get()};
  for (std::size_t i = 0; i < forks.size(); ++i) {
    const Fork& fork = *forks[i];
    if (fork.next.size() > most) {
      most = fork.next.size();
      loc = fork.path->decisions[static_cast<std::size_t>(fork.decision)].loc;
    }
    for (const auto& [outcome, next] : fork.next) forks.push_back(next.get());
  }
  return most;
}

}  // namespace dyad::exec
