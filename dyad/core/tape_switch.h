#pragma once

namespace dyad {

/// True while operators on tensors that track gradients are put on the tape (the default in each
/// thread).
[[nodiscard]] bool grad_enabled() noexcept;

/// Says so for this thread, and returns what it was: of GradMode, which says it back.
bool switch_tape(bool on) noexcept;

}  // namespace dyad
