#include "dyad/ops/checked.h"

#include "dyad/ops/op_support.h"
#include "dyad/ops/registry.h"

namespace dyad::ops {
namespace {

constexpr ArgInfo kCheckedInputs[] = {{"x", kFloat | kIndex}};

struct Checked {
  using Attrs = CheckedAttrs;
  static constexpr Schema schema{
      .name = "checked",
      .inputs = kCheckedInputs,
      .outputs = kOut,
      .doc =
          "x, whose elements are finite and from 0 to a bound, those along the last axis not all 0 "
          "where they are added up; a run checks it.",
      .checks = kFirst,
      .batching = Batching::axes};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    if (attrs.sum && in[0].rank() == 0) fail_shape(in, "x must have an axis to add up");
    return {in[0]};
  }
  static void grad(Gradient& g, const Attrs&) { g.set(0, g.grad()); }
  static void to_onnx(OnnxEmitter& e, const Attrs&) { e.output(0, e.input(0)); }
};

}  // namespace

std::span<const OpInfo* const> checked_rows() {
  static constexpr const OpInfo* kRows[] = {&op_info<Checked>};
  return kRows;
}

Tensor checked(const Tensor& x, const CheckedAttrs& rule, Loc loc) {
  return apply<Checked>(rule, loc, x);
}

}  // namespace dyad::ops
