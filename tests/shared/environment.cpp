// Part of every test program.

#include <cstdlib>

namespace {

// Tests count how often the host runs a function: what Background::automatic means must not depend
// on the machine.
[[maybe_unused]] const int kInTheForeground = setenv("DYAD_BACKGROUND", "0", 0);

}  // namespace
