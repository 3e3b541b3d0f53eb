#pragma once

#include <string>
#include <vector>

#include "dyad/core/tensor.h"

namespace dyad::tool {

/// Images (f32[n, 1, rows, columns], 0 to 1) side by side as text, two rows of pixels a line, with
/// a caption under each.
[[nodiscard]] std::string draw_digits(const Tensor& images,
                                      const std::vector<std::string>& captions);

}  // namespace dyad::tool
