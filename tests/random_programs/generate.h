#pragma once

#include "program.h"

namespace dyad::testing {

/// The program of that seed: the same wherever it is made.
Program generate(std::uint64_t seed);

}  // namespace dyad::testing
