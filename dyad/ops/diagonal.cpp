#include "dyad/ops/diagonal.h"

#include <algorithm>
#include <cstdlib>

#include "dyad/core/create.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/division.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/reduce.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/views.h"

namespace dyad {
namespace ops {
namespace {

/// The numbers of rows, as a column, and of columns, as a row.
Tensor row_numbers(Dim rows) { return unsqueeze(arange(rows), 1); }
Tensor column_numbers(Dim columns) { return unsqueeze(arange(columns), 0); }

/// A diagonal outside every matrix, in place of one so far out that the number of a row cannot be
/// added to it.
std::int64_t diagonal_number(std::int64_t k) {
  constexpr std::int64_t kOutside = std::int64_t{1} << 62;
  return std::clamp(k, -kOutside, kOutside);
}

struct TriluAttrs {
  std::int64_t k = 0;
  bool upper = true;
};

struct Trilu {
  using Attrs = TriluAttrs;
  static constexpr Schema schema{
      .name = "trilu",
      .inputs = kMoved,
      .outputs = kOut,
      .doc = "x with 0 below (upper) or above the k-th diagonal of its last two axes.",
      .batching = Batching::leading};
  static Types infer(const InferIn& in, const Attrs&) {
    if (in[0].rank() < 2) fail_shape(in, "a matrix is needed, which has 2 axes");
    return {in[0]};
  }
  static std::vector<Tensor> expand(const Attrs& attrs, TensorRefs in, Loc) {
    const Tensor& x = *in[0];
    const Tensor row = row_numbers(x.size(-2)) + attrs.k, column = column_numbers(x.size(-1));
    return {where(attrs.upper ? row <= column : row >= column, x, false)};
  }
  static void grad(Gradient& g, const Attrs& attrs) { g.set(0, apply<Trilu>(attrs, {}, g.grad())); }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    const std::int64_t k[] = {attrs.k};
    const std::string place = e.node("Squeeze", {e.constant_i64(k)});
    e.output(0, e.node("Trilu", {e.input(0), place}, {{"upper", std::int64_t{attrs.upper}}}));
  }
};

struct DiagonalAttrs {
  std::int64_t offset = 0;
  std::int64_t axis1 = 0;
  std::int64_t axis2 = 1;
};

/// All axes but the two, then these.
Ints matrix_last(const DiagonalAttrs& attrs, int rank) {
  const int first = from_front(attrs.axis1, rank), second = from_front(attrs.axis2, rank);
  Ints axes;
  for (int i = 0; i < rank; ++i) {
    if (i != first && i != second) axes.push_back(i);
  }
  axes.push_back(first);
  axes.push_back(second);
  return axes;
}
Ints inverse_of(const Ints& axes) {
  Ints inverse(axes.size(), 0);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    inverse[static_cast<std::size_t>(axes[i])] = static_cast<std::int64_t>(i);
  }
  return inverse;
}

/// Matrices of `rows` by `columns`: the last axis of `value` on a diagonal, `base` elsewhere.
Tensor on_diagonal(const Tensor& value, const Arg& base, Dim rows, Dim columns, std::int64_t offset,
                   Loc loc) {
  const LocScope scope(loc);
  Shape low(Ints(static_cast<std::size_t>(value.rank()), 0)), high = low;
  low[low.size() - 1] = std::max<std::int64_t>(-offset, 0);
  high[high.size() - 1] = rows - low[low.size() - 1] - value.size(-1);
  const Tensor by_row = unsqueeze(pad(value, low, high), -1);
  return where(row_numbers(rows) + offset == column_numbers(columns), by_row, base);
}

struct Diagonal {
  using Attrs = DiagonalAttrs;
  static constexpr Schema schema{.name = "diagonal",
                                 .inputs = kMoved,
                                 .outputs = kOut,
                                 .doc = "A diagonal of two axes of x as the last axis."};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    const int rank = in[0].rank();
    if (rank < 2) fail_shape(in, "a matrix is needed, which has 2 axes");
    const int first = checked_axis(in, attrs.axis1, rank),
              second = checked_axis(in, attrs.axis2, rank);
    if (first == second) fail_value(in, "axis " + std::to_string(first) + " is named twice");
    Shape shape;
    for (int i = 0; i < rank; ++i) {
      if (i != first && i != second) shape.push_back(in[0].shape()[static_cast<std::size_t>(i)]);
    }
    const Dim rows = in[0].shape()[static_cast<std::size_t>(first)];
    const Dim columns = in[0].shape()[static_cast<std::size_t>(second)];
    const Dim length =
        attrs.offset >= 0 ? min(rows, columns - attrs.offset) : min(rows + attrs.offset, columns);
    shape.push_back(length.is_number() && length.number() >= 0 ? length : max(length, 0));
    return {Type(in[0].dtype(), shape)};
  }
  static ViewLayout view(const Attrs& attrs, const Shape& in, const Strides& strides,
                         const Shape& out) {
    const auto first = static_cast<std::size_t>(from_front(attrs.axis1, in.rank()));
    const auto second = static_cast<std::size_t>(from_front(attrs.axis2, in.rank()));
    ViewLayout layout{.shape = out};
    for (std::size_t i = 0; i < strides.size(); ++i) {
      if (i != first && i != second) layout.strides.push_back(strides[i]);
    }
    layout.strides.push_back(strides[first] + strides[second]);
    if (out.numbers()[out.size() - 1] > 0) {
      layout.offset =
          attrs.offset >= 0 ? attrs.offset * strides[second] : -attrs.offset * strides[first];
    }
    return layout;
  }
  static Tensor write(const Attrs& attrs, const Tensor& x, const Tensor& value, Loc loc) {
    const Ints axes = matrix_last(attrs, x.rank());
    const Tensor moved = permute(x, axes, loc);
    const Tensor written =
        on_diagonal(value, moved, moved.size(-2, loc), moved.size(-1, loc), attrs.offset, loc);
    return permute(written, inverse_of(axes), loc);
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    const Shape& shape = g.input_shape(0);
    const Ints axes = matrix_last(attrs, shape.rank());
    const auto size = [&](std::size_t from_end) {
      return shape[static_cast<std::size_t>(axes[axes.size() - from_end])];
    };
    const Tensor moved = on_diagonal(g.grad(), 0, size(2), size(1), attrs.offset, {});
    g.set(0, permute(moved, inverse_of(axes)));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    // Every (columns + 1)-th element of the matrices as rows.
    const Shape& in = e.input_type(0).shape();
    const Ints axes = matrix_last(attrs, in.rank());
    Shape rows;
    for (std::size_t i = 0; i + 2 < axes.size(); ++i) {
      rows.push_back(in[static_cast<std::size_t>(axes[i])]);
    }
    const Dim height = in[static_cast<std::size_t>(axes[axes.size() - 2])];
    const Dim width = in[static_cast<std::size_t>(axes[axes.size() - 1])];
    rows.push_back(height * width);
    const Shape& out = e.output_type().shape();
    const Dim start = attrs.offset >= 0 ? Dim(attrs.offset) : width * -attrs.offset;
    const std::string moved = e.node(
        "Transpose", {e.input(0)}, {{"perm", std::vector<std::int64_t>(axes.begin(), axes.end())}});
    const std::string flat =
        e.node("Reshape", {moved, e.shape(rows)}, {{"allowzero", std::int64_t{1}}});
    const std::int64_t last[] = {static_cast<std::int64_t>(rows.size()) - 1};
    e.output(0, e.node("Slice", {flat, e.shape({start}),
                                 e.shape({start + out[out.size() - 1] * (width + 1)}),
                                 e.constant_i64(last), e.shape({width + 1})}));
  }
};

Tensor triangle_indices(std::int64_t rows, std::int64_t columns, std::int64_t k, bool upper,
                        Loc loc) {
  if (rows < 0 || columns < 0) {
    throw ValueError((upper ? "triu_indices(rows = " : "tril_indices(rows = ") +
                         std::to_string(rows) + ", columns = " + std::to_string(columns) +
                         "): sizes must be at least 0",
                     loc.user());
  }
  std::vector<std::int64_t> at[2];
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t border = std::clamp<std::int64_t>(row + k + (upper ? 0 : 1), 0, columns);
    for (std::int64_t column = upper ? border : 0; column < (upper ? columns : border); ++column) {
      at[0].push_back(row);
      at[1].push_back(column);
    }
  }
  const auto count = static_cast<std::int64_t>(at[0].size());
  at[0].insert(at[0].end(), at[1].begin(), at[1].end());
  return tensor(at[0], {2, count}, loc);
}

}  // namespace

std::span<const OpInfo* const> diagonal_rows() {
  static constexpr const OpInfo* kRows[] = {&op_info<Trilu>, &op_info<Diagonal>};
  return kRows;
}

}  // namespace ops

Tensor tril(const Tensor& x, std::int64_t k, Loc loc) {
  const LocScope called(loc, "tril");
  return apply<ops::Trilu>({.k = ops::diagonal_number(k), .upper = false}, loc, x);
}
Tensor triu(const Tensor& x, std::int64_t k, Loc loc) {
  const LocScope called(loc, "triu");
  return apply<ops::Trilu>({.k = ops::diagonal_number(k)}, loc, x);
}
Tensor diagonal(const Tensor& x, std::int64_t offset, std::int64_t axis1, std::int64_t axis2,
                Loc loc) {
  return apply<ops::Diagonal>(
      {.offset = offset, .axis1 = ops::normalized(axis1, x), .axis2 = ops::normalized(axis2, x)},
      loc, x);
}
Tensor diag_embed(const Tensor& x, std::int64_t offset, Loc loc) {
  const Dim size = x.size(-1, loc) + std::abs(offset);
  return ops::on_diagonal(x, false, size, size, offset, loc);
}
Tensor diag(const Tensor& x, std::int64_t k, Loc loc) {
  if (x.rank() == 1) return diag_embed(x, k, loc);
  if (x.rank() == 2) return diagonal(x, k, 0, 1, loc);
  throw ShapeError("diag(" + type_string(x) +
                       "): a vector or a matrix is needed; diag_embed() and diagonal() take axes "
                       "before them",
                   loc.user());
}
Tensor fill_diagonal(const Tensor& x, const Arg& value, bool wrap, Loc loc) {
  const auto fail = [&](const std::string& rule) {
    throw ShapeError("fill_diagonal(" + type_string(x) + "): " + rule, loc.user());
  };
  if (x.rank() < 2) fail("x must have two axes or more");
  const LocScope called(loc, "fill_diagonal");
  const Dim columns = x.size(-1, loc);
  Tensor mask;
  if (x.rank() == 2) {
    const Tensor rows = ops::row_numbers(x.size(0, loc));
    // The diagonal begins again in the second row below its end.
    mask =
        eq(wrap ? remainder(rows, ops::size_arg(columns + 1)) : rows, ops::column_numbers(columns));
  } else {
    for (int axis = 0; axis + 1 < x.rank(); ++axis) {
      if (!(x.size(axis, loc) == columns)) fail("more axes than two must be of one size");
      Shape beside(static_cast<std::size_t>(x.rank()), 1);
      beside[static_cast<std::size_t>(axis)] = columns;
      const Tensor along = eq(reshape(arange(columns), beside), arange(columns));
      mask = mask.defined() ? logical_and(mask, along) : along;
    }
  }
  return where(mask, ops::as_dtype(value, x.dtype(), loc), x, loc);
}
Tensor trace(const Tensor& x, std::int64_t offset, std::int64_t axis1, std::int64_t axis2,
             Loc loc) {
  return sum(diagonal(x, offset, axis1, axis2, loc), {-1}, false, loc);
}
Tensor eye(Dim rows, Dim columns, std::int64_t k, DType dtype, Loc loc) {
  const LocScope scope(loc);
  return to(ops::row_numbers(rows) + k == ops::column_numbers(columns), dtype, loc);
}
Tensor vander(const Tensor& x, std::optional<Dim> columns, bool increasing, Loc loc) {
  if (x.rank() != 1) {
    throw ShapeError("vander(" + type_string(x) + "): a vector is needed", loc.user());
  }
  const LocScope scope(loc);
  const Dim count = columns.value_or(x.size(0, loc));
  Tensor powers = arange(count);
  if (!increasing) powers = ops::size_arg(count - 1).tensor() - powers;
  return pow(unsqueeze(x, 1), powers, loc);
}
Tensor tril_indices(std::int64_t rows, std::int64_t columns, std::int64_t k, Loc loc) {
  return ops::triangle_indices(rows, columns, k, false, loc);
}
Tensor triu_indices(std::int64_t rows, std::int64_t columns, std::int64_t k, Loc loc) {
  return ops::triangle_indices(rows, columns, k, true, loc);
}

}  // namespace dyad
