#include <algorithm>

#include "dyad/core/evaluator.h"
#include "dyad/ir/op_info.h"
#include "dyad/ops/ops.h"
#include "instructions.h"

// Every row of the registry that takes one to three tensors and no attributes that need a thought:
// the names of rows are those of functions.

namespace dyad::testing {
namespace {

/// Rows whose public function has another name or other parameters, or none: gradients of others,
/// parts of composites, forms for ONNX. And those that other files of this folder draw, with
/// numbers.
bool left_out(const OpInfo& row, const Instructions& list) {
  return std::ranges::any_of(list,
                             [&](const Instruction& known) { return known.name == row.name; });
}

bool takes_no_attributes(const OpInfo& row) { return row.attrs == &attrs_info<NoAttrs>; }

}  // namespace

void add_rows(Instructions& list) {
  for (const OpInfo* row : all_ops()) {
    if (row->effect != Effect::pure || row->inputs.empty() || row->inputs.size() > 3 ||
        row->kind == BodyKind::control || row->kind == BodyKind::structural ||
        !takes_no_attributes(*row) || left_out(*row, list)) {
      continue;
    }
    if (std::ranges::any_of(row->inputs,
                            [](const ArgInfo& in) { return in.variadic || in.optional; })) {
      continue;
    }
    std::string text = "apply_row(\"" + std::string(row->name) + "\", {$*})[0]";
    list.push_back(
        {std::string(row->name), text, row->kind == BodyKind::pointwise ? 2 : 1,
         [row](const Frame& f) {
           std::vector<Tensor> inputs = f.all();
           std::vector<const Tensor*> refs;
           for (const Tensor& input : inputs) refs.push_back(&input);
           std::vector<Tensor> outputs(row->outputs.size());
           const NoAttrs none;
           Evaluator::current().apply(*row, refs, &none, outputs, std::source_location::current());
           return outputs;
         },
         [row](Draft& d) {
           for (std::size_t i = 0; i < row->inputs.size(); ++i) {
             const DTypeSet dtypes = row->inputs[i].dtypes;
             const Draft::Fits fits = [=](const Tensor& x) { return contains(dtypes, x.dtype()); };
             if (!d.input(i == 0 ? fits : broadcasts_with(d.example(0), fits))) return false;
           }
           return true;
         },
         1, Form::call, /*library=*/row->kind != BodyKind::pointwise});
  }
}

}  // namespace dyad::testing
