#pragma once

#include <cstdint>
#include <vector>

#include "dyad/ir/scalar.h"

namespace dyad {

/// What a reduction computes, as scalar programs over one or two accumulators. Each element becomes
/// accumulator values by `map`; pairs of accumulator values are joined by `combine`, starting from
/// `init`, in the order that docs/design/kernels.md lays down; `finish` makes the result.
struct Reduction {
  ScalarProgram map;      ///< inputs: element, i64 index r; outputs: one value per accumulator
  ScalarProgram combine;  ///< inputs: left 0, right 0, left 1, right 1; right ones come later in r
  ScalarProgram finish;   ///< inputs: i64 count of elements, accumulators; output: the result
  std::vector<ScalarType> types;    ///< of the accumulators
  std::vector<std::uint64_t> init;  ///< their bits before the first element

  [[nodiscard]] std::size_t accumulators() const noexcept { return types.size(); }
  /// Whether `map` reads the index.
  [[nodiscard]] bool uses_index() const;
};

/// What an operator's `reduce` fills for one element and result dtype:
///
///     const Accumulator total = b.accumulator(x_as_wide_as_needed, 0);
///     b.combine(total, total.left + total.right);
///     b.finish(total.result / b.count());
class ReductionBuilder {
 public:
  ReductionBuilder(DType input, DType output);
  ReductionBuilder(const ReductionBuilder&) = delete;
  ReductionBuilder& operator=(const ReductionBuilder&) = delete;

  [[nodiscard]] DType input_dtype() const noexcept { return input_; }
  [[nodiscard]] DType output_dtype() const noexcept { return output_; }
  /// The element, and its i64 number among those reduced together.
  [[nodiscard]] Scalar element() const noexcept { return element_; }
  [[nodiscard]] Scalar index() const noexcept { return index_; }

  struct Accumulator {
    int number;
    Scalar left, right;  ///< operands of combine
    Scalar result;       ///< operand of finish
  };
  /// An accumulator that takes `value`, computed from element and index, of each element, and the
  /// number `init` before the first.
  Accumulator accumulator(Scalar value, Scalar init);
  /// How left and right join; accumulators in the order of their numbers.
  void combine(const Accumulator& accumulator, Scalar joined);
  /// How many elements there are, i64: for finish.
  [[nodiscard]] Scalar count() const noexcept { return count_; }
  /// The result, of the type that the output's dtype is computed in.
  void finish(Scalar result);

  /// The reduction; the builder's scalars are no longer valid.
  [[nodiscard]] Reduction take() { return std::move(reduction_); }

 private:
  DType input_, output_;
  Reduction reduction_;
  Scalar element_, index_, count_;
};

}  // namespace dyad
