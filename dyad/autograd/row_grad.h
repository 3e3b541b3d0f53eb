#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dyad/core/tensor.h"

namespace dyad {

/// The gradient of a table by the rows that were read: rows[n, ...] to be added at index[n] of a
/// tensor; equal indices add up. Undefined when there is none.
struct SparseRows {
  Tensor index, rows;
  [[nodiscard]] bool defined() const noexcept { return index.defined(); }
};

/// What backward() accumulated for a leaf as rows alone (see sparse_embedding); uses of the table
/// follow one another. leaf.grad() gives it, and what came as a whole, as one dense tensor.
[[nodiscard]] SparseRows sparse_grad(const Tensor& leaf);

namespace autograd {

/// What the gradient of a leaf consists of: what came as a whole, and what came as rows alone. Of
/// these, index and rows are gradients of leaves of their own.
enum class GradPart : std::uint8_t { whole, index, rows };
/// The leaf that keeps that part: `leaf` itself, or one made for it if need be.
[[nodiscard]] const Tensor& part_of(const Tensor& leaf, GradPart part);

/// What was accumulated as a whole, apart from rows.
[[nodiscard]] Tensor dense_grad(const Tensor& leaf);
/// Adds rows to what a leaf has.
void accumulate_rows(const Tensor& leaf, const Tensor& index, const Tensor& rows);
/// Replaces the rows that a leaf has.
void set_sparse_grad(const Tensor& leaf, const SparseRows& rows);
/// The rows added to `dense`, or to zeros of that shape.
[[nodiscard]] Tensor with_rows(const Tensor& dense, const SparseRows& rows, const Shape& shape);
/// As graph_gradients, but what comes as rows alone is left in `rows`, one for each input.
std::vector<Tensor> graph_gradients_by_rows(const Tensor& output, std::span<const Tensor> inputs,
                                            std::vector<SparseRows>& rows, Loc loc);

}  // namespace autograd
}  // namespace dyad
