#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "dyad/core/dim.h"

// Lists of sizes as integers and floats hold them, and what operators make of them, element by
// element, as far as that is the same for every value of the symbols.

namespace dyad::onnx::sizes {

/// A size, or a fraction of one: size / over.
struct Ratio {
  Dim size;
  std::int64_t over = 1;
};
/// By element; nothing where only a run can tell.
using Ratios = std::vector<std::optional<Ratio>>;
/// Nothing where it is not known how many there are.
using Known = std::optional<Ratios>;

[[nodiscard]] Ratio as_ratio(Dim size);
[[nodiscard]] Known one(Dim size);
[[nodiscard]] bool is_whole(const Ratio& x);
/// A number in a float: nothing unless it is one with a small denominator.
[[nodiscard]] std::optional<Ratio> ratio_of(double value);

/// f of two integers.
[[nodiscard]] Known combined(const Known& a, const Known& b, const std::function<Dim(Dim, Dim)>& f);
/// f of two sizes over a common denominator.
[[nodiscard]] Known aligned(const Known& a, const Known& b, const std::function<Dim(Dim, Dim)>& f);
[[nodiscard]] Known times(const Known& a, const Known& b);
/// By a number that is not 0.
[[nodiscard]] Known quotient(const Known& a, const Known& b);
/// f by what integers may be divided by: positive numbers, or sizes, of which a 0 ends the run.
[[nodiscard]] Known by_divisor(const Known& a, const Known& b,
                               const std::function<Dim(Dim, Dim)>& f);
[[nodiscard]] Known floors(const Known& x);
[[nodiscard]] Known ceilings(const Known& x);
/// Toward 0.
[[nodiscard]] Known cut(const Known& x);
/// Truth, as 0 and 1, by the operator's name.
[[nodiscard]] Known compared(std::string_view op, const Known& a, const Known& b);
[[nodiscard]] Known truth(const Known& x);
/// One number of all: their sum, prod, max or min.
[[nodiscard]] Known folded(std::string_view op, const Known& x);
/// Of tensors of bool and of numbers.
[[nodiscard]] Known chosen(const Known& condition, const Known& a, const Known& b);
/// Those at positions, which may count from the end.
[[nodiscard]] Known picked(const Known& x, const Known& positions);

[[nodiscard]] Dim larger(Dim a, Dim b);
[[nodiscard]] Dim smaller(Dim a, Dim b);
[[nodiscard]] Dim sum_of(Dim a, Dim b);
[[nodiscard]] Dim difference_of(Dim a, Dim b);

}  // namespace dyad::onnx::sizes
