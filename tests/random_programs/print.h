#pragma once

#include <string>

#include "check.h"
#include "program.h"

namespace dyad::testing {

/// The program as C++ that compiles against the public API: it makes its calls eagerly, then
/// through compile() with these options, and prints what they give. `note` becomes a comment at the
/// top.
std::string to_cpp(const Program& program, const CompileOptions& options, const std::string& note);

}  // namespace dyad::testing
