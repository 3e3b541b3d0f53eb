#include "dyad/passes/fused_op.h"

#include <array>

namespace dyad::passes {
namespace {

constexpr ArgInfo kInputs[] = {{.name = "inputs", .variadic = true}};
/// Unused: what such a node gives follows from its region, which a rule for types does not see.
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

constinit const OpInfo kRowsOp{
    .name = "rows",
    .doc = "The kernels of its region, one after the other on a few rows at a time.",
    .kind = BodyKind::control,
    .inputs = kInputs,
    .outputs = kOutputs,
    .onnx = {},
    .samples = {},
    .attrs = &attrs_info<RowsAttrs>,
    .infer = no_types,
};

void register_fused_ops() {
  static const bool done = [] {
    const std::array<const OpInfo*, 2> rows{&kFusedOp, &kRowsOp};
    register_ops(rows);
    return true;
  }();
  static_cast<void>(done);
}

bool is_kernels(const Node& node) noexcept {
  return &node.op() == &kFusedOp || &node.op() == &kRowsOp;
}

const Shape& space_of(const Node& node) {
  const Node* computes = &node;
  if (&node.op() == &kFusedOp) {
    const Node* last = node.regions()[0]->nodes().back().get();
    if (last->op().kind == BodyKind::reduction) computes = last;
  }
  return computes->op().kind == BodyKind::reduction ? computes->inputs()[0].type().shape()
                                                    : computes->types()[0].shape();
}

}  // namespace dyad::passes
