#include <fmt/format.h>

#include "dyad/base/error.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/exec/batching.h"
#include "dyad/exec/control_flow.h"
#include "dyad/exec/control_flow_ops.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/rearrange.h"
#include "dyad/ops/reduce.h"
#include "dyad/ops/views.h"

// Control operators for a batch: their graphs are carried out for all samples, and what a sample
// does not take part in leaves its values as they are.
namespace dyad::exec {
namespace {

std::vector<Tensor> tensors_of(std::span<const Batched> values) {
  std::vector<Tensor> made;
  for (const Batched& value : values) made.push_back(value.tensor);
  return made;
}

/// A choice for each sample as one for each of its elements.
Tensor choose(const Tensor& samples, const Tensor& a, const Tensor& b) {
  return where(padded(samples, 0, a.rank() - 1), a, b);
}

}  // namespace

std::vector<Tensor> Batch::run_for_each(const GraphImpl& graph, std::span<const Tensor> first,
                                        std::span<const Batched> like) {
  Inputs given(like.begin(), like.end());
  for (std::size_t i = 0; i < first.size(); ++i) given[i].tensor = first[i];
  std::vector<Tensor> made;
  for (const Batched& output : run(graph, given)) made.push_back(for_each(output));
  return made;
}

Batch::Outputs Batch::control(const Node& node, const Inputs& inputs) {
  if (&node.op() == &kCondOp) return cond(node, inputs);
  if (&node.op() == &kWhileOp) return while_loop(node, inputs);
  if (&node.op() == &kScanOp) return scan(node, inputs);
  throw GraphError(fmt::format("vmap: {} inside a vectorised function has no form for a batch; "
                               "take the gradient of the whole batch, outside",
                               node.op().name),
                   node.loc());
}

Batch::Outputs Batch::cond(const Node& node, const Inputs& inputs) {
  const std::span<const Batched> operands = std::span(inputs).subspan(1);
  const std::vector<Tensor> given = tensors_of(operands);
  const auto branch = [&](std::size_t i) {
    return [this, &node, operands, i](std::span<const Tensor> tensors) {
      return run_for_each(*node.regions()[i], tensors, operands);
    };
  };
  if (!inputs[0].batched) {
    return all_batched(run_cond(inputs[0].tensor, branch(0), branch(1), given, node.loc()));
  }
  // Samples go different ways: all go both.
  std::vector<Tensor> made = branch(0)(given);
  const std::vector<Tensor> other = branch(1)(given);
  for (std::size_t i = 0; i < made.size(); ++i) {
    made[i] = choose(inputs[0].tensor, made[i], other[i]);
  }
  return all_batched(std::move(made));
}

Batch::Outputs Batch::while_loop(const Node& node, const Inputs& inputs) {
  const auto count = static_cast<std::size_t>(node.attrs_as<LoopAttrs>().states);
  if (node.types().size() > count) {
    throw GraphError(
        "vmap: a while_loop that keeps what its steps made has no form for a batch, whose samples "
        "may take different numbers of them",
        node.loc());
  }
  Inputs like = inputs;
  for (std::size_t i = 0; i < count; ++i) like[i] = {for_each(inputs[i]), true};
  const std::vector<Tensor> start = tensors_of(std::span(like).first(count));
  const auto goes_on = [&](std::span<const Tensor> states) {
    Inputs given = like;
    for (std::size_t i = 0; i < count; ++i) given[i].tensor = states[i];
    return run(*node.regions()[0], given)[0];
  };
  const auto condition = [&](std::span<const Tensor> states) -> std::vector<Tensor> {
    const Batched each = goes_on(states);
    return {each.batched ? any(each.tensor) : each.tensor};
  };
  const auto body = [&](std::span<const Tensor> states) {
    const Batched each = goes_on(states);
    std::vector<Tensor> next = run_for_each(*node.regions()[1], states, like);
    // Samples that are done stay as they are.
    for (std::size_t i = 0; each.batched && i < next.size(); ++i) {
      next[i] = choose(each.tensor, next[i], states[i]);
    }
    return next;
  };
  return all_batched(run_while(condition, body, start, node.loc()));
}

Batch::Outputs Batch::scan(const Node& node, const Inputs& inputs) {
  const auto& attrs = node.attrs_as<LoopAttrs>();
  const auto states = static_cast<std::size_t>(attrs.states);
  const auto slices = static_cast<std::size_t>(attrs.slices);
  Inputs like = inputs;
  for (std::size_t i = 0; i < states; ++i) like[i] = {for_each(inputs[i]), true};
  // Steps come first, then samples.
  const auto exchanged = [&](const Tensor& x, bool batched) {
    const Tensor by_step = batched ? transpose(x, 0, 1) : x;
    return attrs.reverse ? flip(by_step, {0}) : by_step;
  };
  std::vector<Tensor> xs;
  for (std::size_t i = states; i < states + slices; ++i) {
    xs.push_back(exchanged(inputs[i].tensor, inputs[i].batched));
  }
  const auto body = [&](std::span<const Tensor> arguments) {
    return run_for_each(*node.regions()[0], arguments, like);
  };
  const std::vector<Tensor> start = tensors_of(std::span(like).first(states));
  std::vector<Tensor> made = run_scan(body, start, xs, node.loc());
  for (std::size_t i = states; i < made.size(); ++i) {
    if (attrs.reverse) made[i] = flip(made[i], {0});
    made[i] = transpose(made[i], 0, 1);
  }
  return all_batched(std::move(made));
}

Batch::Outputs Batch::all_batched(std::vector<Tensor> tensors) {
  Outputs made;
  for (Tensor& t : tensors) made.push_back({std::move(t), true});
  return made;
}

}  // namespace dyad::exec
