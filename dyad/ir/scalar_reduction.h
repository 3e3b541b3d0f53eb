#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "dyad/ir/scalar.h"

namespace dyad {

using Scalars = std::vector<Scalar>;

/// A reduction over elements numbered r = 0..count-1: K accumulators start from `init`, take in the
/// mapped elements one by one in the order that docs/design/kernels.md fixes, and are finished
/// once.
struct ReductionProgram {
  ScalarProgram map;      ///< input elements -> K values of the accumulators' types
  ScalarProgram combine;  ///< K accumulators, then K values of the same types -> K accumulators;
                          ///< associative but for rounding
  ScalarProgram finish;   ///< K accumulators, then count (i64) -> outputs
  std::vector<std::uint64_t> init;  ///< bits of the K initial values; neutral for `combine`
  int index_input = -1;             ///< which input of `map` is r (i64), or -1
};

/// Writes a ReductionProgram, from an operator's definition:
///
///     static void reduce(const Attrs&, ReductionBuilder& b) {
///       b.accumulate(b.sum_type(), 0, convert(b.element(), b.sum_type()));
///       b.combine([](const Scalars& a, const Scalars& x) -> Scalars { return {a[0] + x[0]}; });
///       b.finish([](const Scalars& a, Scalar count) -> Scalars { return {a[0]}; });
///     }
class ReductionBuilder {
 public:
  /// For a reduction of a tensor of `element`, each of whose results is a tensor of a dtype in
  /// `results`.
  ReductionBuilder(DType element, std::vector<DType> results);

  [[nodiscard]] DType dtype() const noexcept { return element_; }
  [[nodiscard]] DType result_dtype(std::size_t i = 0) const { return results_.at(i); }
  /// What sums are accumulated in: f32 for f16, bf16 and f32; f64 for f64; i64 for integers and
  /// booleans.
  [[nodiscard]] ScalarType sum_type() const;

  /// The element being reduced, in its compute type.
  [[nodiscard]] Scalar element() const { return value_; }
  /// Its number r among the reduced elements, i64, row-major over the reduced axes.
  [[nodiscard]] Scalar index();

  /// Adds an accumulator that starts from `init` (a number or a constant, neutral for `combine`)
  /// and takes in `value`.
  void accumulate(ScalarType type, Scalar init, Scalar value);
  void accumulate(Scalar init, Scalar value) { accumulate(value.type(), init, value); }
  /// How accumulators take in values; also how partial results join, so both have the accumulators'
  /// types.
  void combine(const std::function<Scalars(const Scalars& a, const Scalars& x)>& f);
  /// The results from the accumulators and the number of elements (i64), one for each result dtype.
  /// Rounding to the dtype is done by the store.
  void finish(const std::function<Scalars(const Scalars& a, Scalar count)>& f);

  /// The finished program; throws InternalError when a part is missing. The builder is used up.
  [[nodiscard]] ReductionProgram build();

 private:
  DType element_;
  std::vector<DType> results_;
  ReductionProgram program_;
  std::vector<ScalarType> types_;
  Scalar value_;
  bool combined_ = false, finished_ = false;
};

}  // namespace dyad
