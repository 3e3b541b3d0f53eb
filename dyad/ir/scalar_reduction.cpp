#include "dyad/ir/scalar_reduction.h"

#include <utility>

#include "dyad/base/error.h"

namespace dyad {

ReductionBuilder::ReductionBuilder(DType element, std::vector<DType> results)
    : element_(element), results_(std::move(results)), value_(program_.map.input(element)) {}

ScalarType ReductionBuilder::sum_type() const {
  const ScalarType type = scalar::compute_type(element_);
  return scalar::is_floating(type) ? type : ScalarType::i64;
}

Scalar ReductionBuilder::index() {
  if (program_.index_input < 0) {
    program_.index_input = static_cast<int>(program_.map.inputs().size());
    return program_.map.input(ScalarType::i64);
  }
  return program_.map.at(program_.map.inputs()[program_.index_input]);
}

void ReductionBuilder::accumulate(ScalarType type, Scalar init, Scalar value) {
  if (combined_) throw InternalError("a reduction's accumulators come before its combine");
  const Scalar start = program_.map.constant(type, init);
  if (!start.is_constant()) throw InternalError("a reduction starts from a constant");
  program_.init.push_back(program_.map.instructions()[start.id()].imm);
  program_.map.output(value, type);
  types_.push_back(type);
}

void ReductionBuilder::combine(const std::function<Scalars(const Scalars&, const Scalars&)>& f) {
  Scalars a, x;
  for (ScalarType t : types_) a.push_back(program_.combine.input(t));
  for (ScalarType t : types_) x.push_back(program_.combine.input(t));
  const Scalars joined = f(a, x);
  if (joined.size() != types_.size()) {
    throw InternalError("a reduction of " + std::to_string(types_.size()) +
                        " accumulators combined into " + std::to_string(joined.size()));
  }
  for (std::size_t k = 0; k < types_.size(); ++k) program_.combine.output(joined[k], types_[k]);
  combined_ = true;
}

void ReductionBuilder::finish(const std::function<Scalars(const Scalars&, Scalar)>& f) {
  Scalars a;
  for (ScalarType t : types_) a.push_back(program_.finish.input(t));
  const Scalars results = f(a, program_.finish.input(ScalarType::i64));
  if (results.size() != results_.size()) {
    throw InternalError("a reduction with " + std::to_string(results_.size()) +
                        " results finished into " + std::to_string(results.size()));
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    program_.finish.output(results[i], scalar::compute_type(results_[i]));
  }
  finished_ = true;
}

ReductionProgram ReductionBuilder::build() {
  if (!combined_ || !finished_)
    throw InternalError("a reduction needs accumulators, combine and finish");
  program_.map.prune();
  program_.combine.prune();
  program_.finish.prune();
  return std::move(program_);
}

}  // namespace dyad
