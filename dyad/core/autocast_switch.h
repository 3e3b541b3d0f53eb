#pragma once

#include <cstdint>
#include <optional>

#include "dyad/core/dtype.h"

namespace dyad {

/// The short dtype that operators of this thread compute in where they gain from it (Autocast), or
/// none.
[[nodiscard]] std::optional<DType> autocast_dtype() noexcept;

/// Says so for this thread while it lives.
class AutocastSwitch {
 public:
  explicit AutocastSwitch(std::optional<DType> dtype) noexcept;
  ~AutocastSwitch();
  AutocastSwitch(const AutocastSwitch&) = delete;
  AutocastSwitch& operator=(const AutocastSwitch&) = delete;

 protected:
  [[nodiscard]] bool is_outermost() const noexcept { return !previous_; }

 private:
  std::optional<DType> previous_;
};

/// A number that another casting era of this thread does not have: what was cast before a backward
/// pass or a recording must not be used after it.
[[nodiscard]] std::uint64_t autocast_era() noexcept;
void begin_autocast_era() noexcept;

}  // namespace dyad
