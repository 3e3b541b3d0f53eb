#pragma once

#include "dyad/exec/moving_recording.h"
#include "dyad/exec/taped_loop.h"

namespace dyad::exec {

/// Puts two loops in the place of the steps of one and of the pass that came back through it, if
/// these are alike and nobody else has to do with what they made.
[[nodiscard]] bool roll_taped_loop(MovingRecording& moving, TapedLoop& loop);

}  // namespace dyad::exec
