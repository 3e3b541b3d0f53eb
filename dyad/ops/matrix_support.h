#pragma once

#include <string>

#include "dyad/core/tape_switch.h"
#include "dyad/ir/op_info.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/complex_support.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/views.h"

/// What the operators on matrices share. For the .cpp files of this layer.
namespace dyad::ops {

[[nodiscard]] inline Dim from_back(const Shape& shape, int i) {
  return shape[static_cast<std::size_t>(shape.rank() - i)];
}
/// The shape without its last `count` axes.
[[nodiscard]] inline Shape leading(const Shape& shape, int count) {
  return Shape(shape.begin(), shape.end() - count);
}
[[nodiscard]] inline Shape with_axes(Shape shape, std::initializer_list<Dim> axes) {
  for (const Dim d : axes) shape.push_back(d);
  return shape;
}

/// The shape of the matrix product of inputs `a_at` and `b_at`, either transposed on request; the
/// axes before the last two broadcast. Throws ShapeError.
[[nodiscard]] inline Shape product_shape(const InferIn& in, std::size_t a_at, std::size_t b_at,
                                         bool transpose_a = false, bool transpose_b = false) {
  const Shape &a = in[a_at].shape(), &b = in[b_at].shape();
  for (const std::size_t i : {a_at, b_at}) {
    if (in[i].rank() >= 2) continue;
    // Where vectors are operands they get a second axis before they come here, but for a graph's
    // text.
    fail_shape(in, std::string(input_info(in.op, i)->name) + " has " +
                       std::to_string(in[i].rank()) +
                       (in[i].rank() == 0 ? " axes, a matrix product needs 1 or more"
                                          : " axis, a matrix product needs 2 or more"));
  }
  const Dim columns = from_back(a, transpose_a ? 2 : 1), rows = from_back(b, transpose_b ? 1 : 2);
  if (!columns.same_as(rows) && !(columns == rows)) {
    fail_shape(in, "columns of a = " + to_string(columns) + " but rows of b = " + to_string(rows));
  }
  Shape shape;
  const Shape batch_a = leading(a, 2), batch_b = leading(b, 2);
  if (!broadcast(batch_a, batch_b, shape)) {
    fail_shape(in, "the axes before the last two, " + to_string(batch_a) + " and " +
                       to_string(batch_b) + ", do not broadcast");
  }
  return with_axes(shape, {from_back(a, transpose_a ? 1 : 2), from_back(b, transpose_b ? 2 : 1)});
}
/// ShapeError unless input i has two axes or more.
inline void require_matrices(const InferIn& in, std::size_t i) {
  if (in[i].rank() >= 2) return;
  fail_shape(in, std::string(in.op.inputs[i].name) + " has " + std::to_string(in[i].rank()) +
                     (in[i].rank() == 1 ? " axis" : " axes") +
                     ", but matrices are needed: [..., rows, columns]");
}
/// ShapeError unless the last two axes of input i are of one size.
inline void require_square(const InferIn& in, std::size_t i) {
  require_matrices(in, i);
  const Shape& shape = in[i].shape();
  if (from_back(shape, 1) == from_back(shape, 2)) return;
  fail_shape(in, std::string(in.op.inputs[i].name) + " must hold square matrices, but has " +
                     to_string(from_back(shape, 2)) + " rows and " +
                     to_string(from_back(shape, 1)) + " columns");
}

// Complex matrices are real ones of twice the size, [[re, -im], [im, re]]: their products, inverses
// and pseudo-inverses are those of the complex ones.

[[nodiscard]] inline Tensor real_columns(const Tensor& x) { return concat({real(x), imag(x)}, -2); }
[[nodiscard]] inline Tensor real_matrix(const Tensor& x) {
  return concat({real_columns(x), concat({neg(imag(x)), real(x)}, -2)}, -1);
}
[[nodiscard]] inline Tensor complex_columns(const Tensor& x) {
  const Dim rows = x.size(-2) / 2;
  return complex(slice(x, -2, 0, rows), slice(x, -2, rows));
}
[[nodiscard]] inline Tensor complex_matrix(const Tensor& x) {
  return complex_columns(slice(x, -1, 0, x.size(-1) / 2));
}

/// Whether what is computed from x is put on the tape.
[[nodiscard]] inline bool is_taped(const Tensor& x) {
  return grad_enabled() && x.defined() && x.tracks_grad();
}

/// The matrices of x transposed.
[[nodiscard]] inline Tensor mt(const Tensor& x) { return transpose(x, -1, -2); }
/// Where row + `shift` >= column, for the matrices of x: bool.
[[nodiscard]] inline Tensor lower_mask(const Tensor& x, std::int64_t shift) {
  return ge(unsqueeze(arange(x.size(-2)), 1) + shift, arange(x.size(-1)));
}
[[nodiscard]] inline Tensor diagonal_mask(const Tensor& x) {
  return eq(unsqueeze(arange(x.size(-2)), 1), arange(x.size(-1)));
}
/// The lower triangle of the matrices of x: what lies above the diagonal that is `shift` higher
/// than the main one is 0.
[[nodiscard]] inline Tensor lower_part(const Tensor& x, std::int64_t shift = 0) {
  return where(lower_mask(x, shift), x, 0);
}
[[nodiscard]] inline Tensor upper_part(const Tensor& x) { return where(lower_mask(x, -1), 0, x); }
[[nodiscard]] inline Tensor symmetric_part(const Tensor& x) { return (x + mt(x)) * 0.5; }

}  // namespace dyad::ops
