#pragma once

#include <memory>
#include <vector>

#include "dyad/exec/executable.h"
#include "dyad/exec/executable_plan.h"

namespace dyad::exec {

/// The step of a control node: runs the executables of its graphs on `inputs` and hands their
/// results to `buffers`.
[[nodiscard]] std::unique_ptr<Step> make_control_step(
    const Node& node, std::vector<Tensor> inputs, std::vector<int> buffers,
    const std::vector<std::unique_ptr<Executable>>& regions);

/// The same without a plan: what the node gives.
[[nodiscard]] std::vector<Tensor> run_control(
    const Node& node, std::vector<Tensor> inputs,
    const std::vector<std::unique_ptr<Executable>>& regions, const RunContext& context);

}  // namespace dyad::exec
