#include <algorithm>
#include <array>

#include "dyad/exec/control_flow_gradients.h"
#include "dyad/exec/control_flow_ops.h"
#include "dyad/exec/control_node.h"
#include "dyad/exec/drawn_keys.h"

namespace dyad::exec {
namespace {

/// The gradient of one function of a cond by the operands `by`, given those of its results `of`,
/// and the sums in which the former are added up, where there are such. In `found` what it gives,
/// undefined where there is none.
GradientRegion branch_gradient(const GraphImpl& branch, std::span<const std::size_t> of,
                               std::span<const Type> types, std::span<const std::size_t> by,
                               const std::vector<bool>& summed, std::vector<Tensor>& found,
                               Loc loc) {
  GradientRegion made(loc);
  const std::vector<Value> operands =
      made.add_parameters(parameter_types(branch, 0, branch.placeholders().size()));
  std::vector<Value> weights, outputs, wanted, sums, summed_operands;
  for (const std::size_t output : of) weights.push_back(made.add_weight(types[output]));
  for (std::size_t i = 0; i < by.size(); ++i) {
    wanted.push_back(operands[by[i]]);
    if (!summed[i]) continue;
    sums.push_back(made.add_weight(wanted.back().type()));
    summed_operands.push_back(wanted.back());
  }
  const std::vector<Value> forward = made.inline_forward(branch, operands);
  for (const std::size_t output : of) outputs.push_back(forward[output]);
  made.shape_as(weights, outputs);
  append_all<Value>(outputs, summed_operands);
  append_all<Value>(weights, sums);
  found = made.gradients(outputs, weights, wanted);
  return made;
}

}  // namespace

/// The gradient of whichever function ran.
void cond_grad(Gradient& g) {
  if (drawing_grad(g)) return;
  ControlNode node(g);
  const Loc loc = node.node().loc();
  std::vector<std::size_t> of, by;  // among the results, and the operands, which follow pred
  for (const std::size_t output :
       differentiable_outputs(node.region(0), 0, node.region(0).outputs().size())) {
    if (node.has_grad(output)) of.push_back(output);
  }
  for (const std::size_t input : node.wanted(1, node.input_count())) by.push_back(input - 1);
  constexpr std::size_t kBranches = 2;
  std::array<std::vector<Tensor>, kBranches> found;
  const auto differentiate = [&](std::size_t branch, const std::vector<bool>& summed) {
    return branch_gradient(node.region(branch), of, node.node().types(), by, summed, found[branch],
                           loc);
  };
  // What neither function has a part in gets no gradient.
  for (std::size_t branch = 0; branch < kBranches; ++branch)
    differentiate(branch, std::vector<bool>(by.size()));
  std::size_t next = 0;
  std::erase_if(by, [&](std::size_t) {
    const std::size_t i = next++;
    return !found[0][i].defined() && !found[1][i].defined();
  });
  if (by.empty()) return;

  std::vector<Tensor> inputs = node.inputs(0, node.input_count());
  for (const std::size_t output : of) inputs.push_back(node.grad(output));
  Types types;
  std::vector<bool> summed;
  for (const std::size_t operand : by) {
    types.push_back(grad_type(node.input_type(operand + 1)));
    const Tensor sum = node.begin_sum(operand + 1);
    summed.push_back(sum.defined());
    if (sum.defined()) inputs.push_back(sum);
  }
  std::vector<Ref<GraphImpl>> regions;
  for (std::size_t branch = 0; branch < kBranches; ++branch) {
    GradientRegion made = differentiate(branch, summed);
    {
      const Evaluator::Scope current(made.evaluator());
      for (std::size_t i = 0; i < by.size(); ++i) {
        if (!found[branch][i].defined()) found[branch][i] = zeros_of(types[i], loc);
      }
    }
    made.add_outputs(found[branch]);
    regions.push_back(made.graph());
  }
  const std::vector<Tensor> grads = node.append(kCondOp, node.node().shared_attrs(), inputs,
                                                std::move(regions), std::move(types));
  for (std::size_t i = 0; i < by.size(); ++i) node.end_sum(by[i] + 1, grads[i]);
}

}  // namespace dyad::exec
