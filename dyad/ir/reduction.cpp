#include "dyad/ir/reduction.h"

#include <algorithm>

#include "dyad/base/error.h"

namespace dyad {

bool Reduction::uses_index() const {
  const std::uint32_t index = map.inputs()[1];
  const auto outputs = map.outputs();
  if (std::find(outputs.begin(), outputs.end(), index) != outputs.end()) return true;
  for (const scalar::Instruction& i : map.instructions()) {
    for (int arg = 0; arg < scalar::arity(i.op); ++arg) {
      if (i.args[static_cast<std::size_t>(arg)] == index) return true;
    }
  }
  return false;
}

ReductionBuilder::ReductionBuilder(DType input, DType output)
    : input_(input),
      output_(output),
      element_(reduction_.map.input(input)),
      index_(reduction_.map.input(ScalarType::i64)),
      count_(reduction_.finish.input(ScalarType::i64)) {}

ReductionBuilder::Accumulator ReductionBuilder::accumulator(Scalar value, Scalar init) {
  const ScalarType type = value.type();
  ScalarProgram scratch;
  const Scalar start = scratch.constant(type, init);
  reduction_.types.push_back(type);
  reduction_.init.push_back(scratch.instructions()[start.id()].imm);
  reduction_.map.output(value, type);
  return {static_cast<int>(reduction_.types.size()) - 1, reduction_.combine.input(type),
          reduction_.combine.input(type), reduction_.finish.input(type)};
}

void ReductionBuilder::combine(const Accumulator& accumulator, Scalar joined) {
  if (static_cast<std::size_t>(accumulator.number) != reduction_.combine.outputs().size()) {
    throw InternalError("reduction: accumulators must be combined in order");
  }
  reduction_.combine.output(joined, reduction_.types[static_cast<std::size_t>(accumulator.number)]);
}

void ReductionBuilder::finish(Scalar result) {
  reduction_.finish.output(result, scalar::compute_type(output_));
}

}  // namespace dyad
