#include <gtest/gtest.h>

#include "dyad/ops/ops.h"
#include "function_cases.h"

namespace dyad::testing {
namespace {

const FunctionCases kPointwiseCases{
    {"reciprocal", [](const json&, const Tensors& in) -> Tensors { return {reciprocal(in[0])}; }},
    {"nan_to_num fn",
     [](const json&, const Tensors& in) -> Tensors { return {nan_to_num(in[0])}; }},
    {"swish fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {swish(in[0], number_of(attrs["alpha"]))};
     }},
    {"quick_gelu fn",
     [](const json&, const Tensors& in) -> Tensors { return {quick_gelu(in[0])}; }},
    {"logsigmoid fn",
     [](const json&, const Tensors& in) -> Tensors { return {logsigmoid(in[0])}; }},
    {"tanhshrink fn",
     [](const json&, const Tensors& in) -> Tensors { return {tanhshrink(in[0])}; }},
    {"glu fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {glu(in[0], attrs["axis"].get<int>())};
     }},
    {"swiglu fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {swiglu(in[0], attrs["axis"].get<int>())};
     }},
    {"elu fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {elu(in[0], number_of(attrs["alpha"]))};
     }},
    {"celu fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {celu(in[0], number_of(attrs["alpha"]))};
     }},
    {"selu fn", [](const json&, const Tensors& in) -> Tensors { return {selu(in[0])}; }},
    {"relu6 fn", [](const json&, const Tensors& in) -> Tensors { return {relu6(in[0])}; }},
    {"prelu fn", [](const json&, const Tensors& in) -> Tensors { return {prelu(in[0], in[1])}; }},
    {"hardshrink fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {hardshrink(in[0], number_of(attrs["lambda"]))};
     }},
    {"softshrink fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {softshrink(in[0], number_of(attrs["lambda"]))};
     }},
};

}  // namespace
}  // namespace dyad::testing
