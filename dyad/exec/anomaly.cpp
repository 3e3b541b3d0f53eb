#include "dyad/exec/anomaly.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "dyad/autograd/backward.h"
#include "dyad/autograd/grad_mode.h"
#include "dyad/base/error.h"
#include "dyad/ir/op_info.h"

namespace dyad::exec {

void check_finite(const OpInfo& op, TensorRefs inputs, std::span<const Tensor> outputs, Loc loc) {
  const bool computes = std::any_of(inputs.begin(), inputs.end(), [](const Tensor* input) {
    return input->defined() && is_floating(input->dtype());
  });
  if (!computes || op.kind == BodyKind::view) return;
  for (const Tensor& output : outputs) {
    if (!output.defined() || !is_floating(output.dtype())) continue;
    const std::vector<double> values = output.to_vector<double>();
    const auto bad =
        std::find_if(values.begin(), values.end(), [](double v) { return !std::isfinite(v); });
    if (bad == values.end()) continue;
    Types types;
    for (const Tensor* input : inputs) {
      types.push_back(type_of(*input));
    }
    std::string text = "detect_anomaly: " + call_string(op, types) + " made " +
                       (std::isnan(*bad) ? "a NaN"
                        : *bad > 0       ? "inf"
                                         : "-inf") +
                       " at element " + std::to_string(bad - values.begin()) + " of " +
                       type_string(output);
    if (const OpInfo* rule = autograd::current_rule()) {
      text += ", in the backward pass of " + std::string(rule->name);
    }
    throw AnomalyError(text, loc);
  }
}

}  // namespace dyad::exec
