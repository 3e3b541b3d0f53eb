#include <gtest/gtest.h>

#include "bad_calls.h"
#include "dyad/ops/ops.h"
#include "function_cases.h"

namespace dyad::testing {
namespace {

const FunctionCases kMatrixFunctionCases{
    {"vector_norm fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {vector_norm(in[0], number(attrs, "p"), ints(attrs, "axes"), flag(attrs, "keepdim"))};
     }},
    {"matrix_norm by name",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {
           matrix_norm(in[0], text(attrs, "kind"), ints(attrs, "axes"), flag(attrs, "keepdim"))};
     }},
    {"matrix_norm by number",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {matrix_norm(in[0], number(attrs, "p"), ints(attrs, "axes"), flag(attrs, "keepdim"))};
     }},
    {"cond by name",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {cond(in[0], text(attrs, "kind").c_str())};
     }},
    {"cond by number",
     [](const json& attrs, const Tensors& in) -> Tensors {
       const double p = number(attrs, "p");
       return {p == 2 ? cond(in[0]) : cond(in[0], p)};
     }},
    {"lu_factor fn",
     [](const json&, const Tensors& in) -> Tensors { return {lu_factor(in[0]).factors}; }},
    {"lu_solve fn",
     [](const json&, const Tensors& in) -> Tensors { return {lu_solve(lu_factor(in[0]), in[1])}; }},
    {"cholesky_inverse fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {cholesky_inverse(in[0], flag(attrs, "upper"))};
     }},
    {"fill_diagonal fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {fill_diagonal(in[0], number(attrs, "value"), flag(attrs, "wrap"))};
     }},
    {"nanargmax fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       if (!attrs.contains("axis")) return {nanargmax(in[0])};
       return {nanargmax(in[0], integer(attrs, "axis"), flag(attrs, "keepdim"))};
     }},
    {"nanargmin fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       if (!attrs.contains("axis")) return {nanargmin(in[0])};
       return {nanargmin(in[0], integer(attrs, "axis"), flag(attrs, "keepdim"))};
     }},
    {"nancumprod fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {nancumprod(in[0], integer(attrs, "axis"))};
     }},
    {"setxor1d fn",
     [](const json&, const Tensors& in) -> Tensors { return {setxor1d(in[0], in[1])}; }},
    {"lexsort fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {lexsort(in, integer(attrs, "axis"))};
     }},
    {"zeta fn", [](const json&, const Tensors& in) -> Tensors { return {zeta(in[0], in[1])}; }},
    {"mvlgamma fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {mvlgamma(in[0], integer(attrs, "p"))};
     }},
};

const std::vector<BadCall> kMatrixFunctionCalls = {
    {Kind::value,
     "matrix_norm(f32[2, 2], \"max\"): the norm must be fro or nuc, or one of the numbers 1 -1 2 "
     "-2 inf -inf",
     CALL(matrix_norm(F(2, 2), "max"))},
    {Kind::value,
     "matrix_norm(f32[2, 2], p = 3.000000): p must be one of 1 -1 2 -2 inf -inf; fro and nuc go by "
     "name",
     CALL(matrix_norm(F(2, 2), 3))},
    {Kind::value, "matrix_norm(f32[2, 2]): two axes are needed, found 1",
     CALL(matrix_norm(F(2, 2), "fro", {0}))},
    {Kind::value, "matrix_norm(f32[2, 2]): the two axes must not be the same",
     CALL(matrix_norm(F(2, 2), 1, {0, -2}))},
    {Kind::shape, "lu_factor(f32[2, 3]): square matrices are needed, [..., n, n]",
     CALL(lu_factor(F(2, 3)).factors)},
    {Kind::shape,
     "lu_solve(b: f32[2]): b must be [..., n, k]; unsqueeze(b, -1) makes a vector a column",
     CALL(lu_solve({F(2, 2), I(2)}, F(2)))},
    {Kind::shape, "cholesky_inverse(f32[2]): square matrices are needed, [..., n, n]",
     CALL(cholesky_inverse(F(2)))},
    {Kind::shape, "fill_diagonal(f32[2]): x must have two axes or more",
     CALL(fill_diagonal(F(2), 0))},
    {Kind::shape, "fill_diagonal(f32[2, 3, 3]): more axes than two must be of one size",
     CALL(fill_diagonal(F(2, 3, 3), 0))},
    {Kind::value, "lexsort: a key or more is needed", CALL(lexsort(Tensors{}))},
    {Kind::value, "mvlgamma(f32[2], p = 0): p must be 1 or more", CALL(mvlgamma(F(2), 0))},
};

TEST(Errors, OfMatrixFunctions) {
  expect_errors(kMatrixFunctionCalls, "matrix_functions_test.cpp");
}

}  // namespace
}  // namespace dyad::testing
