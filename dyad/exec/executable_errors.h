#pragma once

#include "dyad/base/error.h"

namespace dyad::exec {

/// Throws an error of the same type and message as `error`, at `where` (the user's call) and for
/// the node declared at `declared`.
[[noreturn]] void rethrow_at(const Error& error, Loc where, Loc declared);

}  // namespace dyad::exec
