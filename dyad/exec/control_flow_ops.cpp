#include "dyad/exec/control_flow_ops.h"

#include <array>

#include "dyad/exec/control_flow_gradients.h"

namespace dyad::exec {
namespace {

/// Unused: what a control operator gives follows from its regions, which a rule for types does not
/// see.
Types no_types(const InferIn&) { return {}; }

constexpr ArgInfo kCondInputs[] = {{.name = "pred", .dtypes = kBool},
                                   {.name = "operands", .variadic = true}};
constexpr ArgInfo kLoopInputs[] = {{.name = "inputs", .variadic = true}};
constexpr ArgInfo kResults[] = {{.name = "results", .variadic = true}};

}  // namespace

constinit const OpInfo kCondOp{
    .name = "cond",
    .doc = "One of two graphs of the operands, chosen by a bool scalar.",
    .kind = BodyKind::control,
    .inputs = kCondInputs,
    .outputs = kResults,
    .onnx = {},
    .samples = {},
    .infer = no_types,
    .grad = cond_grad,
};

constinit const OpInfo kWhileOp{
    .name = "while_loop",
    .doc = "Repeats a graph of the states while another gives true.",
    .kind = BodyKind::control,
    .inputs = kLoopInputs,
    .outputs = kResults,
    .onnx = {},
    .samples = {},
    .attrs = &attrs_info<LoopAttrs>,
    .infer = no_types,
    .grad = while_grad,
};

constinit const OpInfo kScanOp{
    .name = "scan",
    .doc = "Runs a graph over the slices of tensors, carrying states from one to the next.",
    .kind = BodyKind::control,
    .inputs = kLoopInputs,
    .outputs = kResults,
    .onnx = {},
    .samples = {},
    .attrs = &attrs_info<LoopAttrs>,
    .infer = no_types,
    .grad = scan_grad,
};

constinit const OpInfo kWhileStatesOp{
    .name = "while_states",
    .doc = "Repeats a graph of the states while another gives true, then runs one of all of them.",
    .kind = BodyKind::control,
    .inputs = kLoopInputs,
    .outputs = kResults,
    .onnx = {},
    .samples = {},
    .attrs = &attrs_info<WhileStatesAttrs>,
    .infer = no_types,
    .grad = while_states_grad,
};

Type stacked(const Type& type, Dim length) {
  Shape shape{length};
  for (const Dim size : type.shape()) shape.push_back(size);
  return {type.dtype(), std::move(shape)};
}

Type without_first_axis(const Type& type) {
  Shape shape;
  for (std::size_t i = 1; i < type.shape().size(); ++i) shape.push_back(type.shape()[i]);
  return {type.dtype(), shape};
}

Ref<Attrs> loop_attrs(std::size_t states, std::size_t slices, bool reverse) {
  const LoopAttrs attrs{static_cast<std::int64_t>(states), static_cast<std::int64_t>(slices),
                        reverse};
  return Attrs::copy_of(attrs_info<LoopAttrs>, &attrs);
}

void register_control_ops() {
  static const bool done = [] {
    const std::array<const OpInfo*, 4> rows{&kCondOp, &kWhileOp, &kScanOp, &kWhileStatesOp};
    register_ops(rows);
    return true;
  }();
  static_cast<void>(done);
}

}  // namespace dyad::exec
