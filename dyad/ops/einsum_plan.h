#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "dyad/core/dim.h"
#include "dyad/core/shape.h"

/// How an einsum is read and in which order its operands are contracted; nothing here computes.
namespace dyad::ops {

/// One axis: a letter, or the i-th axis of `...` counted from the last, as -1 - i.
using Subscript = int;
using Subscripts = std::vector<Subscript>;

/// `'i'`, or `... (axis 0 from the end)`: how messages name a subscript.
[[nodiscard]] std::string subscript_name(Subscript subscript);

/// An equation for operands of known ranks.
struct EinsumTerms {
  std::vector<Subscripts> operands;
  Subscripts result;
};

/// Reads an equation; what is wrong with it comes back in `error` (empty when nothing is).
/// `shape_error` tells that a rank does not fit.
[[nodiscard]] EinsumTerms parse_einsum(std::string_view equation, const std::vector<int>& ranks,
                                       std::string& error, bool& shape_error);

/// Where `...` stands in an operand, and for how many axes; axis -1 when it does not.
struct EllipsisAt {
  int axis = -1, axes = 0;
};
/// For an equation that parse_einsum takes.
[[nodiscard]] std::vector<EllipsisAt> ellipses_of(std::string_view equation,
                                                  const std::vector<int>& ranks);

/// Pairs of positions, first < second: the two are taken out of the list of operands, and what
/// they give is put at its end. With n operands there are n - 1 steps.
using ContractionOrder = std::vector<std::pair<int, int>>;

/// The order for operands with these subscripts, each named once in an operand; `size` gives the
/// size of a subscript. Up to 8 operands: the fewest multiplications in all.
template <class Size>
[[nodiscard]] ContractionOrder contraction_order(const std::vector<Subscripts>& operands,
                                                 const Subscripts& result, Size&& size);

/// The same by the sizes of numbered subscripts, as bits: what the template reduces to. Of sizes
/// that are no numbers the current evaluator is asked which order takes less: at most 4 operands.
[[nodiscard]] ContractionOrder contraction_order_of_bits(std::vector<std::uint64_t> operands,
                                                         std::uint64_t result,
                                                         const std::vector<double>& sizes);
[[nodiscard]] ContractionOrder contraction_order_of_bits(const std::vector<std::uint64_t>& operands,
                                                         std::uint64_t result,
                                                         const std::vector<Dim>& sizes);

template <class Size>
ContractionOrder contraction_order(const std::vector<Subscripts>& operands,
                                   const Subscripts& result, Size&& size) {
  Subscripts numbered;
  std::vector<std::remove_cvref_t<std::invoke_result_t<Size&, Subscript>>> sizes;
  const auto bits_of = [&](const Subscripts& subscripts) {
    std::uint64_t bits = 0;
    for (const Subscript s : subscripts) {
      std::size_t at = 0;
      while (at < numbered.size() && numbered[at] != s) ++at;
      if (at == numbered.size()) {
        numbered.push_back(s);
        sizes.push_back(size(s));
      }
      bits |= std::uint64_t{1} << at;
    }
    return bits;
  };
  std::vector<std::uint64_t> bits;
  for (const Subscripts& operand : operands) bits.push_back(bits_of(operand));
  const std::uint64_t wanted = bits_of(result);
  return contraction_order_of_bits(std::move(bits), wanted, sizes);
}

}  // namespace dyad::ops
