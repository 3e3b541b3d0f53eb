#pragma once

#include <string>

#include "dyad/debug/html_report.h"
#include "dyad/exec/explain.h"

namespace dyad::debug {

/// How fast this machine moves and computes, with as many threads as kernels use.
struct MachineSpeed {
  double bytes = 0;       ///< a second, read and written, of a large copy
  double operations = 0;  ///< a second, of the product of two large f32 matrices
};

/// Measures it; takes about a tenth of a second.
[[nodiscard]] MachineSpeed measure_machine();

/// The kernels of a compiled function or graph as lines of text: the operators that each computes
/// with their source lines, bytes, operations; and of those that `explain(&profile)` has times of:
/// calls, time of a call, and the share of the machine's speed (of moving or of computing,
/// whichever it uses more of). Those that took longest come first.
[[nodiscard]] std::string kernel_table(const Explanation& explanation,
                                       const MachineSpeed& machine = {});

/// Everything that an explanation tells, as JSON; times in milliseconds.
[[nodiscard]] std::string to_json(const Explanation& explanation, const MachineSpeed& machine = {});

/// Sections of a page: the recordings, why each was made, and the kernels.
void add_explanation(HtmlReport& page, const Explanation& explanation,
                     const MachineSpeed& machine = {});

}  // namespace dyad::debug
