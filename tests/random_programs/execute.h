#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dyad/exec/compile.h"
#include "program.h"
#include "trace.h"

namespace dyad::testing {

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

}  // namespace dyad::testing
