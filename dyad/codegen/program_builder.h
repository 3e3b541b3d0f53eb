#pragma once

#include <span>
#include <vector>

#include "dyad/codegen/recipe.h"
#include "dyad/ir/op_info.h"
#include "dyad/ir/scalar.h"
#include "dyad/ir/scalar_reduction.h"

namespace dyad::codegen {

/// Writes the scalar definitions of one or more operators as one program. Every intermediate is
/// rounded to the dtype that a tensor holding it would have, so a fused program gives the bits that
/// its operators give one by one.
class ProgramBuilder {
 public:
  /// A value of the program: an element of a tensor, stored or not.
  using Id = int;

  ProgramBuilder() = default;
  ProgramBuilder(const ProgramBuilder&) = delete;
  ProgramBuilder& operator=(const ProgramBuilder&) = delete;

  /// The next input: an element of a tensor of `dtype`.
  Id input(DType dtype);
  /// The number `value` as an element of a tensor of `dtype`.
  Id constant(DType dtype, double value);
  /// The results of a pointwise operator, of `dtypes`, from earlier values: promoted, computed and
  /// rounded as the row says. `loc` goes to the instructions.
  std::vector<Id> apply(const OpInfo& op, const void* attrs, std::span<const Id> operands,
                        std::span<const DType> dtypes, Loc loc = {});
  /// The same for an operator with one result.
  Id apply(const OpInfo& op, const void* attrs, std::span<const Id> operands, DType dtype,
           Loc loc = {}) {
    return apply(op, attrs, operands, std::span(&dtype, 1), loc)[0];
  }
  /// Makes a value the next output, of its dtype.
  void output(Id value);

  [[nodiscard]] DType dtype(Id value) const {
    return values_[static_cast<std::size_t>(value)].dtype;
  }
  /// The program; the builder is used up.
  [[nodiscard]] ScalarProgram take() { return std::move(program_); }

 private:
  struct Value {
    Scalar scalar;
    DType dtype;
  };
  Id add(Scalar scalar, DType dtype);

  ScalarProgram program_;
  std::vector<Value> values_;
};

/// The recipe of one pointwise or reduction row for inputs and results of these dtypes, accesses to
/// be set by Iteration::specialize: what eager execution runs, so what is built in.
[[nodiscard]] KernelRecipe recipe_of(const OpInfo& op, const void* attrs,
                                     std::span<const DType> inputs, std::span<const DType> results);

/// The program of a reduction row, for elements of `element` and results of `results`.
[[nodiscard]] ReductionProgram reduction_of(const OpInfo& op, const void* attrs, DType element,
                                            std::span<const DType> results);
/// The same reduction of what `prologue` (one output) makes of its inputs: they become the map's
/// inputs, an index comes after them.
[[nodiscard]] ReductionProgram with_prologue(const ReductionProgram& reduction,
                                             const ScalarProgram& prologue);
/// Reductions side by side in one program, each of an output of `prologue`: the results of the
/// first come first.
[[nodiscard]] ReductionProgram with_prologue(std::span<const ReductionProgram> reductions,
                                             const ScalarProgram& prologue);

}  // namespace dyad::codegen
