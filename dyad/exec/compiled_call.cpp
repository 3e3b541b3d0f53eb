#include "dyad/exec/compiled_call.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/tape.h"
#include "dyad/base/error.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/exec/executable_bind.h"
#include "dyad/exec/partial_backward.h"
#include "dyad/ir/gradient.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/ir/row_gradient.h"
#include "dyad/ops/table_of_rows.h"

namespace dyad::exec {
namespace {

/// What the backward part of one replayed call needs.
struct SavedCall {
  DecisionTree::Leaf leaf;
  std::vector<Tensor> arguments;
  Environment env;
  /// Memory that it reads in place, as it was.
  struct Watched {
    Tensor tensor;
    std::uint32_t version;
    ValueId value = {};  ///< of an argument, or of what the call made
  };
  std::vector<Watched> watched;
  TapeNeedFlag need;
  SymbolMap sizes = {};  ///< where there are loops on the tape
  /// Where it ran padded: how, and how its seeds and the gradients of its arguments lie.
  std::optional<BucketedCalls::Call> padded = {};
  std::vector<PaddedLayout> seeds = {}, argument_grads = {};
};

using SavedCallPtr = std::shared_ptr<SavedCall>;

/// Attributes that no graph shows: a handle of what a rule needs.
template <class Handle>
constexpr AttrsInfo kHandleInfo{
    .size = sizeof(Handle),
    .make = [] { return static_cast<void*>(new Handle()); },
    .copy =
        [](const void* attrs) {
          return static_cast<void*>(new Handle(*static_cast<const Handle*>(attrs)));
        },
    .destroy = [](void* attrs) noexcept { delete static_cast<Handle*>(attrs); },
    .visit = [](void*, AttrVisitor&) {},
};

/// What a pass throws that comes too late for its call.
[[noreturn]] void fail_too_late(const std::string& what, const std::string& way_out) {
  throw GradError(what +
                      ", of a call that was replayed before any had been asked for: its next "
                      "calls run eagerly and " +
                      way_out,
                  Loc().user());
}

/// Whether a pass needs the elements of what is `value` in the call, or of the captured `tensor`.
bool looks_at(const Segment& segment, const BackwardPart& part, ValueId value,
              const Tensor& tensor) {
  bool is_grad = false;
  part.for_each_grad([&](Value grad) {
    is_grad =
        is_grad || id_of(grad) == value ||
        (grad.node->is("variable") && grad.node->attrs_as<VariableAttrs>().tensor.is_same(tensor));
  });
  return is_grad || segment.looks_at(value, tensor);
}

void differentiate(Gradient& g) {
  const SavedCall& call = *g.attrs<SavedCallPtr>();
  if (grad_enabled()) {
    *call.need = TapeNeed::twice;
    fail_too_late("second derivatives of a compiled function from outside",
                  "have them; or take the gradients inside the compiled function, with "
                  "create_graph");
  }
  const BackwardPart& part = *call.leaf.path->backward;
  std::shared_ptr<Segment> segment = call.leaf.backward;
  std::vector<Tensor> seeds;
  std::vector<ValueId> given;
  for (std::size_t i = 0; i < part.outputs.size(); ++i) {
    const int at = static_cast<int>(i);
    seeds.push_back(g.has_grad(at) ? g.grad(at) : Tensor());
    if (!seeds[i].defined()) continue;
    given.push_back(id_of(part.seeds[i]));
    if (call.padded && call.seeds[i].is_padded())
      seeds[i] = put_in_padding(seeds[i], call.seeds[i], call.padded->exact, call.padded->padded);
  }
  if (given.size() < seeds.size()) segment = call.leaf.partial->part_for(given, call.sizes).segment;
  for (const auto& [tensor, version, value] : call.watched) {
    const std::uint32_t now = tensor.impl()->storage->version();
    if (now == version || !looks_at(*segment, part, value, tensor)) continue;
    throw GradError(
        "backward of a compiled function: " + type_string(tensor) +
            ", which its gradient reads, was overwritten in place after the call (version " +
            std::to_string(version) + " then, " + std::to_string(now) +
            " now); call backward() before the write",
        Loc().user());
  }
  std::vector<autograd::GradientPart> grads =
      DecisionTree::backward(call.leaf, *segment, call.arguments, call.env, seeds, call.sizes);
  for (std::size_t i = 0; i < call.argument_grads.size(); ++i) {
    // They come last, one each.
    Tensor& grad = grads[grads.size() - call.argument_grads.size() + i].whole;
    if (grad.defined() && call.argument_grads[i].is_padded())
      grad =
          cut_from_padding(grad, call.argument_grads[i], call.padded->exact, call.padded->padded);
  }
  auto* const by_rows = dynamic_cast<RowGradient*>(&g);
  for (std::size_t i = 0; i < grads.size(); ++i) {
    const int at = static_cast<int>(i);
    if (!g.needs(at)) continue;
    const SparseRows& rows = grads[i].rows;
    if (!rows.defined()) {
      g.set(at, grads[i].whole);
    } else if (by_rows && by_rows->takes_rows(at)) {
      by_rows->set_rows(at, rows.index, rows.rows);
    } else {
      g.set(at, ops::table_of_rows(rows.index, rows.rows, g.input_shape(at)[0], Loc().user()));
    }
  }
}

/// Of results whose tape the call has used up, or made useless by a write.
void refuse_spent(Gradient& g) {
  *g.attrs<TapeNeedFlag>() = TapeNeed::spent;
  fail_too_late(
      "gradients of a result of a compiled function, whose tape a backward pass inside it has used "
      "up, or a write in place to what it keeps",
      "say which; pass retain_graph = true to that pass, or write to a clone()");
}

constexpr ArgInfo kCallInputs[] = {{.name = "inputs", .variadic = true}};
constexpr OpInfo kCompiledCall{.name = "compiled_call",
                               .doc = "A replayed call of a compiled function.",
                               .kind = BodyKind::opaque,
                               .inputs = kCallInputs,
                               .attrs = &kHandleInfo<SavedCallPtr>,
                               .grad = differentiate};
constexpr OpInfo kSpentCall{.name = "spent_call",
                            .doc = "A replayed call of a compiled function, without its tape.",
                            .kind = BodyKind::opaque,
                            .inputs = kCallInputs,
                            .attrs = &kHandleInfo<TapeNeedFlag>,
                            .grad = refuse_spent};

/// Puts results on the tape that cannot be differentiated: they track gradients all the same.
void attach_spent(const SpentPart& spent, std::span<const Tensor> results,
                  std::span<const Tensor> arguments, const TapeNeedFlag& need, Loc loc) {
  if (spent.outputs.empty()) return;
  std::vector<const Tensor*> inputs;
  inputs.reserve(spent.leaves.size() + spent.arguments.size());
  for (const Tensor& leaf : spent.leaves) inputs.push_back(&leaf);
  for (const int argument : spent.arguments)
    inputs.push_back(&arguments[static_cast<std::size_t>(argument)]);
  std::vector<Tensor> outputs;
  outputs.reserve(spent.outputs.size());
  for (const int output : spent.outputs)
    outputs.push_back(results[static_cast<std::size_t>(output)]);
  autograd::record(kSpentCall, inputs, &need, outputs, loc);
}

/// `sizes` and those that only the data of this call told, by what they made.
SymbolMap with_told(SymbolMap sizes, const DecisionTree::Leaf& leaf, const Environment& made) {
  for (const ValueId& value : leaf.backward->externals()) {
    const auto known = made.find(value);
    if (known == made.end()) continue;
    const Node& node = *leaf.path->graph->nodes()[static_cast<std::size_t>(value.node)];
    bind_told(node.types()[static_cast<std::size_t>(value.index)].shape(), known->second, sizes);
  }
  return sizes;
}

/// Marks memory that eagerly has a view on the tape.
void mark_tracked_views(const Path& path, std::span<const Tensor> results) {
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Place& place = path.places[i];
    if (path.tracked[i] && (place.outside ? !place.views.empty() : place.tracked_view))
      results[i].impl()->storage->mark_tracked_view();
  }
}

}  // namespace

void watch_backward(const Path& path, std::span<Tensor> results, const TapeNeedFlag& need,
                    Loc loc) {
  if (!grad_enabled()) return;
  const auto watch = [&](int output, bool spent) {
    const auto at = static_cast<std::size_t>(output);
    if (path.outputs[at].node->is("variable")) return;  // not made here
    // No node of its own: gradients are added up in the order of the tape.
    results[at].register_hook(
        [need, spent](const Tensor& gradient) {
          if (spent) {
            *need = TapeNeed::spent;
          } else if (grad_enabled()) {
            *need = TapeNeed::twice;
          }
          return gradient;
        },
        loc);
  };
  if (path.backward) {
    for (const int output : path.backward->outputs) watch(output, false);
  }
  for (const int output : path.spent.outputs) watch(output, true);
}

void attach_backward(const DecisionTree& tree, DecisionTree::Outcome& outcome,
                     std::span<const Tensor> arguments, const SymbolMap& sizes,
                     const TapeNeedFlag& need, Loc loc, const BucketedCalls* calls,
                     const BucketedCalls::Call* padded) {
  const DecisionTree::Leaf& leaf = tree.leaves()[static_cast<std::size_t>(outcome.leaf)];
  if (!grad_enabled()) return;
  mark_tracked_views(*leaf.path, outcome.results);
  attach_spent(leaf.path->spent, outcome.results, arguments, need, loc);
  if (!leaf.backward) return;
  const BackwardPart& part = *leaf.path->backward;
  auto call = std::make_shared<SavedCall>();
  call->leaf = leaf;
  call->need = need;
  call->arguments.assign(arguments.begin(), arguments.end());
  if (padded) {
    call->arguments = padded->arguments;
    call->padded = *padded;
    call->seeds = calls->way(outcome.leaf).seeds;
    call->argument_grads = calls->way(outcome.leaf).argument_grads;
  }
  const auto watch = [&](const Tensor& tensor, ValueId value = {}) {
    call->watched.push_back({tensor, tensor.impl()->storage->version(), value});
  };
  // By handles of its own: a result that it keeps must not keep the tape node, which keeps the
  // call.
  const auto keep = [&](ValueId value) {
    const auto it = outcome.env.find(value);
    if (it == outcome.env.end() || call->env.contains(value)) return;
    watch(call->env.try_emplace(value, Tensor(make_ref<TensorImpl>(*it->second.impl())))
              .first->second,
          value);
  };
  for (const ValueId& external : leaf.backward->externals()) keep(external);
  part.for_each_grad([&](Value grad) {
    if (grad.node->is("variable")) {
      watch(grad.node->attrs_as<VariableAttrs>().tensor);
    } else {
      keep(id_of(grad));
    }
  });
  for (std::size_t i = 0; i < arguments.size(); ++i)
    watch(arguments[i], id_of(leaf.path->graph->placeholders()[i]));
  for (const Value& variable : leaf.backward->graph().variables())
    watch(variable.node->attrs_as<VariableAttrs>().tensor);
  std::vector<const Tensor*> inputs;
  const auto is_stacked = [](const BackwardPart::Part& one) { return one.loops > 0; };
  const bool any_stacked = std::ranges::any_of(part.leaf_grads, is_stacked) ||
                           std::ranges::any_of(part.argument_grads, is_stacked);
  if (any_stacked || (part.seeds.size() > 1 && leaf.partial->has_loops()))
    call->sizes = with_told(sizes, leaf, outcome.env);
  const auto add = [&](std::span<const BackwardPart::Part> parts, const auto& input) {
    BackwardPart::for_each_of(
        parts, BackwardPart::steps_at(parts, call->sizes),
        [&](std::size_t i, std::span<const std::int64_t>) { inputs.push_back(input(i)); });
  };
  // Stands for the leaves that the call made, whose gradients nobody asks for: results track them.
  Tensor inner = make_empty(DType::f32, {0});
  inner.requires_grad();
  add(part.leaf_grads,
      [&](std::size_t i) { return part.leaves[i].defined() ? &part.leaves[i] : &inner; });
  add(part.argument_grads,
      [&](std::size_t i) { return &arguments[static_cast<std::size_t>(part.arguments[i])]; });
  std::vector<Tensor> outputs;
  outputs.reserve(part.outputs.size());
  for (const int output : part.outputs)
    outputs.push_back(outcome.results[static_cast<std::size_t>(output)]);
  autograd::record(kCompiledCall, inputs, &call, outputs, loc);
}

}  // namespace dyad::exec
