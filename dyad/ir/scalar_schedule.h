#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dyad/ir/scalar.h"

namespace dyad::scalar {

/// An instruction in the order of running; or, where `guarded` is not 0, a guard: the `guarded`
/// steps that follow it are needed by no more than the `selects` instructions `id`, `id` + 1...
/// after them, all select_rarely of the same condition, for elements that have it.
struct ScheduledStep {
  std::uint32_t id = 0;
  std::uint32_t guarded = 0;
  std::uint32_t selects = 0;
};

/// The instructions of a program in an order in which what only rare choices need stands together
/// behind guards. Guarded steps may hold guards. Operands come before what they are operands of.
[[nodiscard]] std::vector<ScheduledStep> schedule(std::span<const Instruction> code,
                                                  std::span<const std::uint32_t> outputs);

}  // namespace dyad::scalar
