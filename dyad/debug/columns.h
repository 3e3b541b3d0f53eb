#pragma once

#include <string>
#include <vector>

namespace dyad::debug {

/// Rows of cells as text, in columns two spaces apart; those named in `alignment` (`"lrr"`: `r` for
/// each) are aligned right. Widths are counted in characters; no row has more cells than that.
[[nodiscard]] std::string columns(const std::vector<std::vector<std::string>>& rows,
                                  const std::string& alignment, const std::string& indent = "  ");

}  // namespace dyad::debug
