#pragma once

#include <string_view>

#include "dyad/base/error.h"

namespace dyad::exec {

/// Throws an error of the same type and message as `error`, at `where` (the user's call) and for
/// the node declared at `declared`, unless it names one itself. Of a type that is not in
/// dyad/base/error.h (a program's own) it becomes the one from there that it derives from, a plain
/// Error where there is none but that.
[[noreturn]] void rethrow_at(const Error& error, Loc where, Loc declared);

/// GraphError while a function is recorded or a graph defined, which would not follow what `runner`
/// (`a session`) computes.
void require_eager(std::string_view runner, Loc loc);

}  // namespace dyad::exec
