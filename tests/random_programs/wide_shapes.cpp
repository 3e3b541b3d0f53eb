#include "rows.h"

// Views, elements in other places, elements chosen and put by other tensors.

namespace dyad::testing {
namespace {

std::vector<Row> view_rows() {
  return {
      {DYAD_ROW(as_strided(x, {2, 2}, {i, j})), value(1) + whole(0, 3) + whole(0, 2), 2},
      {DYAD_ROW(as_strided(x, {l, 2}, {j, k})), value(1) + size(0) + whole(0, 1) + whole(0, 1), 2},
      {DYAD_ROW(as_strided(x, {3}, {i}, j)), value(1) + whole(0, 2) + whole(0, 2)},
      {DYAD_ROW(unfold(x, i, j, 2)), value(1, 3) + axis() + whole(1, 3)},
      {DYAD_ROW(movedim(x, i, j)), value(2) + axis() + axis()},
      {DYAD_ROW(movedim(x, {0, 1}, {1, 0})), value(2)},
      {DYAD_ROW(swapaxes(x, i, j)), value(2) + axis() + axis(), 2},
      {DYAD_ROW(squeeze(x, axes)), value(1) + axes()},
      {DYAD_ROW(flatten(x, i, j)), value(2) + axis() + axis()},
      {DYAD_ROW(ravel(x)), value()},
      {DYAD_ROW(unflatten(x, i, {1, -1})), value(1, 3) + axis()},
      {DYAD_ROW(broadcast_to(x, sizes)), value(1, 1) + whole(1, 3) + size(0)},
      {DYAD_ROW(broadcast_tensors({x, y})[1]), value(0, 3) + beside(any_value)},
      {DYAD_ROW(part(tensor_split(x, i), 0)), value(1) + whole(1, 3)},
      {DYAD_ROW(part(tensor_split(x, i, -1), i - 1)), value(1) + whole(1, 3)},
      {DYAD_ROW(part(tensor_split(x, {1, 2}, i), 1)), value(1) + axis()},
      {DYAD_ROW(part(split(x, 2, i), 0)), value(1) + axis()},
      {DYAD_ROW(part(split(x, {1, l - 1}), 1)), value(1) + size(0)},
      {DYAD_ROW(part(hsplit(x, 2), 1)), value(1)},
      {DYAD_ROW(part(vsplit(x, 2), 1)), value(2)},
      {DYAD_ROW(part(dsplit(x, 2), 0)), value(3)},
      {DYAD_ROW(part(unbind(x, i), 0)), value(1) + axis()},
      {DYAD_ROW(atleast_1d(x)), value(0, 1)},
      {DYAD_ROW(atleast_2d(x)), value(0, 2)},
      {DYAD_ROW(atleast_3d(x)), value(0, 3)},
      {DYAD_ROW(reshape_as(x, y)), value() + value()},
      {DYAD_ROW(reshape_as(x + 1, transpose(x, 0, 1))), numbers(2)},
      {DYAD_ROW(rot90(x, i, 1, 0)), value(2) + whole(-1, 2)},
      {DYAD_ROW(flipud(x)), value(1)},
      {DYAD_ROW(diagonal(x, i, 1, 0)), value(2) + whole(-1, 1)},
      {DYAD_ROW(diagonal(x, 0, -2, -1)), value(3)},
      {DYAD_ROW(trace(x, i, 1, 0)), numbers(2) + whole(-1, 1)},
      {DYAD_ROW(diag(x, i)), value(1, 2) + whole(-1, 1)},
      {DYAD_ROW(diagflat(x, i)), value(0, 2) + whole(-1, 1)},
      {DYAD_ROW(diag_embed(x, i)), value(1, 3) + whole(-1, 1)},
      {DYAD_ROW(triu(x, i)), value(2) + whole(-1, 2)},
      {DYAD_ROW(slice(x, i, kEnd, kStart, -2)), value(1) + axis()},
      {DYAD_ROW(index(x, {NewAxis{}, Slice{.begin = 1}, Slice{.step = -1}})), value(2, 3)},
      {DYAD_ROW(select(select(x, 0, 0), -1, -1)), value(2)},
  };
}

std::vector<Row> rearranging_rows() {
  return {
      {DYAD_ROW(repeat(x, {2, 1, 1})), value(0, 3)},
      {DYAD_ROW(repeat_interleave(x, i)), value(0, 3) + whole(0, 2)},
      {DYAD_ROW(repeat_interleave(x, remainder(y, 3), 0)), value(1, 3) + value(1, 1, is_whole)},
      {DYAD_ROW(roll(x, {i})), value(1) + whole(-2, 3)},
      {DYAD_ROW(roll(x, {i, 1}, {0, -1})), value(2) + whole(-2, 3)},
      {DYAD_ROW(pad(pad(x, {0, 1}, {2, 2}), {1, i}, {j, 0}, "reflect")),
       value(2, 2) + whole(0, 2) + whole(0, 2)},
      {DYAD_ROW(pad(pad(x, {0, 1}, {2, 2}), {1, i}, {j, 0}, "edge")),
       value(2, 2) + whole(0, 2) + whole(0, 2)},
      {DYAD_ROW(pad(pad(x, {0, 1}, {2, 2}), {1, i}, {j, 0}, "wrap")),
       value(2, 2) + whole(0, 2) + whole(0, 2)},
      {DYAD_ROW(pad(pad(x, {2}, {2}), {i}, {j}, "reflect")),
       value(1, 1) + whole(0, 3) + whole(0, 3)},
      {DYAD_ROW(pad(x, {0, 1, -1}, {i, 0, 1}, a)), value(3, 3) + whole(0, 1) + real({0, 2})},
      {DYAD_ROW(depth_to_space(concat({x, x, x, x}, 1), 2)), value(4)},
      {DYAD_ROW(depth_to_space(concat({x, x, x, x}, 1), 2, "CRD")), value(4)},
      {DYAD_ROW(space_to_depth(tile(x, {1, 1, 2, 2}), 2)), value(4)},
      {DYAD_ROW(pixel_shuffle(concat({x, x, x, x}, -3), 2)), value(3)},
      {DYAD_ROW(pixel_unshuffle(tile(x, {2, 2}), 2)), value(3)},
      {DYAD_ROW(channel_shuffle(concat({x, x}, 1), 2)), value(2)},
      {DYAD_ROW(center_crop_pad(x, {i, j}, {0, -1})), value(2) + whole(1, 4) + whole(1, 4)},
      {DYAD_ROW(reverse_sequence(x, remainder(arange(x.size(1)), size_tensor(x.size(0)) + 1))),
       value(2, 3)},
      {DYAD_ROW(hstack({x, y})), value(1, 3) + alike()},
      {DYAD_ROW(vstack({x, y})), value(0, 3) + alike()},
      {DYAD_ROW(dstack({x, y})), value(0, 3) + alike()},
      {DYAD_ROW(column_stack({x, y})), value(1, 2) + alike()},
      {DYAD_ROW(block_diag({x, y, x})), value(0, 2) + alike(0, 2)},
      {DYAD_ROW(cartesian_prod({x, y})), value(1, 1) + alike(1, 1)},
      {DYAD_ROW(combinations(x, 2)), value(1, 1)},
      {DYAD_ROW(combinations(x, 2, true)), value(1, 1)},
      {DYAD_ROW(stack(meshgrid({x, y}))), value(1, 1) + alike(1, 1)},
      {DYAD_ROW(meshgrid({x, y}, "xy")[0]), value(1, 1) + alike(1, 1)},
      {DYAD_ROW(vander(x, 3)), numbers(1, 1)},
      {DYAD_ROW(concat({x, x, y}, -1)), value(1, 3) + alike()},
  };
}

std::vector<Row> choosing_rows() {
  return {
      {DYAD_ROW(take(x, remainder(to(y, i64), size_tensor(x.numel())))),
       value(1, 3) + numbers(0, 2)},
      {DYAD_ROW(take(x, places_along(x, y, i), i)), value(1, 3) + numbers(0, 2) + axis()},
      {DYAD_ROW(take_along_axis(x, argsort(y, i), i)), value(1, 3) + sized({0, 1}) + axis()},
      {DYAD_ROW(gather_nd(x, unsqueeze(places_along(x, y, 0), -1))), value(1, 3) + numbers(1, 2)},
      {DYAD_ROW(index(x, {places_along(x, y, 0), ellipsis})), value(1, 3) + numbers(1, 2)},
      {DYAD_ROW(index(x, {Slice{}, places_along(x, y, 1), i})),
       value(3) + numbers(1, 2) + whole(-1, 0)},
      {DYAD_ROW(index(x, {x > 0})), numbers(1, 3)},
      {DYAD_ROW(compress(select(x, -1, 0) > 0, x, 0)), numbers(2, 3)},
      {DYAD_ROW(argwhere(x)), value(1, 2)},
      {DYAD_ROW(stack(where(x > 0))), numbers(1, 2)},
      {DYAD_ROW(embedding(places_along(y, x, 0), y, 0)), numbers(1, 2) + value(2, 2, is_float)},
      {DYAD_ROW(sparse_embedding(places_along(y, x, 0), y)), numbers(1, 2) + value(2, 2, is_float)},
      {DYAD_ROW(embedding_bag(places_along(y, x, 0), y, {}, {.mode = BagMode::sum})),
       numbers(2, 2) + value(2, 2, is_float)},
      {DYAD_ROW(embedding_bag(places_along(y, x, 0), y)), numbers(2, 2) + value(2, 2, is_float)},
      {DYAD_ROW(embedding_bag(places_along(y, x, 0), y, {}, {.mode = BagMode::max})),
       numbers(2, 2) + value(2, 2, is_float)},
      {DYAD_ROW(embedding_bag(places_along(y, x, 0), y, arange(2))),
       numbers(1, 1) + value(2, 2, is_float)},
      {DYAD_ROW(one_hot(remainder(to(x, i64), 4), 4, dtype)), numbers(0, 2) + dtypes({f64, i64})},
      {DYAD_ROW(ravel_multi_index({remainder(x, 3), remainder(y, 2)}, {3, 2})),
       wholes() + beside(is_whole)},
      {DYAD_ROW(stack(unravel_index(remainder(x, 6), {3, 2}))), wholes(0, 2)},
  };
}

std::vector<Row> putting_rows() {
  const auto places = [](int low, int high) { return value(1, 3) + axis() + wholes(low, high); };
  const Rule rows_of = value(1, 3) + alike() + whole(0, 2);
  return {
      {DYAD_ROW(scatter(x, i, places_along(x, y, i), a)),
       value(2, 2) + axis() + numbers(2, 2) + real({0, 1, 2})},
      {DYAD_ROW(scatter(x, 0, places_along(x, y, 0), z)),
       value(1, 3) + numbers(1, 3) + alike(1, 3)},
      {DYAD_ROW(put_along_axis(x, places_along(x, y, i), a, i)),
       value(2, 2) + axis() + numbers(2, 2) + real({0, 1, 2})},
      {DYAD_ROW(put_along_axis(x, argmax(x, i, true), a, i)),
       numbers(1, 3) + axis() + real({0, 1, 2})},
      {DYAD_ROW(scatter_reduce(x, 0, places_along(x, y, 0), z, "mean", false)),
       numbers(1, 2) + numbers(1, 2) + alike(1, 2)},
      {DYAD_ROW(scatter_reduce(x, 0, places_along(x, y, 0), z, "prod", false)),
       numbers(1, 2) + numbers(1, 2) + alike(1, 2)},
      {DYAD_ROW(index_add(x, 0, some_rows(x, i), y, a)),
       numbers(1, 3) + alike() + whole(0, 2) + real({2, -1})},
      {DYAD_ROW(index_fill(x, i, places_along(x, y, i), a)), places(1, 1) + real({0, 1, 2})},
      {DYAD_ROW(index_reduce(x, 0, some_rows(x, i), y, "amax")), rows_of},
      {DYAD_ROW(index_reduce(x, 0, some_rows(x, i), y, "prod", false)), rows_of},
      {DYAD_ROW(index_reduce(x, 0, some_rows(x, i), y, "mean")), rows_of},
      {DYAD_ROW(index_put(x, {places_along(x, y, 0)}, a)),
       value(1, 3) + numbers(1, 2) + real({0, 2})},
      {DYAD_ROW(index_put(x, {some_rows(x, i)}, y, true)), rows_of},
      {DYAD_ROW(index_put(x, {Slice{.step = 2}, i}, a)), value(2, 3) + whole(-1, 0) + real({0, 2})},
      {DYAD_ROW(scatter_nd(x, unsqueeze(some_rows(x, i), -1), y)), rows_of},
      {DYAD_ROW(scatter_nd(x, unsqueeze(some_rows(x, i), -1), y, "add")), rows_of},
      {DYAD_ROW(scatter_nd(x, unsqueeze(some_rows(x, i), -1), y, "max")), rows_of},
      {DYAD_ROW(put_rows(x, some_rows(x, i), y)), rows_of},
      {DYAD_ROW(row_sums(x, y)), floats(1, 3) + numbers(1, 1)},
      {DYAD_ROW(masked_scatter(x, y, z)), value() + beside(is_bool) + alike()},
      {DYAD_ROW(diagonal_scatter(x, diagonal(y, i), i)), value(2, 3) + alike() + whole(-1, 1)},
      {DYAD_ROW(select_scatter(x, select(y, i, 0), i, -1)), value(1, 3) + alike() + axis()},
      {DYAD_ROW(slice_scatter(x, slice(y, i, 1), i, 1)), value(1, 3) + alike() + axis()},
      {DYAD_ROW(fill_diagonal(x, a)), value(2, 3) + real({0, 1, 2})},
      {DYAD_ROW(fill_diagonal(x, a, true)), value(2, 2) + real({0, 1, 2})},
      {DYAD_ROW(cache_update(x, slice(y, -2, 0, 1), full({}, i, i64))),
       value(2, 4) + alike() + whole(0, 1)},
  };
}

}  // namespace

void add_wide_shapes(Instructions& list) {
  add_rows(list, view_rows());
  add_rows(list, rearranging_rows());
  add_rows(list, choosing_rows());
  add_rows(list, putting_rows());
}

}  // namespace dyad::testing
