#pragma once

#include <array>
#include <string>

#include "dyad/core/tensor.h"

namespace dyad::onnx {

// Functions of strings that ONNX has. Their operators are known to this layer alone: a graph with
// them runs, but its text cannot be read back.

/// a then b, element by element; they broadcast.
[[nodiscard]] Tensor text_concat(const Tensor& a, const Tensor& b, Loc loc);
/// Whether a regular expression (core/text_pattern.h) matches each whole element: bool.
[[nodiscard]] Tensor text_matches(const Tensor& x, const std::string& pattern, Loc loc);
/// Each element in capitals or in small letters.
[[nodiscard]] Tensor text_in_case(const Tensor& x, bool upper, Loc loc);
/// The pieces of each element between delimiters, along a new last axis as long as the longest
/// needs, filled up with empty strings; and how many there are (i64). At most `most` splits, if
/// `most` is not negative. The empty delimiter is runs of white space, which also give no pieces at
/// the ends.
[[nodiscard]] std::array<Tensor, 2> text_split(const Tensor& x, const std::string& delimiter,
                                               std::int64_t most, Loc loc);
/// Numbers as text, the shortest that gives them back (floats) or in decimal; and text as numbers:
/// ValueError for one that is none.
[[nodiscard]] Tensor text_of(const Tensor& numbers, Loc loc);
[[nodiscard]] Tensor number_of_text(const Tensor& x, DType dtype, Loc loc);

/// Makes their kernels known, once.
void register_text_ops();

}  // namespace dyad::onnx
