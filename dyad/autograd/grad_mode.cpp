#include "dyad/autograd/grad_mode.h"

namespace dyad {
namespace {

thread_local bool anomaly_on = false;  // owned by the DetectAnomaly scopes of the thread

}  // namespace

GradMode::GradMode(bool enabled) noexcept : previous_(switch_tape(enabled)) {}

GradMode::~GradMode() { switch_tape(previous_); }

DetectAnomaly::DetectAnomaly(bool enabled) noexcept
    : previous_(std::exchange(anomaly_on, enabled)) {}

DetectAnomaly::~DetectAnomaly() { anomaly_on = previous_; }

bool DetectAnomaly::active() noexcept { return anomaly_on; }

}  // namespace dyad
