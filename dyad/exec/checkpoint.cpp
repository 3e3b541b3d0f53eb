#include "dyad/exec/checkpoint.h"

#include <algorithm>
#include <array>
#include <memory>
#include <unordered_map>
#include <unordered_set>

#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/gradients.h"
#include "dyad/base/error.h"
#include "dyad/core/autocast_switch.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/exec/attached_gradient.h"
#include "dyad/exec/control_flow_region.h"
#include "dyad/exec/forwarding_evaluator.h"
#include "dyad/exec/graph_of_call.h"
#include "dyad/ir/node_gradient.h"
#include "dyad/ir/op.h"
#include "dyad/ops/views.h"

namespace dyad::exec {
namespace {

constexpr ArgInfo kX[] = {{"x"}};

/// Where a computation starts again: compilers share what is computed from the same values, but not
/// this with that.
struct Recompute {
  using Attrs = NoAttrs;
  static constexpr Schema schema{.name = "recompute",
                                 .inputs = kX,
                                 .outputs = kX,
                                 .doc = "x itself, from which things are computed once more."};
  static Types infer(const InferIn& in, const Attrs&) { return {in[0]}; }
  static ViewLayout view(const Attrs&, const Shape& in, const Strides& strides, const Shape&) {
    return {.shape = in, .strides = strides};
  }
  static void grad(Gradient& g, const Attrs&) { g.set(0, g.grad()); }
  static void to_onnx(OnnxEmitter& e, const Attrs&) { e.output(0, e.input(0)); }
};

// --- in a static graph: the nodes between sources and results are repeated
// ------------------------

struct CheckpointAttrs {
  std::int64_t sources = 0;
};

bool starts_nothing(const Node& node) {
  return node.op().kind == BodyKind::structural || node.op().effect != Effect::pure;
}

/// The nodes that `results` need, down to `sources`, in program order.
std::vector<Node*> nodes_between(std::span<const Value> sources, std::span<const Value> results) {
  std::unordered_set<Value, ValueHash> stop(sources.begin(), sources.end());
  std::unordered_set<Node*> seen;
  std::vector<Node*> found;
  const auto visit = [&](Value v) {
    if (!v || stop.contains(v) || starts_nothing(*v.node)) return;
    if (seen.insert(v.node).second) found.push_back(v.node);
  };
  for (const Value v : results) visit(v);
  for (std::size_t i = 0; i < found.size(); ++i) {
    for (const Value v : found[i]->inputs()) visit(v);
  }
  std::ranges::sort(found, {}, &Node::id);
  return found;
}

struct Checkpoint {
  using Attrs = CheckpointAttrs;
  static constexpr Schema schema{
      .name = "checkpoint",
      .inputs = kAnyTensors,
      .outputs = kAnyTensors,
      .doc =
          "The tensors after the first ones, the sources, from which backward computes them anew.",
      .saved_inputs = 1};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    return Types(in.inputs.begin() + attrs.sources, in.inputs.end());
  }
  static std::vector<Tensor> expand(const Attrs& attrs, TensorRefs in, Loc) {
    std::vector<Tensor> results;
    for (const Tensor* t : in.subspan(static_cast<std::size_t>(attrs.sources))) {
      results.push_back(*t);
    }
    return results;
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    const auto inputs = dynamic_cast<NodeGradient&>(g).node().inputs();
    const auto count = static_cast<std::size_t>(attrs.sources);
    const auto sources = inputs.first(count), results = inputs.subspan(count);
    const Ref<GraphImpl>& graph = graph_value(g.input(0))->graph;
    std::unordered_map<Value, Value, ValueHash> now;
    std::vector<Tensor> starts;
    std::vector<int> wanted;
    for (std::size_t i = 0; i < count; ++i) {
      const int at = static_cast<int>(i);
      const Tensor start = restart(g.input(at));
      now[sources[i]] = graph_value(start)->value;
      if (!g.needs(at)) continue;
      starts.push_back(start);
      wanted.push_back(at);
    }
    const auto current = [&](Value v) {
      const auto found = now.find(v);
      return found == now.end() ? v : found->second;
    };
    for (Node* node : nodes_between(sources, results)) {
      std::vector<Value> changed;
      for (const Value v : node->inputs()) changed.push_back(current(v));
      if (std::ranges::equal(changed, node->inputs())) continue;
      Node* again = graph->append_copy(*node, changed);
      for (int i = 0; i < static_cast<int>(node->types().size()); ++i) {
        now[node->output(i)] = again->output(i);
      }
    }
    std::vector<Tensor> outputs, grads;
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (!g.has_grad(static_cast<int>(i))) continue;
      outputs.push_back(symbolic_tensor(graph, current(results[i])));
      grads.push_back(g.grad(static_cast<int>(i)));
    }
    const std::vector<Tensor> found = autograd::graph_gradients(outputs, grads, starts, {});
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (found[i].defined()) g.set(wanted[i], found[i]);
    }
  }
};

/// What `fn` used of the graph, beside its inputs: the sources of what the nodes from `first` on
/// compute.
std::vector<Tensor> captured(const Ref<GraphImpl>& graph, std::span<const Value> inputs,
                             int first) {
  std::unordered_set<Value, ValueHash> seen(inputs.begin(), inputs.end());
  std::vector<Tensor> found;
  for (const auto& node : graph->nodes()) {
    if (node->id() < first) continue;
    for (const Value v : node->inputs()) {
      if (!v || (v.node->id() >= first && !starts_nothing(*v.node))) continue;
      if (v.node->op().effect == Effect::random || v.node->is("constant")) continue;
      if (seen.insert(v).second) found.push_back(symbolic_tensor(graph, v));
    }
  }
  return found;
}

std::vector<Tensor> checkpoint_in_graph(GraphEvaluator& evaluator, const TensorFunction& fn,
                                        std::span<const Tensor> inputs, Loc loc) {
  const Ref<GraphImpl>& graph = evaluator.graph();
  auto* const region = dynamic_cast<RegionEvaluator*>(&evaluator);
  std::vector<Tensor> given, sources;
  std::vector<Value> values;
  for (const Tensor& input : inputs) {
    given.push_back(region != nullptr ? region->inside(input, loc) : input);
    values.push_back(evaluator.value_of(given.back(), nullptr, loc));
    sources.push_back(symbolic_tensor(graph, values.back()));
  }
  const int first = graph->nodes().empty() ? 0 : graph->nodes().back()->id() + 1;
  const std::vector<Tensor> results = fn(given);
  const std::vector<Tensor> more = captured(graph, values, first);
  sources.insert(sources.end(), more.begin(), more.end());
  const CheckpointAttrs attrs{static_cast<std::int64_t>(sources.size())};
  std::vector<const Tensor*> refs;
  for (const Tensor& source : sources) refs.push_back(&source);
  for (const Tensor& result : results) refs.push_back(&result);
  std::vector<Tensor> outputs(results.size());
  evaluator.apply(op_info<Checkpoint>, refs, &attrs, outputs, loc);
  return outputs;
}

// --- on data: the function is called again
// --------------------------------------------------------

/// What the first call used from outside, and drew.
struct Learned {
  std::vector<Tensor> captures;  ///< tensors that track gradients
  std::vector<Tensor> sources;   ///< what stood for them, in a checkpoint that is repeated
  std::vector<std::vector<Tensor>> drawn;  ///< what each random operator gave
};

/// Which memory was made while a function ran. Memory from outside is alive all the while, so that
/// an address cannot mean both.
class Made {
 public:
  void note(TensorRefs inputs, std::span<const Tensor> outputs) {
    for (const Tensor& output : outputs) {
      if (!output.is_concrete()) continue;
      const Storage* storage = output.impl()->storage.get();
      const bool is_view = std::ranges::any_of(inputs, [&](const Tensor* input) {
        return input->is_concrete() && input->impl()->storage.get() == storage;
      });
      if (!is_view) storages_.insert(storage);
    }
  }
  [[nodiscard]] bool here(const Tensor& tensor) const {
    return storages_.contains(tensor.impl()->storage.get());
  }

 private:
  std::unordered_set<const Storage*> storages_;
};

/// The first call: without the tape, so that what tracks gradients comes from outside.
class Learner final : public ForwardingEvaluator {
 public:
  Learned learned;

  void apply(const OpInfo& op, TensorRefs inputs, const void* attrs, std::span<Tensor> outputs,
             Loc loc) override {
    for (const Tensor* input : inputs) {
      if (input->defined() && input->tracks_grad() && seen_.insert(input->impl()).second) {
        capture(*input);
      }
    }
    to().apply(op, inputs, attrs, outputs, loc);
    if (op.effect == Effect::random) learned.drawn.emplace_back(outputs.begin(), outputs.end());
  }

  void capture(const Tensor& tensor) {
    learned.captures.push_back(tensor);
    learned.sources.push_back(stand_in(tensor));
  }

 private:
  std::unordered_set<const TensorImpl*> seen_;
};

/// A later call, with stand-ins for the tensors from outside.
class Repeater final : public ForwardingEvaluator {
 public:
  Repeater(const Learned& learned, std::span<const Tensor> stand_ins) : learned_(learned) {
    for (std::size_t i = 0; i < stand_ins.size(); ++i) {
      stand_in_.emplace(learned.captures[i].impl(), stand_ins[i]);
    }
  }

  void apply(const OpInfo& op, TensorRefs inputs, const void* attrs, std::span<Tensor> outputs,
             Loc loc) override {
    if (op.effect == Effect::random) {
      if (drawn_ == learned_.drawn.size()) fail_differs(loc);
      std::ranges::copy(learned_.drawn[drawn_++], outputs.begin());
      return;
    }
    std::vector<const Tensor*> refs(inputs.begin(), inputs.end());
    for (const Tensor*& ref : refs) ref = &inside(*ref);
    to().apply(op, refs, attrs, outputs, loc);
    made_.note(refs, outputs);
  }

  /// What stands for a tensor, which may be from outside.
  [[nodiscard]] const Tensor& inside(const Tensor& tensor) const {
    const auto found = stand_in_.find(tensor.impl());
    return found == stand_in_.end() ? tensor : found->second;
  }
  Tensor stand_in(const Tensor& tensor) override {
    return ForwardingEvaluator::stand_in(inside(tensor));
  }

  // What was drawn is known.
  void set_random_state(const RandomKey&, Loc) override {}

  void write(const Tensor& target, const Tensor& value, Loc loc) override {
    if (made_.here(target)) to().write(target, value, loc);
  }

 private:
  [[noreturn]] static void fail_differs(Loc loc) {
    throw GradError(
        "checkpoint: computed again, the function draws more random numbers than at first; it must "
        "do the same each time it is called",
        loc.user());
  }

  const Learned& learned_;
  std::unordered_map<const TensorImpl*, Tensor> stand_in_;
  std::size_t drawn_ = 0;
  Made made_;
};

/// Computes again and differentiates that.
class RecomputeRule {
 public:
  RecomputeRule(TensorFunction fn, std::size_t inputs, Learned learned)
      : fn_(std::move(fn)),
        inputs_(inputs),
        learned_(std::make_shared<Learned>(std::move(learned))) {}

  void operator()(Gradient& g) const {
    const bool differentiable = grad_enabled();
    std::vector<Tensor> starts, wanted;
    std::vector<int> positions;
    for (int i = 0; i < g.input_count(); ++i) {
      starts.push_back(start(g, i, differentiable));
      if (!g.needs(i)) continue;
      wanted.push_back(starts.back());
      positions.push_back(i);
    }
    const GradMode on(true);
    std::vector<Tensor> results;
    {
      Repeater repeater(*learned_, std::span(starts).subspan(inputs_));
      const Evaluator::Scope current(repeater);
      results = fn_(std::span(starts).first(inputs_));
      for (Tensor& result : results) result = repeater.inside(result);
    }
    std::vector<Tensor> outputs, grads;
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (!g.has_grad(static_cast<int>(i)) || !results[i].tracks_grad()) continue;
      outputs.push_back(results[i]);
      grads.push_back(g.grad(static_cast<int>(i)));
    }
    if (outputs.empty()) return;
    const std::vector<Tensor> found = Evaluator::current().backward(
        outputs, grads, wanted, /*retain_graph=*/false, differentiable, Loc());
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (found[i].defined()) g.set(positions[i], found[i]);
    }
  }

 private:
  /// Source i, to compute from again: apart from its past, unless that is to be differentiated too.
  static Tensor start(Gradient& g, int i, bool differentiable) {
    const Tensor& source = g.input(i);
    if (differentiable && source.tracks_grad()) return restart(source);
    const NoGrad apart;
    Tensor made = restart(source);
    if (g.needs(i)) made.requires_grad();
    return made;
  }

  TensorFunction fn_;
  std::size_t inputs_;
  std::shared_ptr<const Learned> learned_;
};

}  // namespace

std::vector<Tensor> run_checkpoint(const TensorFunction& fn, std::span<const Tensor> inputs,
                                   Loc loc) {
  for (const Tensor& input : inputs) {
    if (!input.defined()) throw ValueError("checkpoint: an input is an undefined tensor", loc);
  }
  if (const GraphOfCall graph(inputs); graph.evaluator()) {
    return checkpoint_in_graph(*graph.evaluator(), fn, inputs, loc);
  }
  if (!grad_enabled()) return fn(inputs);
  Learner learner;
  std::vector<Tensor> results;
  {
    const NoGrad nothing_kept;
    const Evaluator::Scope current(learner);
    std::vector<Tensor> plain;
    for (const Tensor& input : inputs) plain.push_back(detach(input));
    results = fn(plain);
  }
  // A result may be a tensor from outside as it is.
  for (const Tensor& result : results) {
    if (!result.defined()) {
      throw ValueError("checkpoint: the function gave an undefined tensor", loc);
    }
    if (result.tracks_grad()) learner.capture(result);
  }
  const TensorFunction again = [fn, dtype = autocast_dtype()](std::span<const Tensor> given) {
    const AutocastSwitch as_at_first(dtype);
    return fn(given);
  };
  std::vector<Tensor> sources(inputs.begin(), inputs.end());
  sources.insert(sources.end(), learner.learned.sources.begin(), learner.learned.sources.end());
  const std::vector<bool> kept(sources.size(), true), no_results(results.size(), false);
  return attach_gradient("checkpoint", sources, kept, results, no_results,
                         RecomputeRule(again, inputs.size(), std::move(learner.learned)), loc);
}

Tensor restart(const Tensor& x, Loc loc) { return apply<Recompute>({}, loc, x); }

void register_checkpoint_ops() {
  static const bool done = [] {
    const std::array<const OpInfo*, 2> rows{&op_info<Recompute>, &op_info<Checkpoint>};
    register_ops(rows);
    return true;
  }();
  static_cast<void>(done);
}

}  // namespace dyad::exec
