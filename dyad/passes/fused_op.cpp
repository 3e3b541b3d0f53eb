#include "dyad/passes/fused_op.h"

namespace dyad::passes {
namespace {

constexpr ArgInfo kInputs[] = {{.name = "inputs", .variadic = true}};
/// Unused: what a fused node gives follows from its region, which a rule for types does not see.
Types no_types(const InferIn&) { return {}; }

constexpr ArgInfo kOutputs[] = {{.name = "outputs", .variadic = true}};

}  // namespace

constinit const OpInfo kFusedOp{
    .name = "fused",
    .doc = "The operators of its region, computed in one kernel.",
    .kind = BodyKind::control,
    .inputs = kInputs,
    .outputs = kOutputs,
    .onnx = {},
    .samples = {},
    .infer = no_types,
};

void register_fused_op() {
  static const bool done = [] {
    const OpInfo* row = &kFusedOp;
    register_ops({&row, 1});
    return true;
  }();
  static_cast<void>(done);
}

}  // namespace dyad::passes
