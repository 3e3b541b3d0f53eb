#pragma once

#include <initializer_list>
#include <span>
#include <string_view>

#include "dyad/core/tensor.h"

namespace dyad {

/// Products of tensors summed over the subscripts that the result does not name, as in NumPy:
/// `einsum("bij,bjk->bik", {a, b})`. A subscript is one letter for one axis; the same letter has
/// the same size everywhere, where a size of 1 broadcasts. A letter that one operand has twice
/// takes that operand's diagonal (`"ii->i"`). `...` stands for any number of axes, which broadcast.
/// Without `->` the result has the axes of `...` and then, in alphabetical order, the letters that
/// occur once. Blanks do not count.
///
/// Operands are contracted two by two, each pair as one matmul over views of them, in the order
/// that takes the fewest multiplications: the best one for up to 8 operands, beyond that the pair
/// whose result is smallest against what went into it. A size that is not known when a graph is
/// made counts as 64 there, so with three operands or more such a graph may add in another order
/// than the eager call. Number or complex dtypes, all alike (DTypeError); nothing is conjugated.
///
/// ValueError for an equation that cannot be read, or that has not one term for each operand;
/// ShapeError for a term of another number of axes than its operand and for a letter of two sizes.
[[nodiscard]] Tensor einsum(std::string_view equation, std::span<const Tensor> tensors,
                            Loc loc = std::source_location::current());
[[nodiscard]] Tensor einsum(std::string_view equation, std::initializer_list<Tensor> tensors,
                            Loc loc = std::source_location::current());

}  // namespace dyad
