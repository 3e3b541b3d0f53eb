#include "dyad/ops/custom.h"

#include <algorithm>

#include "dyad/ir/promoted_inputs.h"
#include "dyad/ops/registry.h"

namespace dyad::custom {

Tensor call(const OpInfo& row, const void* attrs, std::span<const Tensor> inputs, Loc loc) {
  std::vector<const Tensor*> refs;
  for (const Tensor& input : inputs) refs.push_back(&input);
  Tensor out;
  with_promoted_inputs(row, refs, loc, [&](TensorRefs promoted) {
    Evaluator::current().apply(row, promoted, attrs, {&out, 1}, loc);
  });
  return out;
}

void fail_order(const OpInfo& row) {
  throw GradError("the gradient of " + std::string(row.name) +
                  ": an expression gives derivatives " + "of order " + std::to_string(kOrders) +
                  " at most; give define_op() a gradient rule (CustomOpOptions::grad)");
}

std::vector<ArgInfo> default_inputs(int count) {
  static constexpr std::string_view kNames[] = {"a", "b", "c", "d"};
  if (count == 1) return {{"x", kNumber}};
  std::vector<ArgInfo> inputs;
  for (int i = 0; i < count; ++i) inputs.push_back({kNames[i], kNumber});
  return inputs;
}

void add_rows(std::span<const OpInfo* const> rows) {
  ops::register_builtin_ops();
  register_ops(rows);
}

void check_name(const std::string& name) {
  const bool good = !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
  if (good && (name[0] < '0' || name[0] > '9')) return;
  throw ValueError("define_op(\"" + name +
                   "\"): the name of an operator is of lower-case letters, digits and underscores");
}

}  // namespace dyad::custom
