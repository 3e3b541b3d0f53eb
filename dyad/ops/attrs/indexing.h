#pragma once

#include <cstdint>
#include <string>

#include "dyad/core/dtype.h"
#include "dyad/core/shape.h"
#include "dyad/ir/op_info.h"

namespace dyad::ops {

/// `concat(tensors...)`: one after the other along the axis, which may count from the end. Also
/// softmax and log_softmax.
struct AxisAttrs {
  std::int64_t axis = 0;
};

/// Attributes of the operators that take positions along an axis, which may count from the end:
/// - `gather(x, index)`: out[i][j][k] = x[i][index[i][j][k]][k] for axis 1; ranks are equal, index
///   is i64 or i32 and no longer than x along the other axes.
/// - `scatter_add(x, index, source)`: a copy of x with source[i][j][k] added at
///   [i][index[i][j][k]][k]; index and source have one shape. Equal indices add in row-major order
///   of the index.
/// - `index_select(x, index)`: the slices of x along the axis that index (any rank) names; the
///   result has the axes of index in the place of the axis.
/// Indices from 0 to size - 1 are allowed, with from_end also -size to -1, which count from the
/// end; others are an IndexError that names the operator, the index, its position and the size.
/// `of` is the operator that the positions were given to, such as cross_entropy, for the error.
struct IndexAttrs {
  std::int64_t axis = 0;
  bool from_end = true;
  std::string of = {};
};

/// `ravel_multi_index(indices...)`: places of an array of that shape as places in row-major order.
struct RavelAttrs {
  Shape shape;
};

/// `pad(x)`: `low` elements of `value` before and `high` after each axis; negative counts crop.
/// Numbers when the operator runs.
struct PadAttrs {
  Shape low;
  Shape high;
  double value = 0;
};

/// `slice(x)`: every step-th element from begin to before end along the axis; bounds as in Python,
/// also for a negative step, which walks backwards.
/// `slice_scatter(x, source)`: a copy of x in which source is that part.
struct SliceAttrs {
  std::int64_t axis = 0;
  Dim begin = 0;
  Dim end = (std::int64_t{1} << 62) - 1;
  std::int64_t step = 1;
};
/// Where the part lies in x.
[[nodiscard]] ViewLayout slice_layout(const SliceAttrs& attrs, const Shape& in,
                                      const Strides& strides, const Shape& out);

/// `select(x)`: the part at the index along the axis, which vanishes.
/// `select_scatter(x, source)`: a copy of x in which source is that part.
struct SelectAttrs {
  std::int64_t axis = 0;
  Dim index = 0;
};
/// Where the part lies in x; IndexError for an index out of range.
[[nodiscard]] ViewLayout select_layout(const SelectAttrs& attrs, const Shape& in,
                                       const Strides& strides, const Shape& out);

/// `full()`: a new tensor of that shape filled with `value`.
struct FullAttrs {
  Shape shape;
  double value = 0;
  DType dtype = DType::f32;
};

/// `arange()`: begin, begin + step, ... of `count` elements.
struct ArangeAttrs {
  Dim count;
  std::int64_t begin = 0;
  std::int64_t step = 1;
  DType dtype = DType::i64;
};

/// `size_tensor()`: the size as an i64 scalar.
struct SizeAttrs {
  Dim size;
};

}  // namespace dyad::ops
