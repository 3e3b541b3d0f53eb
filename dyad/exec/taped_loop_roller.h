#pragma once

#include <unordered_set>

#include "dyad/exec/moving_recording.h"
#include "dyad/exec/taped_loop.h"

namespace dyad::exec {

/// Puts two loops in the place of the steps of one and of the pass that came back through it, if
/// these are alike and nobody else has to do with what they made, but for `later` nodes, those of
/// later passes: these read single rows of what the loops stack. `in_vain`: all steps backwards are
/// in, of which the first computes what it did not.
[[nodiscard]] bool roll_taped_loop(MovingRecording& moving, TapedLoop& loop,
                                   std::unordered_set<const Node*> later, bool in_vain);

}  // namespace dyad::exec
