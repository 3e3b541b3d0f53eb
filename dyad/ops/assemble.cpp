#include "dyad/ops/assemble.h"

#include <array>

#include "dyad/core/create.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/cumulative.h"
#include "dyad/ops/diagonal.h"
#include "dyad/ops/division.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/index.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/ranges.h"
#include "dyad/ops/rearrange.h"
#include "dyad/ops/reduce.h"
#include "dyad/ops/scatter.h"
#include "dyad/ops/shapes.h"
#include "dyad/ops/sort.h"
#include "dyad/ops/views.h"

namespace dyad {
namespace {

void require_some(std::span<const Tensor> tensors, const char* function, Loc loc) {
  if (tensors.empty()) {
    throw ValueError(std::string(function) + "(): there must be at least one tensor", loc.user());
  }
}

}  // namespace

Tensor block_diag(std::span<const Tensor> blocks, Loc loc) {
  require_some(blocks, "block_diag", loc);
  const LocScope scope(loc);
  std::vector<Tensor> matrices;
  Dim columns = 0;
  for (const Tensor& block : blocks) {
    if (block.rank() > 2) {
      throw ShapeError("block_diag(" + type_string(block) + "): a block has at most 2 axes",
                       loc.user());
    }
    matrices.push_back(atleast_2d(block, loc));
    columns += matrices.back().size(1, loc);
  }
  Dim before = 0;
  for (Tensor& matrix : matrices) {
    const Dim own = matrix.size(1, loc);
    matrix = pad(matrix, {0, before}, {0, columns - before - own});
    before += own;
  }
  return concat(matrices, 0, loc);
}

Tensor block_diag(std::initializer_list<Tensor> blocks, Loc loc) {
  return block_diag(std::span(blocks.begin(), blocks.size()), loc);
}

Tensor cartesian_prod(std::span<const Tensor> vectors, Loc loc) {
  require_some(vectors, "cartesian_prod", loc);
  for (const Tensor& vector : vectors) {
    if (vector.rank() != 1) {
      throw ShapeError("cartesian_prod(" + type_string(vector) + "): each tensor is a vector",
                       loc.user());
    }
  }
  if (vectors.size() == 1) return vectors[0];
  const LocScope scope(loc);
  std::vector<Tensor> columns;
  for (const Tensor& grid : meshgrid(vectors, "ij", loc)) columns.push_back(reshape(grid, {-1}));
  return stack(columns, 1, loc);
}

Tensor cartesian_prod(std::initializer_list<Tensor> vectors, Loc loc) {
  return cartesian_prod(std::span(vectors.begin(), vectors.size()), loc);
}

Tensor combinations(const Tensor& x, std::int64_t count, bool repeats, Loc loc) {
  if (x.rank() != 1 || count < 0) {
    const std::string call =
        "combinations(" + type_string(x) + ", count = " + std::to_string(count) + "): ";
    if (count < 0) throw ValueError(call + "the count must be at least 0", loc.user());
    throw ShapeError(call + "x must be a vector", loc.user());
  }
  const LocScope scope(loc);
  const std::int64_t size = x.size(0, loc).value(loc);
  const auto n = static_cast<std::size_t>(count);
  std::vector<std::int64_t> places, chosen(n, 0);
  std::int64_t rows = 0;
  // Place i may go up to size - 1, or, without repeats, as far as leaves one for each after it.
  const auto last = [&](std::size_t i) {
    return repeats ? size - 1 : size - static_cast<std::int64_t>(n - i);
  };
  for (std::size_t i = 0; i < n && !repeats; ++i) chosen[i] = static_cast<std::int64_t>(i);
  for (bool more = n > 0 && size > 0 && chosen[n - 1] < size; more; ++rows) {
    places.insert(places.end(), chosen.begin(), chosen.end());
    std::size_t i = n;
    while (i > 0 && chosen[i - 1] == last(i - 1)) --i;
    more = i > 0;
    if (!more) continue;
    ++chosen[i - 1];
    for (; i < n; ++i) chosen[i] = chosen[i - 1] + (repeats ? 0 : 1);
  }
  return reshape(index_select(x, 0, tensor(places)), {rows, count});
}

Runs unique_consecutive(const Tensor& x, std::optional<std::int64_t> axis, Loc loc) {
  const LocScope scope(loc);
  const Tensor line = axis ? x : reshape(x, {-1});
  const int along = normalize_axis(axis.value_or(0), line.rank(), "unique_consecutive", loc);
  Tensor differs = slice(line, along, 1) != slice(line, along, 0, -1);
  Ints others;
  for (int i = 0; i < line.rank(); ++i) {
    if (i != along) others.push_back(i);
  }
  if (!others.empty()) differs = any(differs, others);
  const Dim size = line.size(along, loc);
  const Tensor starts = where(arange(size) == 0, full({}, 1, boolean), pad(differs, {1}, {0}));
  const Tensor places = squeeze(nonzero(starts), 1);
  const Tensor inverse = cumsum(to(starts, i64), 0) - 1;
  const Tensor counts = scatter_add(zeros({places.size(0)}, i64), 0, inverse, ones_like(inverse));
  return {compress(starts, line, along, loc), axis ? inverse : reshape(inverse, ops::sizes_of(x)),
          counts};
}

Tensor union1d(const Tensor& a, const Tensor& b, Loc loc) {
  const LocScope scope(loc);
  return unique(concat({reshape(a, {-1}), reshape(b, {-1})}, 0), true, {}, loc).values;
}
Tensor intersect1d(const Tensor& a, const Tensor& b, Loc loc) {
  const LocScope scope(loc);
  const Tensor own = unique(a, true, {}, loc).values;
  return compress(isin(own, b, loc), own, {}, loc);
}
Tensor setdiff1d(const Tensor& a, const Tensor& b, Loc loc) {
  const LocScope scope(loc);
  const Tensor own = unique(a, true, {}, loc).values;
  return compress(logical_not(isin(own, b, loc)), own, {}, loc);
}
Tensor setxor1d(const Tensor& a, const Tensor& b, Loc loc) {
  const LocScope scope(loc);
  return union1d(setdiff1d(a, b, loc), setdiff1d(b, a, loc), loc);
}
Tensor lexsort(std::span<const Tensor> keys, std::int64_t axis, Loc loc) {
  if (keys.empty()) throw ValueError("lexsort: a key or more is needed", loc.user());
  const LocScope called(loc, "lexsort");
  Tensor order;
  for (const Tensor& key : keys) {
    if (!order.defined()) {
      order = argsort(key, axis, false, loc);
      continue;
    }
    order = gather(order, axis, argsort(gather(key, axis, order, loc), axis, false, loc), loc);
  }
  return order;
}
Tensor lexsort(std::initializer_list<Tensor> keys, std::int64_t axis, Loc loc) {
  return lexsort(std::span(keys.begin(), keys.size()), axis, loc);
}
Tensor msort(const Tensor& x, Loc loc) { return sort(x, 0, false, loc).values; }
Tensor argwhere(const Tensor& x, Loc loc) { return nonzero(x, loc); }
std::vector<Tensor> unravel_index(const Tensor& places, const Shape& shape, Loc loc) {
  const LocScope scope(loc);
  Tensor rest = where(places < 0, places + ops::size_arg(shape.numel()), places);
  std::vector<Tensor> indices(static_cast<std::size_t>(shape.rank()));
  for (std::size_t i = indices.size(); i-- > 0;) {
    const Arg size = ops::size_arg(shape[i]);
    indices[i] = remainder(rest, size);
    rest = floor_divide(rest, size);
  }
  return indices;
}

Tensor column_stack(std::span<const Tensor> tensors, Loc loc) {
  require_some(tensors, "column_stack", loc);
  const LocScope scope(loc);
  std::vector<Tensor> columns;
  for (const Tensor& x : tensors) columns.push_back(x.rank() < 2 ? reshape(x, {-1, 1}) : x);
  return concat(columns, 1, loc);
}
Tensor column_stack(std::initializer_list<Tensor> tensors, Loc loc) {
  return column_stack(std::span(tensors.begin(), tensors.size()), loc);
}
std::vector<Tensor> hsplit(const Tensor& x, std::int64_t count, Loc loc) {
  return tensor_split(x, count, x.rank() == 1 ? 0 : 1, loc);
}
std::vector<Tensor> vsplit(const Tensor& x, std::int64_t count, Loc loc) {
  return tensor_split(x, count, 0, loc);
}
std::vector<Tensor> dsplit(const Tensor& x, std::int64_t count, Loc loc) {
  return tensor_split(x, count, 2, loc);
}
Tensor fliplr(const Tensor& x, Loc loc) { return flip(x, {1}, loc); }
Tensor flipud(const Tensor& x, Loc loc) { return flip(x, {0}, loc); }
Tensor narrow(const Tensor& x, std::int64_t axis, Dim start, Dim length, Loc loc) {
  const bool from_end = start.is_number() && start.number() < 0;
  const Dim begin = from_end ? x.size(axis, loc) + start : start;
  return slice(x, axis, begin, begin + length, 1, loc);
}
Tensor diagflat(const Tensor& x, std::int64_t k, Loc loc) {
  return diag_embed(reshape(x, {-1}, loc), k, loc);
}
Tensor diagonal_scatter(const Tensor& x, const Tensor& source, std::int64_t offset,
                        std::int64_t axis1, std::int64_t axis2, Loc loc) {
  const LocScope scope(loc);
  if (source.numel().same_as(0)) return clone(x);
  const Tensor matrices = movedim(x, {axis1, axis2}, {-2, -1}, loc);
  const Tensor row = unsqueeze(arange(matrices.size(-2)), 1), column = arange(matrices.size(-1));
  // Element i of the diagonal is in row i, or in column i where it begins below the first row.
  const Tensor place = offset >= 0 ? row : column;
  // Beyond the diagonal an element more is read, which a diagonal without elements has too.
  Shape none(static_cast<std::size_t>(source.rank()), 0), one = none;
  one.back() = 1;
  const Tensor end = size_tensor(source.size(-1, loc));
  const Tensor spread =
      index_select(pad(source, none, one), -1, minimum(reshape(place, {-1}), end));
  const Tensor values = unsqueeze(spread, offset >= 0 ? -1 : -2);
  return movedim(where(row + offset == column, values, matrices), {-2, -1}, {axis1, axis2});
}
Tensor index_reduce(const Tensor& x, std::int64_t axis, const Tensor& index, const Tensor& source,
                    std::string_view reduction, bool include_self, Loc loc) {
  if (index.rank() != 1 || source.rank() == 0) {
    throw ShapeError("index_reduce(x: " + type_string(x) + ", index: " + type_string(index) +
                         ", source: " + type_string(source) +
                         "): index must be a vector, and source has a slice for each element",
                     loc.user());
  }
  const LocScope scope(loc);
  const int along = normalize_axis(axis, source.rank(), "index_reduce", loc);
  Shape shape(static_cast<std::size_t>(source.rank()), Dim(1));
  shape[static_cast<std::size_t>(along)] = index.size(0, loc);
  const Tensor places = expand(reshape(index, shape), ops::sizes_of(source));
  return scatter_reduce(x, axis, places, source, reduction, include_self, loc);
}
Tensor reshape_as(const Tensor& x, const Tensor& other, Loc loc) {
  return reshape(x, ops::sizes_of(other, loc), loc);
}
Tensor expand_as(const Tensor& x, const Tensor& other, Loc loc) {
  return expand(x, ops::sizes_of(other, loc), loc);
}

}  // namespace dyad
