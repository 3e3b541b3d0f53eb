#pragma once

#include <string_view>
#include <vector>

#include "dyad/debug/line_diff.h"

namespace dyad::debug {

/// What differs between the texts of two graphs (`to_string`), line by line. The numbers of values
/// are no difference: a line is the same when it does the same to the same values. Values are
/// called as in `after`; one that is gone and was called %7 is called %was7.
[[nodiscard]] std::vector<DiffLine> graph_difference(std::string_view before,
                                                     std::string_view after);

}  // namespace dyad::debug
