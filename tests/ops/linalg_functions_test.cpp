#include <gtest/gtest.h>

#include "dyad/ops/ops.h"
#include "function_cases.h"

namespace dyad::testing {
namespace {

Tensor turned(const Tensor& x) { return transpose(x, -1, -2); }

/// u @ diag(s) @ vh, whatever the signs are; the singular values stand in the first columns.
Tensor put_together(const Svd& f) {
  const Dim k = f.s.size(-1);
  return matmul(slice(f.u, -1, 0, k) * unsqueeze(f.s, -2), slice(f.vh, -2, 0, k));
}

Tensor product_of(const Lu& f) {
  const Tensor rows = matmul(f.l, f.u);
  return scatter_add(zeros_like(rows), -2, expand(unsqueeze(f.permutation, -1), rows.shape()),
                     rows);
}

/// f of complex operands that come as their parts.
Tensors from_complex_parts(const Tensors& operands, auto&& f) {
  Tensors all;
  for (const Tensor& x : operands) all.push_back(z(x));
  return {parts(f(all))};
}

const FunctionCases kLinalgCases{
    {"complex einsum",
     [](const json& a, const Tensors& in) -> Tensors {
       return from_complex_parts(in,
                                 [&](const Tensors& x) { return einsum(text(a, "equation"), x); });
     }},
    {"complex inner",
     [](const json&, const Tensors& in) -> Tensors {
       return from_complex_parts(in, [](const Tensors& x) { return inner(x[0], x[1]); });
     }},
    {"complex tensordot",
     [](const json& a, const Tensors& in) -> Tensors {
       return from_complex_parts(
           in, [&](const Tensors& x) { return tensordot(x[0], x[1], ints(a, "a"), ints(a, "b")); });
     }},
    {"complex multi_dot",
     [](const json&, const Tensors& in) -> Tensors {
       return from_complex_parts(in, [](const Tensors& x) { return multi_dot(x); });
     }},
    {"bmm", [](const json&, const Tensors& in) -> Tensors { return {bmm(in[0], in[1])}; }},
    {"mm", [](const json&, const Tensors& in) -> Tensors { return {mm(in[0], in[1])}; }},
    {"mv", [](const json&, const Tensors& in) -> Tensors { return {mv(in[0], in[1])}; }},
    {"dot", [](const json&, const Tensors& in) -> Tensors { return {dot(in[0], in[1])}; }},
    {"vecdot",
     [](const json& a, const Tensors& in) -> Tensors {
       return {vecdot(in[0], in[1], a["axis"].get<std::int64_t>())};
     }},
    {"inner", [](const json&, const Tensors& in) -> Tensors { return {inner(in[0], in[1])}; }},
    {"outer", [](const json&, const Tensors& in) -> Tensors { return {outer(in[0], in[1])}; }},
    {"addmm",
     [](const json& a, const Tensors& in) -> Tensors {
       return {addmm(in[0], in[1], in[2], a["beta"].get<double>(), a["alpha"].get<double>())};
     }},
    {"baddbmm",
     [](const json& a, const Tensors& in) -> Tensors {
       return {baddbmm(in[0], in[1], in[2], a["beta"].get<double>(), a["alpha"].get<double>())};
     }},
    {"tensordot",
     [](const json& a, const Tensors& in) -> Tensors {
       return {tensordot(in[0], in[1], ints(a, "a"), ints(a, "b"))};
     }},
    {"tensordot (last axes)",
     [](const json& a, const Tensors& in) -> Tensors {
       return {tensordot(in[0], in[1], a["axes"].get<std::int64_t>())};
     }},
    {"kron", [](const json&, const Tensors& in) -> Tensors { return {kron(in[0], in[1])}; }},
    {"multi_dot", [](const json&, const Tensors& in) -> Tensors { return {multi_dot(in)}; }},
    {"matrix_power",
     [](const json& a, const Tensors& in) -> Tensors {
       return {matrix_power(in[0], a["n"].get<std::int64_t>())};
     }},
    {"cross",
     [](const json& a, const Tensors& in) -> Tensors {
       return {cross(in[0], in[1], a["axis"].get<std::int64_t>())};
     }},
    {"cdist",
     [](const json& a, const Tensors& in) -> Tensors {
       return {cdist(in[0], in[1], number_of(a["p"]))};
     }},
    {"solve (vectors)",
     [](const json&, const Tensors& in) -> Tensors { return {solve(in[0], in[1])}; }},
    {"cholesky_solve",
     [](const json& a, const Tensors& in) -> Tensors {
       return {cholesky_solve(in[0], in[1], a["upper"].get<bool>())};
     }},
    {"logdet", [](const json&, const Tensors& in) -> Tensors { return {logdet(in[0])}; }},
    {"lstsq",
     [](const json& a, const Tensors& in) -> Tensors {
       return {lstsq(in[0], in[1], a["rcond"].get<double>())};
     }},
    {"matrix_rank",
     [](const json& a, const Tensors& in) -> Tensors {
       return {matrix_rank(in[0], a["rcond"].get<double>())};
     }},
    {"svd put together",
     [](const json& a, const Tensors& in) -> Tensors {
       return {put_together(svd(in[0], a["full"].get<bool>()))};
     }},
    {"qr put together",
     [](const json& a, const Tensors& in) -> Tensors {
       const Qr f = qr(in[0], a["full"].get<bool>());
       return {matmul(f.q, f.r)};
     }},
    {"lu put together",
     [](const json&, const Tensors& in) -> Tensors { return {product_of(lu(in[0]))}; }},
    {"eigh put together",
     [](const json&, const Tensors& in) -> Tensors {
       const Eigh f = eigh(in[0]);
       return {matmul(f.v * unsqueeze(f.w, -2), turned(f.v))};
     }},
};

}  // namespace
}  // namespace dyad::testing
