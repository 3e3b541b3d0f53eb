#include "dyad/autograd/grad_mode.h"

namespace dyad {
namespace {

thread_local bool tape_on = true;      // owned by the GradMode scopes of the thread
thread_local bool anomaly_on = false;  // owned by the DetectAnomaly scopes of the thread

}  // namespace

bool grad_enabled() noexcept { return tape_on; }

GradMode::GradMode(bool enabled) noexcept : previous_(std::exchange(tape_on, enabled)) {}

GradMode::~GradMode() { tape_on = previous_; }

DetectAnomaly::DetectAnomaly(bool enabled) noexcept
    : previous_(std::exchange(anomaly_on, enabled)) {}

DetectAnomaly::~DetectAnomaly() { anomaly_on = previous_; }

bool DetectAnomaly::active() noexcept { return anomaly_on; }

}  // namespace dyad
