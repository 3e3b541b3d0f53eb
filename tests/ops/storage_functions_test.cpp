#include "dyad/core/create.h"
#include "dyad/ops/ops.h"
#include "function_cases.h"

namespace dyad::testing {
namespace {

const FunctionCases kStorageCases{
    {"complex add",
     [](const json&, const Tensors& in) -> Tensors { return {parts(z(in[0]) + z(in[1]))}; }},
    {"complex sub",
     [](const json&, const Tensors& in) -> Tensors { return {parts(z(in[0]) - z(in[1]))}; }},
    {"complex mul",
     [](const json&, const Tensors& in) -> Tensors { return {parts(z(in[0]) * z(in[1]))}; }},
    {"complex div",
     [](const json&, const Tensors& in) -> Tensors { return {parts(z(in[0]) / z(in[1]))}; }},
    {"complex add real",
     [](const json&, const Tensors& in) -> Tensors { return {parts(z(in[0]) + in[1])}; }},
    {"complex sub real",
     [](const json&, const Tensors& in) -> Tensors { return {parts(z(in[0]) - in[1])}; }},
    {"complex mul real",
     [](const json&, const Tensors& in) -> Tensors { return {parts(z(in[0]) * in[1])}; }},
    {"complex div real",
     [](const json&, const Tensors& in) -> Tensors { return {parts(z(in[0]) / in[1])}; }},
    {"real add complex",
     [](const json&, const Tensors& in) -> Tensors { return {parts(in[0] + z(in[1]))}; }},
    {"real sub complex",
     [](const json&, const Tensors& in) -> Tensors { return {parts(in[0] - z(in[1]))}; }},
    {"real mul complex",
     [](const json&, const Tensors& in) -> Tensors { return {parts(in[0] * z(in[1]))}; }},
    {"real div complex",
     [](const json&, const Tensors& in) -> Tensors { return {parts(in[0] / z(in[1]))}; }},
    {"complex neg", [](const json&, const Tensors& in) -> Tensors { return {parts(-z(in[0]))}; }},
    {"complex exp",
     [](const json&, const Tensors& in) -> Tensors { return {parts(exp(z(in[0])))}; }},
    {"complex abs", [](const json&, const Tensors& in) -> Tensors { return {abs(z(in[0]))}; }},
    {"complex log",
     [](const json&, const Tensors& in) -> Tensors { return {parts(log(z(in[0])))}; }},
    {"complex angle", [](const json&, const Tensors& in) -> Tensors { return {angle(z(in[0]))}; }},
    {"angle", [](const json&, const Tensors& in) -> Tensors { return {angle(in[0])}; }},
    {"complex conj",
     [](const json&, const Tensors& in) -> Tensors { return {parts(conj(z(in[0])))}; }},
    {"complex real", [](const json&, const Tensors& in) -> Tensors { return {real(z(in[0]))}; }},
    {"complex imag", [](const json&, const Tensors& in) -> Tensors { return {imag(z(in[0]))}; }},
    {"complex square",
     [](const json&, const Tensors& in) -> Tensors { return {parts(square(z(in[0])))}; }},
    {"complex sum",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {parts(sum(z(in[0]), ints(attrs, "axes")))};
     }},
    {"complex mean",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {parts(mean(z(in[0]), ints(attrs, "axes")))};
     }},
    {"complex matmul",
     [](const json&, const Tensors& in) -> Tensors { return {parts(matmul(z(in[0]), z(in[1])))}; }},
    {"complex solve",
     [](const json&, const Tensors& in) -> Tensors { return {parts(solve(z(in[0]), z(in[1])))}; }},
    {"complex solve real",
     [](const json&, const Tensors& in) -> Tensors { return {parts(solve(z(in[0]), in[1]))}; }},
    {"complex inverse",
     [](const json&, const Tensors& in) -> Tensors { return {parts(inverse(z(in[0])))}; }},
    {"complex pinv",
     [](const json&, const Tensors& in) -> Tensors { return {parts(pinv(z(in[0])))}; }},
    {"complex lstsq",
     [](const json&, const Tensors& in) -> Tensors { return {parts(lstsq(z(in[0]), z(in[1])))}; }},
    {"complex matmul real",
     [](const json&, const Tensors& in) -> Tensors { return {parts(matmul(z(in[0]), in[1]))}; }},
    {"real matmul complex",
     [](const json&, const Tensors& in) -> Tensors { return {parts(matmul(in[0], z(in[1])))}; }},
    {"complex polar",
     [](const json&, const Tensors& in) -> Tensors { return {parts(polar(in[0], in[1]))}; }},
    {"complex of parts",
     [](const json&, const Tensors& in) -> Tensors { return {parts(complex(in[0], in[1]))}; }},
    {"complex eq",
     [](const json&, const Tensors& in) -> Tensors { return {z(in[0]) == z(in[1])}; }},
    {"complex ne",
     [](const json&, const Tensors& in) -> Tensors { return {z(in[0]) != z(in[1])}; }},
    {"complex gather",
     [](const json&, const Tensors& in) -> Tensors {
       return {parts(gather(z(in[0]), 1, tensor({{0, 2}, {1, 1}}, i64)))};
     }},
    {"complex index_select",
     [](const json&, const Tensors& in) -> Tensors {
       return {parts(index_select(z(in[0]), 1, tensor({2, 0, 2}, i64)))};
     }},
    {"complex where",
     [](const json&, const Tensors& in) -> Tensors {
       return {parts(where(tensor({true, false, true}), z(in[0]), z(in[1])))};
     }},
    {"complex where number",
     [](const json&, const Tensors& in) -> Tensors {
       return {parts(where(tensor({true, false, true}), z(in[0]), 0))};
     }},
    {"complex move",
     [](const json&, const Tensors& in) -> Tensors {
       const Tensor x = z(in[0]), tail = slice(x, 1, 1);
       return {parts(concat(
           {reshape(transpose(x, 0, 1), {2, 3}), slice(concat({tail, tail}, 1), 1, 0, 3)}, 0))};
     }},
    {"complex clone",
     [](const json&, const Tensors& in) -> Tensors { return {parts(clone(z(in[0])))}; }},
    {"complex to",
     [](const json& attrs, const Tensors& in) -> Tensors {
       const DType dtype = parse_dtype(attrs.at("dtype").get<std::string>());
       const Tensor y = to(z(in[0]), dtype);
       return {is_complex(dtype) ? parts(y) : y};
     }},
    {"to complex",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {parts(to(in[0], parse_dtype(attrs.at("dtype").get<std::string>())))};
     }},
};

}  // namespace
}  // namespace dyad::testing
