#pragma once

#include <string>

#include "execute.h"
#include "program.h"

namespace dyad::testing {

/// How a program is run beside eager execution.
struct Configuration {
  CompileOptions options;
  int threads = 1;
  bool symbolic = true;   ///< sizes of the static graph
  bool keeps_all = true;  ///< of what the tape could compute again
};
/// The configuration that a program's seed draws.
Configuration draw_configuration(std::uint64_t seed);
/// `{.dynamic_sizes = false}` and the like.
std::string to_string(const CompileOptions& options);

/// What a check found.
struct Finding {
  std::string mode;  ///< "compiled", "configured", "static" or "eager"; empty: nothing
  std::string kind;  ///< "values" or "error"
  std::string text;
  [[nodiscard]] explicit operator bool() const { return !mode.empty(); }
};

/// What became of a program, for statistics and digests.
struct Report {
  Finding finding;
  std::uint64_t digest = 0;
  bool ran_statically = false;
  std::string not_static;  ///< why it did not
  bool failed = false;     ///< it ends with an error, in all modes
};

/// Runs a program eagerly, with all that the tape reads kept and with what it can computed again,
/// compiled by default, compiled as its seed draws, and as a static graph
/// where that is possible, and compares.
Report check(const Program& program);

}  // namespace dyad::testing
