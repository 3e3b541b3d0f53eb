#pragma once

#include <optional>

#include "dyad/core/tensor.h"

namespace dyad {

// Matrices, with any axes before them. Axes count from the end when negative.

/// x with 0 above the k-th diagonal of its last two axes (k > 0: above the main one). ShapeError
/// below rank 2.
[[nodiscard]] Tensor tril(const Tensor& x, std::int64_t k = 0,
                          Loc loc = std::source_location::current());
/// x with 0 below the k-th diagonal.
[[nodiscard]] Tensor triu(const Tensor& x, std::int64_t k = 0,
                          Loc loc = std::source_location::current());
/// The elements with the second index `offset` above the first, of two axes, which vanish; the new
/// axis is the last one. A view. ShapeError below rank 2, ValueError for one axis twice.
[[nodiscard]] Tensor diagonal(const Tensor& x, std::int64_t offset = 0, std::int64_t axis1 = 0,
                              std::int64_t axis2 = 1, Loc loc = std::source_location::current());
/// Square matrices with the last axis of x on the given diagonal, 0 elsewhere.
[[nodiscard]] Tensor diag_embed(const Tensor& x, std::int64_t offset = 0,
                                Loc loc = std::source_location::current());
/// Of a vector the matrix with it on the k-th diagonal, of a matrix its k-th diagonal. ShapeError
/// for another rank.
[[nodiscard]] Tensor diag(const Tensor& x, std::int64_t k = 0,
                          Loc loc = std::source_location::current());
/// x with `value` where all indices are equal: on the diagonal of a matrix, with `wrap` again from
/// each row on that follows an end of it by one, or that of more axes of one size (ShapeError).
[[nodiscard]] Tensor fill_diagonal(const Tensor& x, const Arg& value, bool wrap = false,
                                   Loc loc = std::source_location::current());
/// The sum of a diagonal
[[nodiscard]] Tensor trace(const Tensor& x, std::int64_t offset = 0, std::int64_t axis1 = 0,
                           std::int64_t axis2 = 1, Loc loc = std::source_location::current());

/// Ones on the k-th diagonal of a matrix, 0 elsewhere. Sizes may be symbolic.
[[nodiscard]] Tensor eye(Dim rows, Dim columns, std::int64_t k = 0, DType dtype = f32,
                         Loc loc = std::source_location::current());
/// Column j is the vector x to the power j, or size - 1 - j unless increasing; as many columns as x
/// has elements unless given.
[[nodiscard]] Tensor vander(const Tensor& x, std::optional<Dim> columns = {},
                            bool increasing = false, Loc loc = std::source_location::current());
/// Rows and columns (i64[2, count]) of the elements on and below the k-th diagonal, in row-major
/// order.
[[nodiscard]] Tensor tril_indices(std::int64_t rows, std::int64_t columns, std::int64_t k = 0,
                                  Loc loc = std::source_location::current());
/// Rows and columns (i64[2, count]) of the elements on and above the k-th diagonal, in row-major
/// order.
[[nodiscard]] Tensor triu_indices(std::int64_t rows, std::int64_t columns, std::int64_t k = 0,
                                  Loc loc = std::source_location::current());

}  // namespace dyad
