#include <gtest/gtest.h>

#include "dyad/ops/ops.h"
#include "function_cases.h"

namespace dyad::testing {
namespace {

const FunctionCases kNumericCases{
    {"clamp of tensors",
     [](const json&, const Tensors& in) -> Tensors {
       return {clamp(in[0], in[1], in.size() > 2 ? in[2] : Tensor())};
     }},
    {"sinc fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       if (!attrs.contains("n")) return {sinc(in[0])};
       return {sinc(in[0], attrs.at("n").get<int>())};
     }},
    {"gcd fn", [](const json&, const Tensors& in) -> Tensors { return {gcd(in[0], in[1])}; }},
    {"lcm fn", [](const json&, const Tensors& in) -> Tensors { return {lcm(in[0], in[1])}; }},
    {"heaviside fn",
     [](const json&, const Tensors& in) -> Tensors { return {heaviside(in[0], in[1])}; }},
    {"logit fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {logit(in[0], number(attrs, "eps"))};
     }},
    {"logaddexp2 fn",
     [](const json&, const Tensors& in) -> Tensors { return {logaddexp2(in[0], in[1])}; }},
    {"xlog1py fn",
     [](const json&, const Tensors& in) -> Tensors { return {xlog1py(in[0], in[1])}; }},
    {"entr fn", [](const json&, const Tensors& in) -> Tensors { return {entr(in[0])}; }},
    {"ndtr fn", [](const json&, const Tensors& in) -> Tensors { return {ndtr(in[0])}; }},
    {"log_ndtr fn", [](const json&, const Tensors& in) -> Tensors { return {log_ndtr(in[0])}; }},
    {"frexp fn",
     [](const json&, const Tensors& in) -> Tensors {
       const Frexp parts = frexp(in[0]);
       return {parts.mantissa, parts.exponent};
     }},
    {"deg2rad fn", [](const json&, const Tensors& in) -> Tensors { return {deg2rad(in[0])}; }},
    {"rad2deg fn", [](const json&, const Tensors& in) -> Tensors { return {rad2deg(in[0])}; }},
    {"ldexp fn", [](const json&, const Tensors& in) -> Tensors { return {ldexp(in[0], in[1])}; }},
    {"float_power fn",
     [](const json&, const Tensors& in) -> Tensors { return {float_power(in[0], in[1])}; }},
    {"addcmul fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {addcmul(in[0], in[1], in[2], number(attrs, "value"))};
     }},
    {"addcdiv fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {addcdiv(in[0], in[1], in[2], number(attrs, "value"))};
     }},
    {"signbit fn", [](const json&, const Tensors& in) -> Tensors { return {signbit(in[0])}; }},
    {"isposinf fn", [](const json&, const Tensors& in) -> Tensors { return {isposinf(in[0])}; }},
    {"isneginf fn", [](const json&, const Tensors& in) -> Tensors { return {isneginf(in[0])}; }},
    {"isclose fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {isclose(in[0], in[1], number(attrs, "rtol"), number(attrs, "atol"),
                       attrs.at("equal_nan").get<bool>())};
     }},
    {"allclose fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {allclose(in[0], in[1], number(attrs, "rtol"), number(attrs, "atol"),
                        attrs.at("equal_nan").get<bool>())};
     }},
    {"equal fn", [](const json&, const Tensors& in) -> Tensors { return {equal(in[0], in[1])}; }},
};

}  // namespace
}  // namespace dyad::testing
