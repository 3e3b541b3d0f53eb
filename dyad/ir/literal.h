#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "dyad/core/tensor.h"

namespace dyad {

/// Text of values as messages and text graphs show them, and elements of concrete tensors without
/// an evaluator.

/// The shortest decimal that reads back to the same double, always with a point, exponent, `inf` or
/// `nan` (`2.0`).
[[nodiscard]] std::string number_text(double value);
/// In double quotes; quotes, backslashes, control characters and bytes that are no UTF-8 escaped.
[[nodiscard]] std::string quote(std::string_view text);

/// The elements of a concrete tensor, row-major without gaps.
[[nodiscard]] std::vector<std::byte> packed_elements(const Tensor& tensor);
/// One element: the shortest decimal that reads back to the same bits in its dtype; a NaN with
/// other bits than the canonical one prints its bits, `nan:0x7fc00001`.
[[nodiscard]] std::string element_text(DType dtype, const std::byte* element);
/// Elements up to which constants are compared by value and printed in line.
inline constexpr std::int64_t kSmallConstant = 16;

}  // namespace dyad
