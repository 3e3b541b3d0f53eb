#include "dyad/autograd/grad_mode.h"

namespace dyad {
namespace {

thread_local bool anomaly_on = false;  // owned by the DetectAnomaly scopes of the thread
thread_local std::size_t least_bytes_made_again =
    std::size_t{1} << 20;  // owned by the RematerializeFrom scopes of the thread

}  // namespace

GradMode::GradMode(bool enabled) noexcept : previous_(switch_tape(enabled)) {}

GradMode::~GradMode() { switch_tape(previous_); }

RematerializeFrom::RematerializeFrom(std::size_t bytes) noexcept
    : previous_(std::exchange(least_bytes_made_again, bytes)) {}

RematerializeFrom::~RematerializeFrom() { least_bytes_made_again = previous_; }

std::size_t RematerializeFrom::current() noexcept { return least_bytes_made_again; }

DetectAnomaly::DetectAnomaly(bool enabled) noexcept
    : previous_(std::exchange(anomaly_on, enabled)) {}

DetectAnomaly::~DetectAnomaly() { anomaly_on = previous_; }

bool DetectAnomaly::active() noexcept { return anomaly_on; }

}  // namespace dyad
