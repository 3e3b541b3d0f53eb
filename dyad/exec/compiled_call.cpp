#include "dyad/exec/compiled_call.h"

#include <string>
#include <utility>
#include <vector>

#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/tape.h"
#include "dyad/base/error.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/ir/gradient.h"
#include "dyad/ir/graph_ops.h"

namespace dyad::exec {
namespace {

/// What the backward part of one replayed call needs.
struct SavedCall {
  DecisionTree::Leaf leaf;
  std::vector<Tensor> arguments;
  Environment env;
  std::vector<std::pair<Tensor, std::uint32_t>> versions;  ///< of the memory that it reads in place
  TwiceFlag differentiated_twice;
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

void differentiate(Gradient& g) {
  const SavedCall& call = *g.attrs<SavedCallPtr>();
  if (grad_enabled()) {
    *call.differentiated_twice = true;
    throw GradError(
        "second derivatives of a compiled function from outside, of a call that was replayed "
        "before any had been asked for: its next calls run eagerly and have them; or take the "
        "gradients inside the compiled function, with create_graph",
        Loc().user());
  }
  for (const auto& [tensor, version] : call.versions) {
    const std::uint32_t now = tensor.impl()->storage->version();
    if (now == version) continue;
    throw GradError(
        "backward of a compiled function: " + type_string(tensor) +
            ", which its gradient reads, was overwritten in place after the call (version " +
            std::to_string(version) + " then, " + std::to_string(now) +
            " now); call backward() before the write",
        Loc().user());
  }
  const BackwardPart& part = *call.leaf.path->backward;
  std::vector<Tensor> seeds;
  for (std::size_t i = 0; i < part.outputs.size(); ++i)
    seeds.push_back(g.grad(static_cast<int>(i)));
  const std::vector<Tensor> grads =
      DecisionTree::backward(call.leaf, call.arguments, call.env, seeds);
  for (std::size_t i = 0; i < grads.size(); ++i) {
    if (g.needs(static_cast<int>(i))) g.set(static_cast<int>(i), grads[i]);
  }
}

constexpr ArgInfo kCallInputs[] = {{.name = "inputs", .variadic = true}};
constexpr OpInfo kCompiledCall{.name = "compiled_call",
                               .doc = "A replayed call of a compiled function.",
                               .kind = BodyKind::opaque,
                               .inputs = kCallInputs,
                               .attrs = &kHandleInfo<SavedCallPtr>,
                               .grad = differentiate};

}  // namespace

void watch_backward(const Path& path, std::span<Tensor> results, const TwiceFlag& twice, Loc loc) {
  if (!path.backward || !grad_enabled()) return;
  for (const int output : path.backward->outputs) {
    const auto at = static_cast<std::size_t>(output);
    if (path.outputs[at].node->is("variable")) continue;  // not made here
    // No node of its own: gradients are added up in the order of the tape.
    results[at].register_hook(
        [twice](const Tensor& gradient) {
          if (grad_enabled()) *twice = true;
          return gradient;
        },
        loc);
  }
}

void attach_backward(const DecisionTree& tree, DecisionTree::Outcome& outcome,
                     std::span<const Tensor> arguments, const TwiceFlag& twice, Loc loc) {
  const DecisionTree::Leaf& leaf = tree.leaves()[static_cast<std::size_t>(outcome.leaf)];
  if (!leaf.backward || !grad_enabled()) return;
  const BackwardPart& part = *leaf.path->backward;
  auto call = std::make_shared<SavedCall>();
  call->leaf = leaf;
  call->differentiated_twice = twice;
  call->arguments.assign(arguments.begin(), arguments.end());
  // By handles of its own: a result that it keeps must not keep the tape node, which keeps the
  // call.
  for (const ValueId& external : leaf.backward->externals()) {
    if (auto it = outcome.env.find(external); it != outcome.env.end())
      call->env.emplace(external, Tensor(make_ref<TensorImpl>(*it->second.impl())));
  }
  const auto watch = [&](const Tensor& tensor) {
    call->versions.emplace_back(tensor, tensor.impl()->storage->version());
  };
  for (const Tensor& argument : arguments) watch(argument);
  for (const Value& variable : leaf.backward->graph().variables())
    watch(variable.node->attrs_as<VariableAttrs>().tensor);
  std::vector<const Tensor*> inputs;
  // Stands for the leaves that the call made, whose gradients nobody asks for: results track them.
  Tensor inner = make_empty(DType::f32, {0});
  inner.requires_grad();
  for (const Tensor& tensor : part.leaves) inputs.push_back(tensor.defined() ? &tensor : &inner);
  for (const int argument : part.arguments)
    inputs.push_back(&arguments[static_cast<std::size_t>(argument)]);
  std::vector<Tensor> outputs;
  for (const int output : part.outputs) {
    const auto at = static_cast<std::size_t>(output);
    outputs.push_back(outcome.results[at]);
    if (!leaf.path->result_views[at].views.empty())
      outputs.back().impl()->storage->mark_tracked_view();
  }
  autograd::record(kCompiledCall, inputs, &call, outputs, loc);
}

}  // namespace dyad::exec
