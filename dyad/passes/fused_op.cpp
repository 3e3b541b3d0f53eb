#include "dyad/passes/fused_op.h"

#include <array>

#include "dyad/ops/attrs/indexing.h"

namespace dyad::passes {
namespace {

constexpr ArgInfo kAnyInputs[] = {{.name = "inputs", .variadic = true}};
/// Unused: what such a node gives follows from its region, which a rule for types does not see.
Types no_types(const InferIn&) { return {}; }

constexpr ArgInfo kOutputs[] = {{.name = "outputs", .variadic = true}};

}  // namespace

constinit const OpInfo kFusedOp{
    .name = "fused",
    .doc = "The operators of its region, computed in one kernel.",
    .kind = BodyKind::control,
    .inputs = kAnyInputs,
    .outputs = kOutputs,
    .onnx = {},
    .samples = {},
    .infer = no_types,
};

constinit const OpInfo kRowsOp{
    .name = "rows",
    .doc = "The kernels of its region, one after the other on a few rows at a time.",
    .kind = BodyKind::control,
    .inputs = kAnyInputs,
    .outputs = kOutputs,
    .onnx = {},
    .samples = {},
    .attrs = &attrs_info<RowsAttrs>,
    .infer = no_types,
};

constinit const OpInfo kPartsOp{
    .name = "parts",
    .doc = "Runs its region on a part of the samples at a time.",
    .kind = BodyKind::control,
    .inputs = kAnyInputs,
    .outputs = kOutputs,
    .onnx = {},
    .samples = {},
    .attrs = &attrs_info<PartsAttrs>,
    .infer = no_types,
};

void register_fused_ops() {
  static const bool done = [] {
    const std::array<const OpInfo*, 3> rows{&kFusedOp, &kRowsOp, &kPartsOp};
    register_ops(rows);
    return true;
  }();
  static_cast<void>(done);
}

bool is_kernels(const Node& node) noexcept {
  return &node.op() == &kFusedOp || &node.op() == &kRowsOp;
}

bool is_pointwise(const Node& node) noexcept {
  return node.op().kind == BodyKind::pointwise && node.op().effect == Effect::pure;
}

const Node* reduction_of(const Node& node) {
  if (node.op().kind == BodyKind::reduction) return &node;
  if (&node.op() != &kFusedOp) return nullptr;
  for (const auto& inner : node.regions()[0]->nodes()) {
    if (inner->op().kind == BodyKind::reduction) return inner.get();
  }
  return nullptr;
}

const Shape& space_of(const Node& node) {
  const Node* const reduction = reduction_of(node);
  return reduction ? reduction->inputs()[0].type().shape() : node.types()[0].shape();
}

std::size_t indexed_axis(const Node& node) {
  const auto axis = node.attrs_as<ops::IndexAttrs>().axis;
  return static_cast<std::size_t>(axis < 0 ? axis + node.inputs()[0].type().rank() : axis);
}

RowOperand row_operand(const Node& node, std::size_t input) {
  const bool selects = node.is("index_select"), gathers = node.is("gather");
  if (input == 0 && (selects || (gathers && indexed_axis(node) == 0))) return RowOperand::whole;
  if (input == 1 && (selects || gathers || node.is("scatter_add"))) return RowOperand::index;
  const Value v = node.inputs()[input];
  return v && v.type().rank() == node.types()[0].rank() ? RowOperand::split : RowOperand::whole;
}

bool has_row_sums(const Node& node) {
  return node.is("layer_norm_backward") || node.is("rms_norm_backward");
}

bool is_row_sum(Value value) { return value && value.index > 0 && has_row_sums(*value.node); }

}  // namespace dyad::passes
