#pragma once

#include <cstdint>
#include <string>

#include "dyad/core/shape.h"

namespace dyad::ops {

/// `checked(x)`: x, whose elements must be finite and from 0 to `most`; with `sum` those along the
/// last axis must not all be 0. `of` and `argument` say what they were given to, for the error.
struct CheckedAttrs {
  static constexpr std::int64_t kAny = (std::int64_t{1} << 62) - 1;  ///< as `most`: no bound

  std::string of = {};
  std::string argument = {};
  Dim most = kAny;
  bool sum = false;
};

}  // namespace dyad::ops
