#include <gtest/gtest.h>

#include "bad_calls.h"
#include "dyad/core/create.h"
#include "dyad/ops/ops.h"
#include "function_cases.h"

namespace dyad::testing {
namespace {

template <Tensor (*along)(const Tensor&, Ints, bool, DType, Loc),
          Tensor (*all)(const Tensor&, DType, Loc)>
Tensors of_dtype(const json& attrs, const Tensors& in) {
  const DType dtype = dtype_at(attrs, "dtype");
  const Loc here = std::source_location::current();
  if (!attrs.contains("axes")) return {all(in[0], dtype, here)};
  return {along(in[0], ints(attrs, "axes"), flag(attrs, "keepdim"), dtype, here)};
}

Tensors outputs(std::vector<Tensor> made) { return made; }

/// `one`, `two` or `three` by the attribute "axes".
template <class F>
F by_axes(const json& attrs, F one, F two, F three) {
  const std::int64_t axes = integer(attrs, "axes");
  return axes == 1 ? one : axes == 2 ? two : three;
}

Tensors by_other_name(const json& attrs, const Tensors& in) {
  const std::string name = text(attrs, "name");
  if (name == "subtract") return {subtract(in[0], in[1])};
  if (name == "multiply") return {multiply(in[0], in[1])};
  if (name == "divide") return {divide(in[0], in[1])};
  if (name == "power") return {power(in[0], in[1])};
  if (name == "negative") return {negative(in[0])};
  if (name == "absolute") return {absolute(in[0])};
  if (name == "cat") return {cat({in[0], in[1]}, 1)};
  if (name == "concatenate") return {concatenate({in[0], in[1]}, 1)};
  if (name == "clip") return {clip(in[0], -0.5, 0.5)};
  if (name == "clip tensor") return {clip(in[0], in[1])};
  if (name == "moveaxis") return {moveaxis(in[0], 0, 2)};
  if (name == "vdot") return {vdot(in[0], in[1])};
  if (name == "trapz") return {trapz(in[0])};
  if (name == "trapz at") return {trapz(in[0], in[1])};
  return {inv(in[0])};
}

const FunctionCases kOverloadCases{
    {"sum of dtype", of_dtype<sum, sum>},
    {"mean of dtype", of_dtype<mean, mean>},
    {"prod of dtype", of_dtype<prod, prod>},
    {"cumsum of dtype",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {cumsum(in[0], integer(attrs, "axis"), dtype_at(attrs, "dtype"))};
     }},
    {"cumprod of dtype",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {cumprod(in[0], integer(attrs, "axis"), dtype_at(attrs, "dtype"))};
     }},
    {"div rounded",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {div(in[0], in[1], text(attrs, "rounding"))};
     }},
    {"round decimals",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {round(in[0], integer(attrs, "decimals"))};
     }},
    {"modf fn",
     [](const json&, const Tensors& in) -> Tensors {
       const Modf parts = modf(in[0]);
       return {parts.fraction, parts.whole};
     }},
    {"repeat_interleave flat",
     [](const json& attrs, const Tensors& in) -> Tensors {
       if (in.size() > 1) return {repeat_interleave(in[0], in[1])};
       return {repeat_interleave(in[0], integer(attrs, "count"))};
     }},
    {"where places",
     [](const json&, const Tensors& in) -> Tensors { return outputs(where(in[0])); }},
    {"squeeze axes",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {squeeze(in[0], ints(attrs, "axes"))};
     }},
    {"tensor_split at",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return outputs(tensor_split(in[0], ints(attrs, "indices"), integer(attrs, "axis")));
     }},
    {"split method",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return outputs(in[0].split(shape(attrs, "sizes"), integer(attrs, "axis")));
     }},
    {"take along",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {take(in[0], in[1], integer(attrs, "axis"))};
     }},
    {"put_along_axis fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       const std::int64_t axis = integer(attrs, "axis");
       if (in.size() > 2) return {put_along_axis(in[0], in[1], in[2], axis)};
       return {put_along_axis(in[0], in[1], number(attrs, "value"), axis)};
     }},
    {"take_along_dim fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {take_along_dim(in[0], in[1], integer(attrs, "axis"))};
     }},
    {"one_hot of all",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {one_hot(in[0], dtype_at(attrs, "dtype"))};
     }},
    {"index_add alpha",
     [](const json& attrs, const Tensors& in) -> Tensors {
       const double alpha = number(attrs, "alpha");
       const bool whole = is_integer(in[0].dtype());
       return {index_add(in[0], 0, in[1], in[2],
                         whole ? Arg(static_cast<std::int64_t>(alpha)) : Arg(alpha))};
     }},
    {"index flag",
     [](const json&, const Tensors& in) -> Tensors { return {index(in[0], {in[1]})}; }},
    {"index flag behind",
     [](const json&, const Tensors& in) -> Tensors { return {index(in[0], {ellipsis, in[1]})}; }},
    {"index_put flag",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {index_put(in[0], {in[1]}, number(attrs, "value"))};
     }},
    {"histogram by count",
     [](const json& attrs, const Tensors& in) -> Tensors {
       const Histogram made =
           histogram(in[0], integer(attrs, "bins"), number(attrs, "low"), number(attrs, "high"),
                     in.size() > 1 ? in[1] : Tensor(), flag(attrs, "density"));
       return {made.counts, made.edges};
     }},
    {"quantiles fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       if (!attrs.contains("axis")) return {quantile(in[0], in[1])};
       return {quantile(in[0], in[1], integer(attrs, "axis"), flag(attrs, "keepdim"),
                        text(attrs, "interpolation"))};
     }},
    {"kl_div batchmean",
     [](const json&, const Tensors& in) -> Tensors {
       return {kl_div(in[0], in[1], false, Reduction::batchmean)};
     }},
    {"clamp low number",
     [](const json& attrs, const Tensors& in) -> Tensors {
       if (is_integer(in[0].dtype())) return {clamp(in[0], 2, in[1])};
       return {clamp(in[0], number(attrs, "low"), in[1])};
     }},
    {"clamp high number",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {clamp(in[0], in[1], number(attrs, "high"))};
     }},
    {"avg_pool dilated",
     [](const json& attrs, const Tensors& in) -> Tensors {
       const auto pool = in[0].rank() == 3   ? avg_pool1d
                         : in[0].rank() == 4 ? avg_pool2d
                                             : avg_pool3d;
       return {pool(in[0], ints(attrs, "kernel"), ints(attrs, "stride"), ints(attrs, "padding"),
                    false, flag(attrs, "include"), 0, ints(attrs, "dilation"),
                    std::source_location::current())};
     }},
    {"lp_pool dilated",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {lp_pool(in[0], number(attrs, "p"), ints(attrs, "kernel"), ints(attrs, "stride"),
                       ints(attrs, "padding"), false, ints(attrs, "dilation"))};
     }},
    {"adaptive_avg_pool nd",
     [](const json& attrs, const Tensors& in) -> Tensors {
       const auto pool =
           by_axes(attrs, adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d);
       return {pool(in[0], ints(attrs, "size"), std::source_location::current())};
     }},
    {"adaptive_max_pool nd",
     [](const json& attrs, const Tensors& in) -> Tensors {
       const auto pool =
           by_axes(attrs, adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d);
       return {pool(in[0], ints(attrs, "size"), std::source_location::current())};
     }},
    {"max_unpool nd",
     [](const json& attrs, const Tensors& in) -> Tensors {
       const auto pool = by_axes(attrs, max_unpool1d, max_unpool2d, max_unpool3d);
       return {pool(in[0], in[1], integer(attrs, "kernel"), 0, 0, shape(attrs, "size"),
                    std::source_location::current())};
     }},
    {"lp_pool nd",
     [](const json& attrs, const Tensors& in) -> Tensors {
       const auto pool = by_axes(attrs, lp_pool1d, lp_pool2d, lp_pool3d);
       return {pool(in[0], number(attrs, "p"), integer(attrs, "kernel"), integer(attrs, "stride"),
                    flag(attrs, "ceil"), std::source_location::current())};
     }},
    {"fold fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {fold(in[0], shape(attrs, "size"), integer(attrs, "kernel"))};
     }},
    {"other name", by_other_name},
    {"digitize fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {digitize(in[0], in[1], flag(attrs, "right"))};
     }},
};

// In braces one number stays what the function without braces makes of it, or the one place.
TEST(Overloads, NumbersInBraces) {
  const Tensor x = reshape(arange(6, f32), {1, 6});
  EXPECT_EQ(type_string(squeeze(x, {0})), "f32[6]");
  const std::vector<Tensor> parts = tensor_split(x, {2}, 1);
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(type_string(parts[0]), "f32[1, 2]");
  EXPECT_EQ(tensor_split(x, 2, 1)[0].size(1).value(), 3);
  EXPECT_EQ(x.split({1, 5}, 1)[1].size(1).value(), 5);
}

// NumPy: x[True, [2, 0]] has the shape of [2, 0], to which the mask broadcasts.
TEST(Overloads, ScalarMasksStandBesideIndices) {
  const Tensor x = reshape(arange(6, f32), {3, 2});
  const Tensor rows = tensor({2, 0}, i64);
  EXPECT_EQ(index(x, {tensor({true}).select(0, 0), rows}).to_vector<float>(),
            (std::vector<float>{4, 5, 0, 1}));
}

TEST(Overloads, DropChannels) {
  const Tensor x = ones({2, 3, 4, 4});
  EXPECT_EQ(dropout2d(x, 0.5, false).to_vector<float>(), x.to_vector<float>());
  const Tensor kept = reshape(dropout2d(x, 0.5), {6, 16}).select(1, 0);
  const Tensor each = reshape(dropout3d(unsqueeze(x, 4), 1), {-1});
  EXPECT_EQ(each.to_vector<float>(), std::vector<float>(96, 0));
  for (const float v : kept.to_vector<float>()) EXPECT_TRUE(v == 0 || v == 2) << v;
  EXPECT_EQ(dropout1d(x.select(3, 0), 0).to_vector<float>(), std::vector<float>(24, 1));
}

const std::vector<BadCall> kOverloadCalls = {
    {Kind::dtype,
     "mean(f32[2], dtype = i64): dtype must be floating or complex; round the mean and convert it "
     "with to()",
     CALL(mean(F(2), i64))},
    {Kind::value,
     "div(a: f32[2], b: f32[2], rounding = \"up\"): the rounding must be trunc or floor; without "
     "one the quotient is not rounded",
     CALL(div(F(2), F(2), "up"))},
    {Kind::value, "round(f32[2], decimals = 400): decimals must be from -300 to 300",
     CALL(round(F(2), 400))},
    {Kind::value, "squeeze(f32[1, 1]): an axis is named twice",
     CALL(squeeze(F(1, 1), Ints{0, -2}))},
    {Kind::shape,
     "put_along_axis(f32[2, 3], index: i64[2]): x and index must have equally many axes",
     CALL(put_along_axis(F(2, 3), I(2), 1, 0))},
    {Kind::shape, "put_along_axis(f32[2, 3], index: i64[4, 1]): axis 0 does not broadcast",
     CALL(put_along_axis(F(2, 3), I(4, 1), 1, 1))},
    {Kind::value,
     "histogram(f32[2], bins = 0): there must be 1 bin or more, and low must not be above high",
     CALL(histogram(F(2), 0).counts)},
    {Kind::dtype, "histogram(i64[2]): x must be floating; convert it with to()",
     CALL(histogram(I(2), 3).counts)},
    {Kind::shape, "quantile(f32[2], q: f32[1, 1]): q must be a floating vector or number",
     CALL(quantile(F(2), F(1, 1), 0))},
    {Kind::value, "mse_loss: the reduction batchmean is for kl_div() alone; use mean, sum or none",
     CALL(mse_loss(F(2), F(2), Reduction::batchmean))},
    {Kind::value, "a loss: the reduction batchmean is for kl_div() alone; use mean, sum or none",
     CALL(l1_loss(F(2), F(2), Reduction::batchmean))},
    {Kind::value,
     "max_unpool2d(f32[1, 1, 2, 2]): kernel, stride and padding must be one number for all spatial "
     "axes or one for each of the 2",
     CALL(max_unpool2d(F(1, 1, 2, 2), I(1, 1, 2, 2), {2, 2, 2}))},
};

TEST(Errors, OfOverloads) { expect_errors(kOverloadCalls, "overloads_functions_test.cpp"); }

TEST(Errors, OfOverloadsWhenTheyRun) {
  const Tensor x = ones({3});
  EXPECT_THROW((void)quantile(x, tensor({0.5f, 1.5f}), 0), ValueError);
  EXPECT_THROW((void)one_hot(tensor({1, -1}, i64)), ValueError);
  EXPECT_THROW((void)index_add(to(x, i64), 0, tensor({0}, i64), tensor({1}, i64), 0.5), DTypeError);
}

}  // namespace
}  // namespace dyad::testing
