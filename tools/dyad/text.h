#pragma once

#include <cstdint>
#include <string>

#include "dyad/debug/columns.h"

namespace dyad::tool {

using debug::columns;

/// `1.2 kB`, `46.8 MB`: powers of 1000.
[[nodiscard]] std::string bytes_text(std::uint64_t bytes);
/// `11,689,512`.
[[nodiscard]] std::string count_text(std::uint64_t count);
/// `12.3 ms`, `4.56 us`: three digits.
[[nodiscard]] std::string time_text(double ms);
/// `1 node`, `3 nodes`.
[[nodiscard]] std::string plural(std::uint64_t count, const std::string& noun);

}  // namespace dyad::tool
