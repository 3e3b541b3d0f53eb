#pragma once

#include <string>

#include "dyad/ir/op_info.h"

namespace dyad {

/// Attributes of the operators that belong to graphs.
struct PlaceholderAttrs {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
};
struct ConstantAttrs {
  Tensor value;
};
/// A captured tensor; the graph reads its elements when it runs.
struct VariableAttrs {
  std::string name;
  Tensor tensor;
};

/// Rows: `placeholder` -> value; `constant` -> value; `variable` -> its elements at the start of
/// the run; `assign(variable, value)` -> the value, written into the variable's tensor at the end
/// of the run; `after(value, effects...)` -> the value, needed together with the effects: who
/// fetches it has the writes done that they are.
extern const OpInfo kPlaceholderOp, kConstantOp, kVariableOp, kAssignOp, kAfterOp;

}  // namespace dyad
