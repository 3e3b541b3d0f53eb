#include "dyad/ops/embedding.h"
#include "function_cases.h"

namespace dyad::testing {
namespace {

const FunctionCases kEmbeddingCases{
    {"fn embedding",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {embedding(in[0], in[1], attrs["padding_idx"].get<std::int64_t>())};
     }},
    {"fn embedding_bag",
     [](const json&, const Tensors& in) -> Tensors {
       return {embedding_bag(in[0], in[1], {}, {.mode = BagMode::max})};
     }},
};

}  // namespace
}  // namespace dyad::testing
