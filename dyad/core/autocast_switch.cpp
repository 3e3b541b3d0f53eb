#include "dyad/core/autocast_switch.h"

#include <utility>

namespace dyad {
namespace {

thread_local std::optional<DType> current_dtype;
thread_local std::uint64_t current_era = 0;

}  // namespace

std::optional<DType> autocast_dtype() noexcept { return current_dtype; }

AutocastSwitch::AutocastSwitch(std::optional<DType> dtype) noexcept
    : previous_(std::exchange(current_dtype, dtype)) {}
AutocastSwitch::~AutocastSwitch() { current_dtype = previous_; }

std::uint64_t autocast_era() noexcept { return current_era; }
void begin_autocast_era() noexcept { ++current_era; }

}  // namespace dyad
