#include "dyad/ops/ops.h"
#include "function_cases.h"

namespace dyad::testing {
namespace {

const FunctionCases kMoverCases{
    {"move by functions", [](const json&, const Tensors& in) -> Tensors {
       const Tensor& x = in[0];
       return {roll(flip(x), {1}, {1}), tile(x, {2, 1}), repeat_interleave(x, 2, 0),
               stack({x, x}, 1)};
     }}};

}  // namespace
}  // namespace dyad::testing
