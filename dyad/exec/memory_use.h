#pragma once

#include <cstddef>

namespace dyad::exec {

/// Memory that a run needs beside its placeholders, variables and constants, in bytes. What the
/// graphs inside branches and loops need comes on top (not so of a batch that runs in parts: one
/// part is counted), and what kernels need while they run.
struct MemoryUse {
  std::size_t intermediate = 0;  ///< for intermediate values, which take turns, at one time
  std::size_t live_peak = 0;     ///< least that any arrangement of them needs
  std::size_t apart = 0;         ///< what they took if each had memory of its own
  std::size_t results = 0;       ///< of values given to the caller
};

}  // namespace dyad::exec
