#include <gtest/gtest.h>

#include "cases.h"
#include "dyad/autograd/gradients.h"
#include "dyad/core/create.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/ops/ops.h"
#include "function_cases.h"

namespace dyad::testing {
namespace {

const FunctionCases kQuantizedCases{
    {"quantize by arguments",
     [](const json& attrs, const Tensors& in) -> Tensors {
       QuantizeArgs args{.dtype = dtype_at(attrs, "dtype"),
                         .axis = attrs.at("axis").get<std::int64_t>(),
                         .block_size = attrs.at("block_size").get<std::int64_t>(),
                         .saturate = attrs.at("saturate").get<bool>()};
       if (attrs.contains("precision")) args.precision = dtype_at(attrs, "precision");
       return {quantize_linear(in[0], in[1], in[2], args)};
     }},
    {"quantize by a number",
     [](const json&, const Tensors& in) -> Tensors { return {quantize_linear(in[0], 0.25)}; }},
    {"dequantize by arguments",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {dequantize_linear(in[0], in[1], in[2],
                                 {.axis = attrs.at("axis").get<std::int64_t>(),
                                  .block_size = attrs.at("block_size").get<std::int64_t>()})};
     }},
    // By x, scale and zero point, of the sum weighted by 1, 2, 3...
    {"fake_quantize gradients",
     [](const json& attrs, const Tensors& in) -> Tensors {
       Tensors places;
       for (const Tensor& x : in) {
         places.push_back(clone(x));
         if (places.back().is_concrete()) places.back().requires_grad();
       }
       const Tensor y =
           fake_quantize(places[0], places[1], places[2], attrs.at("low").get<std::int64_t>(),
                         attrs.at("high").get<std::int64_t>(), 0);
       const Tensor weight = reshape(arange(y.numel(), f32) + 1, y.shape());
       return Evaluator::current().backward(std::span(&y, 1), std::span(&weight, 1), places, false,
                                            false, std::source_location::current());
     }},
    {"matmul_integer of vectors",
     [](const json&, const Tensors& in) -> Tensors { return {matmul_integer(in[0], in[1])}; }},
    {"qlinear_matmul by rows",
     [](const json&, const Tensors& in) -> Tensors {
       return {qlinear_matmul({in[0], in[1], in[2]}, {in[3], in[4], in[5]}, in[6], in[7])};
     }},
};

}  // namespace
}  // namespace dyad::testing
