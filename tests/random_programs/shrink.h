#pragma once

#include <functional>

#include "program.h"

namespace dyad::testing {

/// A smaller program for which `fails` is still true, as it is for the given one: statements,
/// results, calls and gradients are left out, sizes, dtypes and numbers made plain, as long as
/// anything can be. At most `tries` programs are tried.
Program shrink(Program program, const std::function<bool(const Program&)>& fails, int tries = 4000);

}  // namespace dyad::testing
