#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "bad_calls.h"
#include "cases.h"
#include "dyad/base/error.h"
#include "dyad/core/create.h"
#include "dyad/core/tensor_impl.h"
#include "function_cases.h"

// Functions of indexing, rearranging, sorting and counting: how their reference cases call them.

namespace dyad::testing {
namespace {

Tensors both(ValuesAndIndices made) { return {made.values, made.indices}; }

/// The indices that a case writes as `1,:,::-1,...,n,t`: t are the tensors in their order, n is a
/// new axis.
std::vector<Index> indices_of(const std::string& at, std::span<const Tensor> tensors) {
  std::vector<Index> made;
  std::istringstream parts(at);
  std::size_t next = 0;
  for (std::string part; std::getline(parts, part, ',');) {
    if (part == "...") {
      made.emplace_back(ellipsis);
    } else if (part == "n") {
      made.emplace_back(newaxis);
    } else if (part == "t") {
      made.emplace_back(tensors[next++]);
    } else if (part.find(':') == std::string::npos) {
      made.emplace_back(std::stoll(part));
    } else {
      Slice slice;
      std::istringstream bounds(part);
      std::string bound;
      for (int i = 0; std::getline(bounds, bound, ':'); ++i) {
        if (bound.empty()) continue;
        const std::int64_t number = std::stoll(bound);
        if (i == 0) slice.begin = number;
        if (i == 1) slice.end = number;
        if (i == 2) slice.step = number;
      }
      made.emplace_back(slice);
    }
  }
  return made;
}

const FunctionCases kIndexing{
    {"index",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {index(in[0], indices_of(text(attrs, "at"), std::span(in).subspan(1)))};
     }},
    {"index_put",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {index_put(in[0], indices_of(text(attrs, "at"), std::span(in).subspan(2)), in[1],
                         flag(attrs, "accumulate"))};
     }},
    {"masked_select",
     [](const json&, const Tensors& in) -> Tensors { return {masked_select(in[0], in[1])}; }},
    {"masked_fill",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {masked_fill(in[0], in[1], integer(attrs, "value"))};
     }},
    {"masked_scatter",
     [](const json&, const Tensors& in) -> Tensors {
       return {masked_scatter(in[0], in[1], in[2])};
     }},
    {"compress",
     [](const json& attrs, const Tensors& in) -> Tensors {
       if (!attrs.contains("axis")) return {compress(in[0], in[1])};
       return {compress(in[0], in[1], integer(attrs, "axis"))};
     }},
    {"scatter_reduce",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {scatter_reduce(in[0], integer(attrs, "axis"), in[1], in[2], text(attrs, "reduction"),
                              flag(attrs, "include_self"))};
     }},
    {"index_add",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {index_add(in[0], integer(attrs, "axis"), in[1], in[2])};
     }},
    {"index_copy",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {index_copy(in[0], integer(attrs, "axis"), in[1], in[2])};
     }},
    {"index_fill",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {index_fill(in[0], integer(attrs, "axis"), in[1], attrs.at("value").get<double>())};
     }},
    {"take", [](const json&, const Tensors& in) -> Tensors { return {take(in[0], in[1])}; }},
    {"take_along_axis",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {take_along_axis(in[0], in[1], integer(attrs, "axis"))};
     }},
};

const FunctionCases kRearranging{
    {"slice_scatter backwards",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {slice_scatter(in[0], in[1], integer(attrs, "axis"), integer(attrs, "begin"),
                             integer(attrs, "end"), integer(attrs, "step"))};
     }},
    {"flip",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {flip(in[0], ints(attrs, "axes"))};
     }},
    {"rot90",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {rot90(in[0], integer(attrs, "turns"), integer(attrs, "first"),
                     integer(attrs, "second"))};
     }},
    {"roll",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {roll(in[0], ints(attrs, "shifts"), ints(attrs, "axes"))};
     }},
    {"tile",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {tile(in[0], shape(attrs, "counts"))};
     }},
    {"repeat_interleave",
     [](const json& attrs, const Tensors& in) -> Tensors {
       const std::int64_t axis = integer(attrs, "axis");
       if (in.size() > 1) return {repeat_interleave(in[0], in[1], axis)};
       return {repeat_interleave(in[0], integer(attrs, "count"), axis)};
     }},
    {"pad by mode",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {pad(in[0], shape(attrs, "low"), shape(attrs, "high"), text(attrs, "mode"))};
     }},
    {"as_strided",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {as_strided(in[0], shape(attrs, "shape"), ints(attrs, "strides"),
                          integer(attrs, "offset"))};
     }},
    {"pixel_shuffle",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {pixel_shuffle(in[0], integer(attrs, "factor"))};
     }},
    {"pixel_unshuffle",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {pixel_unshuffle(in[0], integer(attrs, "factor"))};
     }},
    {"movedim",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {movedim(in[0], ints(attrs, "from"), ints(attrs, "to"))};
     }},
    {"swapaxes",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {swapaxes(in[0], integer(attrs, "a"), integer(attrs, "b"))};
     }},
    {"squeeze of all", [](const json&, const Tensors& in) -> Tensors { return {squeeze(in[0])}; }},
    {"unflatten",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {unflatten(in[0], integer(attrs, "axis"), shape(attrs, "sizes"))};
     }},
    {"atleast",
     [](const json& attrs, const Tensors& in) -> Tensors {
       const std::int64_t rank = integer(attrs, "rank");
       return {rank == 1 ? atleast_1d(in[0]) : rank == 2 ? atleast_2d(in[0]) : atleast_3d(in[0])};
     }},
    {"hstack", [](const json&, const Tensors& in) -> Tensors { return {hstack(in)}; }},
    {"vstack", [](const json&, const Tensors& in) -> Tensors { return {vstack(in)}; }},
    {"dstack", [](const json&, const Tensors& in) -> Tensors { return {dstack(in)}; }},
    {"unbind",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return unbind(in[0], integer(attrs, "axis"));
     }},
    {"split by size",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return split(in[0], integer(attrs, "size"), integer(attrs, "axis"));
     }},
    {"tensor_split",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return tensor_split(in[0], integer(attrs, "count"), integer(attrs, "axis"));
     }},
    {"broadcast_tensors",
     [](const json&, const Tensors& in) -> Tensors { return broadcast_tensors(in); }},
};

const FunctionCases kCounting{
    {"argsort of a scalar",
     [](const json&, const Tensors& in) -> Tensors { return {argsort(in[0])}; }},
    {"bucketize",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {bucketize(in[0], in[1], flag(attrs, "right"))};
     }},
    {"isin", [](const json&, const Tensors& in) -> Tensors { return {isin(in[0], in[1])}; }},
    {"argmax of all", [](const json&, const Tensors& in) -> Tensors { return {argmax(in[0])}; }},
    {"argmin of all", [](const json&, const Tensors& in) -> Tensors { return {argmin(in[0])}; }},
    {"max_with_indices",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return both(max_with_indices(in[0], integer(attrs, "axis"), flag(attrs, "keepdim")));
     }},
    {"min_with_indices",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return both(min_with_indices(in[0], integer(attrs, "axis"), flag(attrs, "keepdim")));
     }},
    {"median",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return both(median(in[0], integer(attrs, "axis"), flag(attrs, "keepdim")));
     }},
    {"nanmedian",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return both(nanmedian(in[0], integer(attrs, "axis"), flag(attrs, "keepdim")));
     }},
    {"nanmedian values",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {nanmedian(in[0], integer(attrs, "axis")).values};
     }},
    {"quantile",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {quantile(in[0], attrs.at("q").get<double>(), integer(attrs, "axis"),
                        flag(attrs, "keepdim"), text(attrs, "interpolation"))};
     }},
    {"count_nonzero",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {count_nonzero(in[0], ints(attrs, "axes"))};
     }},
    {"nansum",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {nansum(in[0], ints(attrs, "axes"))};
     }},
    {"nanmean",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {nanmean(in[0], ints(attrs, "axes"))};
     }},
    {"sum_square",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {sum_square(in[0], ints(attrs, "axes"))};
     }},
    {"log_sum",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {log_sum(in[0], ints(attrs, "axes"))};
     }},
    {"histc",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {histc(in[0], integer(attrs, "bins"), number_of(attrs.at("low")),
                     number_of(attrs.at("high")))};
     }},
    {"histogram",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {histogram(in[0], in[1], in[2], flag(attrs, "density"))};
     }},
};

class Arrays : public Interpreted {};

TEST_F(Arrays, FlipsAndWindowsAreViews) {
  const Tensor x = reshape(arange(6, f32), {2, 3});
  for (const Tensor& view : {flip(x, {1}), rot90(x), unfold(x, 1, 2, 1)}) {
    EXPECT_EQ(view.impl()->storage, x.impl()->storage);
  }
  EXPECT_EQ(flip(x).strides()[1], -1);
}

TEST_F(Arrays, BackwardSlicesAreWrittenThrough) {
  Tensor x = zeros({5});
  Tensor back = slice(x, 0, kEnd, kStart, -2);
  back.copy_(tensor({1.0f, 2.0f, 3.0f}));
  EXPECT_THAT(x.to_vector<float>(), ::testing::ElementsAre(3, 0, 2, 0, 1));
  flip(x).add_(x);
  EXPECT_THAT(x.to_vector<float>(), ::testing::ElementsAre(4, 0, 4, 0, 4));
}

TEST_F(Arrays, MasksMeetAsManyValuesAndIndicesAsTheyHavePlaces) {
  const Tensor x = reshape(arange(6, f32), {3, 2});
  const Tensor mask = tensor({true, false, true}), places = tensor({1, 0}, i64);
  EXPECT_THAT(index(x, {mask, places}).to_vector<float>(), ::testing::ElementsAre(1, 4));
  const Tensor put = index_put(x, {mask}, tensor({{7.0f, 8.0f}, {9.0f, 6.0f}}));
  EXPECT_THAT(put.to_vector<float>(), ::testing::ElementsAre(7, 8, 2, 3, 9, 6));
  EXPECT_THROW((void)index_put(x, {mask}, zeros({3, 2})), ShapeError);
}

TEST_F(Arrays, PlacesOutOfRangeAreErrorsWhenTheOperatorRuns) {
  const Tensor x = zeros({3, 4});
  const auto text_of = [](const std::function<void()>& call) -> std::string {
    try {
      call();
    } catch (const IndexError& e) {
      return e.message();
    } catch (const ValueError& e) {
      return e.message();
    }
    return "no error";
  };
  const Tensor far = tensor({0, 5}, i64), low = tensor({2, -4}, i64);
  EXPECT_EQ(text_of([&] { (void)index(x, {far, 0}); }),
            "ravel_multi_index(indices[0]: i64[2], indices[1]: i64[]): index 5 at [1] is out of "
            "range for axis 0 of size 3; allowed are -3 to 2");
  EXPECT_EQ(text_of([&] { (void)index(x, {low}); }),
            "index_select(x: f32[3, 4], index: i64[2]): index -4 at [1] is out of range for axis 0 "
            "of size 3; allowed are -3 to 2");
  EXPECT_EQ(text_of([&] { (void)scatter(x, 0, reshape(far, {1, 2}), 1.0); }),
            "scatter(x: f32[3, 4], index: i64[1, 2], source: f32[1, 2]): index 5 at [0, 1] is out "
            "of range for axis 0 of size 3; allowed are -3 to 2");
  EXPECT_EQ(text_of([&] { (void)tensor_split(x, 2, 2); }),
            "tensor_split: axis 2 is out of range for a tensor of rank 2: it must be from -2 to 1");
  EXPECT_EQ(text_of([&] { (void)masked_scatter(x, x == 0, zeros({11})); }),
            "masked_scatter: source has 11 elements, but mask is true at more places");
  EXPECT_EQ(text_of([&] { (void)bincount(low); }),
            "bincount(x: i64[2], weights: none): element 1 is -4, but none may be negative");
  EXPECT_EQ(text_of([&] { (void)repeat_interleave(zeros({2}), low, 0); }),
            "repeat_places(counts: i64[2]): element 1 is -4, but none may be negative");
}

}  // namespace
}  // namespace dyad::testing
