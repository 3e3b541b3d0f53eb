#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "dyad/core/dim_expr.h"
#include "dyad/exec/path.h"
#include "dyad/ir/size_facts.h"

namespace dyad::exec {

/// What the guards of a path say of sizes, and what follows from that: calls that run it have
/// passed them.
class GuardedSizes final : public SizeFacts {
 public:
  explicit GuardedSizes(std::span<const DimGuard> guards);

  [[nodiscard]] std::optional<bool> equal(Dim a, Dim b) const override;
  [[nodiscard]] std::optional<bool> less(Dim a, Dim b) const override;
  [[nodiscard]] std::optional<std::int64_t> value(Dim dim) const override;

 private:
  [[nodiscard]] const DimGuard* find(DimGuard::Kind kind, Dim a, Dim b) const;
  /// `size` by one name for each of the sizes that the guards say are equal.
  [[nodiscard]] Dim named_once(Dim size) const;
  void note_equal(Dim a, Dim b);
  /// Notes that `size` is at least 0.
  void note_positive(Dim size);
  /// What is known of `size`.
  [[nodiscard]] detail::Bounds bounds(Dim size) const;

  /// Sizes without their constants are at least so much.
  struct Least {
    Dim size;
    std::int64_t least = 0;
  };
  [[nodiscard]] std::optional<std::int64_t> least_of(Dim size) const;

  std::span<const DimGuard> guards_;
  std::vector<std::pair<Dim, Dim>> names_;  ///< symbols, and what each of them is, one by one
  std::vector<Least> leasts_;
};

}  // namespace dyad::exec
