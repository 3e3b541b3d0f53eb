#include "dyad/ops/ops.h"
#include "instructions.h"

// Elements chosen by other tensors.

namespace dyad::testing {
namespace {

using F = const Frame&;

}  // namespace

Tensor places(const Frame& f) {
  return remainder(to(f[1], i64), size_tensor(f[0].size(f.whole(0))));
}

bool places_draft(Draft& d, int rank, const Draft::Fits& fits) {
  if (!d.input(with_rank(1, 3, fits)) || !d.axis()) return false;
  const int axes = rank < 0 ? d.example(0).rank() : rank;
  return d.input(with_rank(axes, axes, is_whole));
}

bool parts_draft(Draft& d, int rank, const Draft::Fits& fits) {
  if (!places_draft(d, rank, fits)) return false;
  const int axes = d.example(0).rank();
  return d.input(with_rank(
      axes, axes, [dtype = d.example(0).dtype()](const Tensor& x) { return x.dtype() == dtype; }));
}

void add_indexing(Instructions& list) {
  const auto one = [&](std::string name, std::string text, int weight, auto call,
                       std::function<bool(Draft&)> draft) {
    list.push_back({std::move(name), std::move(text), weight,
                    [call](F f) { return std::vector<Tensor>{call(f)}; }, std::move(draft)});
  };
  one(
      "index_select", std::string("index_select($0, #0, ") + kPlaces + ")", 5,
      [](F f) { return index_select(f[0], f.whole(0), places(f)); },
      [](Draft& d) { return places_draft(d, 1); });
  one(
      "index_select_raw", "index_select($0, #0, $1)", 1,
      [](F f) { return index_select(f[0], f.whole(0), f[1]); },
      [](Draft& d) { return places_draft(d, 1); });
  one(
      "gather", std::string("gather($0, #0, ") + kPlaces + ")", 3,
      [](F f) { return gather(f[0], f.whole(0), places(f)); },
      [](Draft& d) { return places_draft(d, -1); });
  one(
      "take_along_axis", std::string("take_along_axis($0, ") + kPlaces + ", #0)", 1,
      [](F f) { return take_along_axis(f[0], places(f), f.whole(0)); },
      [](Draft& d) { return places_draft(d, -1); });
  one(
      "index_add", std::string("index_add($0, #0, ") + kPlaces + ", $2)", 2,
      [](F f) { return index_add(f[0], f.whole(0), places(f), f[2]); },
      [](Draft& d) { return parts_draft(d, 1); });
  one(
      "scatter_add", std::string("scatter_add($0, #0, ") + kPlaces + ", $2)", 2,
      [](F f) { return scatter_add(f[0], f.whole(0), places(f), f[2]); },
      [](Draft& d) { return parts_draft(d, -1); });
  one(
      "index_copy", std::string("index_copy($0, #0, ") + kPlaces + ", $2)", 1,
      [](F f) { return index_copy(f[0], f.whole(0), places(f), f[2]); },
      [](Draft& d) { return places_draft(d, 1) && d.input(same_type(d.example(0))); });
  one(
      "embedding", "embedding(remainder(to($0, i64), size_tensor($1.size(0))), $1)", 3,
      [](F f) { return embedding(remainder(to(f[0], i64), size_tensor(f[1].size(0))), f[1]); },
      [](Draft& d) {
        return d.input(with_rank(1, 2, is_whole)) && d.input(with_rank(2, 2, is_float));
      });
  one(
      "masked_fill", "masked_fill($0, $1, %0)", 3,
      [](F f) { return masked_fill(f[0], f[1], f.real(0)); },
      [](Draft& d) {
        d.real({0, -1, 2});
        return d.input(is_number) && d.input(broadcasts_with(d.example(0), is_bool));
      });
  one(
      "masked_select", "masked_select($0, $1)", 2, [](F f) { return masked_select(f[0], f[1]); },
      [](Draft& d) {
        return d.input(any_value) && d.input(broadcasts_with(d.example(0), is_bool));
      });
  one(
      "nonzero", "nonzero($0)", 1, [](F f) { return nonzero(f[0]); },
      [](Draft& d) { return d.input(with_rank(1, 3)); });
  one(
      "index", "index($0, {Slice{.step = 2}, ellipsis, #0})", 2,
      [](F f) { return index(f[0], {Slice{.step = 2}, ellipsis, f.whole(0)}); },
      [](Draft& d) {
        d.whole(-1, 0);
        return d.input(with_rank(2, 4));
      });
  one(
      "slice_scatter", "slice_scatter($0, $1, #0, #1, kEnd, #2)", 1,
      [](F f) { return slice_scatter(f[0], f[1], f.whole(0), f.whole(1), kEnd, f.whole(2)); },
      [](Draft& d) {
        if (!d.input(with_rank(1, 3)) || !d.axis()) return false;
        d.whole(0, 1);
        d.whole(1, 2);
        const int rank = d.example(0).rank();
        return d.input(with_rank(rank, rank));
      });
  one(
      "one_hot", "one_hot(remainder(to($0, i64), 3), 3)", 1,
      [](F f) { return one_hot(remainder(to(f[0], i64), 3), 3); },
      [](Draft& d) { return d.input(with_rank(0, 2, is_whole)); });
  one(
      "searchsorted", "searchsorted(sort($0, 0).values, $1)", 1,
      [](F f) { return searchsorted(sort(f[0], 0).values, f[1]); },
      [](Draft& d) {
        return d.input(with_rank(1, 1, is_float)) &&
               d.input(with_rank(0, 2, [dtype = d.example(0).dtype()](const Tensor& x) {
                 return x.dtype() == dtype;
               }));
      });
}

}  // namespace dyad::testing
