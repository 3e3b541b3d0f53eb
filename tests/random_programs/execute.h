#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dyad/exec/compile.h"
#include "program.h"

namespace dyad::testing {

/// A tensor that a call gave or left behind.
struct Seen {
  std::string name;  ///< "result 0", "gradient of v1"...
  Tensor value;
  bool tracks_grad = false;
};

/// What one call did: everything that can be seen of it, or its error.
struct Trace {
  std::vector<Seen> seen;
  std::string error;  ///< type and message
};

/// One trace for each call, up to the first that throws.
using Traces = std::vector<Trace>;

/// Calls the function as it stands.
Traces run_eagerly(const Program& program);
/// Calls it through compile().
Traces run_compiled(const Program& program, const CompileOptions& options);
/// Defines it as a graph, with sizes as symbols or those of the first call, and runs a session: one
/// trace for each call of sizes that the graph takes, with the call's number. Nothing where a
/// graph cannot say it: `why` is told.
std::optional<std::vector<std::pair<std::size_t, Trace>>> run_statically(const Program& program,
                                                                         bool symbolic,
                                                                         std::string& why);

/// Whether a program writes to what outlives a call, judged by the traces of it.
bool writes_captured(const Program& program, const Traces& eager);

/// Where two runs of one call part: empty when they do not. Any NaN equals any other.
std::string difference(const Trace& got, const Trace& want);

/// A digest of what a program did: the same on every machine. `exact`: with the bits of all values,
/// which do not depend on the machine where no library took part.
std::uint64_t digest(const Program& program, const Traces& traces);

}  // namespace dyad::testing
