#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dyad/core/tensor.h"

namespace dyad {

// Tensors of strings. An element is the address of its text in a table that holds each text once
// and lives as long as the process: so strings are moved, gathered, padded and compared as words
// are, and two elements are equal when their addresses are. `tensor({"a", "b"})` makes one too.

/// The element of a string tensor: null is the empty string.
struct Text {
  const std::string* address = nullptr;
  [[nodiscard]] std::string_view view() const noexcept {
    return address ? std::string_view(*address) : std::string_view();
  }
};
/// The element that holds `text`. Thread-safe.
[[nodiscard]] Text text_element(std::string_view text);

/// A string tensor of `shape`, one of whose sizes may be -1; ShapeError when it does not hold that
/// many.
[[nodiscard]] Tensor strings(std::span<const std::string> values, const Shape& shape = {-1},
                             Loc loc = std::source_location::current());
/// The elements of a string tensor in row-major order; DTypeError for another dtype.
[[nodiscard]] std::vector<std::string> to_strings(const Tensor& x,
                                                  Loc loc = std::source_location::current());

}  // namespace dyad
