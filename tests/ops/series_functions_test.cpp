#include <gtest/gtest.h>

#include "bad_calls.h"
#include "dyad/ops/ops.h"
#include "function_cases.h"

namespace dyad::testing {
namespace {

const FunctionCases kSeriesCases{
    {"diff fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {diff(in[0], integer(attrs, "n"), integer(attrs, "axis"), in[1], in[2])};
     }},
    {"gradient fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       if (in.size() > 1) return {gradient(in[0], in[1], integer(attrs, "axis"))};
       return {gradient(in[0], number(attrs, "step"), integer(attrs, "axis"))};
     }},
    {"trapezoid fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       if (in.size() > 1) return {trapezoid(in[0], in[1], integer(attrs, "axis"))};
       return {trapezoid(in[0], number(attrs, "step"), integer(attrs, "axis"))};
     }},
    {"cumulative_trapezoid fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       if (in.size() > 1) return {cumulative_trapezoid(in[0], in[1], integer(attrs, "axis"))};
       return {cumulative_trapezoid(in[0], number(attrs, "step"), integer(attrs, "axis"))};
     }},
    {"convolve fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {convolve(in[0], in[1], text(attrs, "mode"))};
     }},
    {"correlate fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {correlate(in[0], in[1], text(attrs, "mode"))};
     }},
    {"interp fn",
     [](const json&, const Tensors& in) -> Tensors { return {interp(in[0], in[1], in[2])}; }},
    {"polyval fn",
     [](const json&, const Tensors& in) -> Tensors { return {polyval(in[0], in[1])}; }},
    {"unwrap fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {unwrap(in[0], number(attrs, "period"), integer(attrs, "axis"))};
     }},
    {"cov fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {cov(in[0], integer(attrs, "correction"), in[1], in[2])};
     }},
    {"corrcoef fn", [](const json&, const Tensors& in) -> Tensors { return {corrcoef(in[0])}; }},
    {"average fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {average(in[0], in[1], ints(attrs, "axes"))};
     }},
    {"ptp fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {ptp(in[0], ints(attrs, "axes"))};
     }},
    {"mode fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       const auto made = mode(in[0], integer(attrs, "axis"), flag(attrs, "keepdim"));
       return {made.values, made.indices};
     }},
    {"mode values fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {mode(in[0], integer(attrs, "axis")).values};
     }},
    {"percentile fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {percentile(in[0], number(attrs, "p"), integer(attrs, "axis"))};
     }},
    {"nanmax fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {nanmax(in[0], ints(attrs, "axes"))};
     }},
    {"nanmin fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {nanmin(in[0], ints(attrs, "axes"))};
     }},
    {"nanprod fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {nanprod(in[0], ints(attrs, "axes"))};
     }},
    {"nanvar fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {nanvar(in[0], ints(attrs, "axes"), integer(attrs, "correction"),
                      flag(attrs, "keepdim"))};
     }},
    {"nanstd fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {nanstd(in[0], ints(attrs, "axes"), integer(attrs, "correction"),
                      flag(attrs, "keepdim"))};
     }},
    {"nancumsum fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {nancumsum(in[0], integer(attrs, "axis"))};
     }},
    {"nanquantile fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {nanquantile(in[0], number(attrs, "q"), integer(attrs, "axis"))};
     }},
    {"dist fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {dist(in[0], in[1], number(attrs, "p"))};
     }},
    {"pdist fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {pdist(in[0], number(attrs, "p"))};
     }},
    {"renorm fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {renorm(in[0], number(attrs, "p"), integer(attrs, "axis"), number(attrs, "most"))};
     }},
};

const std::vector<BadCall> kSeriesCalls = {
    {Kind::value, "diff(f32[2], n = -1): n must be at least 0", CALL(diff(F(2), -1))},
    {Kind::value,
     "convolve(a: f32[2], v: f32[2], mode = \"half\"): the mode must be full, same or valid",
     CALL(convolve(F(2), F(2), "half"))},
    {Kind::shape,
     "convolve(a: f32[2, 2], v: f32[2], mode = \"full\"): a and v must be vectors; conv1d() takes "
     "batches",
     CALL(convolve(F(2, 2), F(2)))},
    {Kind::shape,
     "interp(x: f32[2], points: f32[2, 1], values: f32[2]): points and values are vectors",
     CALL(interp(F(2), F(2, 1), F(2)))},
    {Kind::shape, "polyval(coefficients: f32[], x: f32[2]): the coefficients must be a vector",
     CALL(polyval(F(), F(2)))},
    {Kind::dtype, "unwrap(i64[2]): x must be floating; convert it with to()", CALL(unwrap(I(2)))},
    {Kind::shape, "cov(f32[2, 2, 2]): x must be [variables, samples], a vector or a number",
     CALL(cov(F(2, 2, 2)))},
    {Kind::value, "nanquantile(f32[2], q = 2.000000): q must be from 0 to 1",
     CALL(nanquantile(F(2), 2, 0))},
    {Kind::shape, "pdist(f32[2]): x must be a matrix", CALL(pdist(F(2)))},
    {Kind::value, "renorm(f32[2], p = 0.000000, most = 1.000000): p and most must be above 0",
     CALL(renorm(F(2), 0, 0, 1))},
};

TEST(Errors, OfSeries) { expect_errors(kSeriesCalls, "series_functions_test.cpp"); }

}  // namespace
}  // namespace dyad::testing
