#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "dyad/exec/path.h"
#include "dyad/ir/size_facts.h"

namespace dyad::exec {

/// What the guards of a path say of sizes: calls that run it have passed them.
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

  std::span<const DimGuard> guards_;
  std::vector<std::pair<Dim, Dim>> names_;  ///< symbols, and what each of them is, one by one
};

}  // namespace dyad::exec
