#pragma once

#include <memory>
#include <vector>

#include "dyad/exec/executable.h"
#include "dyad/exec/executable_plan.h"

namespace dyad::exec {

/// An operand that a cond may hand on with its memory.
struct GivenInput {
  int placeholder = 0;  ///< of the graphs
  int buffer = 0;       ///< of the plan
};

/// The step of a control node: runs the executables of its graphs on `inputs` and hands their
/// results to `buffers`. `given`: what nobody else needs.
[[nodiscard]] std::unique_ptr<Step> make_control_step(
    const Node& node, std::vector<Tensor> inputs, std::vector<int> buffers,
    std::vector<GivenInput> given, const std::vector<std::unique_ptr<Executable>>& regions);

/// The same without a plan: what the node gives.
[[nodiscard]] std::vector<Tensor> run_control(
    const Node& node, std::vector<Tensor> inputs,
    const std::vector<std::unique_ptr<Executable>>& regions, const RunContext& context);

}  // namespace dyad::exec
