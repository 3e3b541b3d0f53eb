#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace dyad::testing {

/// What many steps of training with changing sizes left behind.
struct Soak {
  std::int64_t steps = 0;
  std::int64_t recordings = 0;  ///< of the compiled functions
  std::int64_t recorded = 0;    ///< calls that ran eagerly to be recorded or compared
  double early_mb = 0;          ///< resident memory after half of the steps
  double late_mb = 0;           ///< and after all
  double seconds = 0;
  bool equal = true;  ///< whether all compared steps gave eager's bits
};

/// Takes so many steps of a compiled training step, with gradients inside, and of a compiled
/// function with a host branch, whose gradients are taken from outside; batch and length change
/// from step to step. Two other threads take as many calls of one function without gradients in the
/// meantime. Now and then a step is compared with eager execution. Calls `tell` with a
/// line at each tenth.
Soak soak(std::int64_t steps, const std::function<void(const std::string&)>& tell);

}  // namespace dyad::testing
