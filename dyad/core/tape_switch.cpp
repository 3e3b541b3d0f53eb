#include "dyad/core/tape_switch.h"

#include <utility>

namespace dyad {
namespace {

thread_local bool tape_on = true;  // owned by the GradMode scopes of the thread

}  // namespace

bool grad_enabled() noexcept { return tape_on; }

bool switch_tape(bool on) noexcept { return std::exchange(tape_on, on); }

}  // namespace dyad
