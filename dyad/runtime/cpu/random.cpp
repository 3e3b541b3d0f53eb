#include "dyad/ops/attrs/random.h"

#include "dyad/core/generator.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/ir/scalar_math.h"
#include "dyad/runtime/cpu/kernels.h"
#include "dyad/runtime/launch.h"

namespace dyad::runtime::cpu {
namespace {

/// The operator's own row has this definition, too; a program need not have the operators.
constexpr ArgInfo kKeyParts[] = {{"seed"}, {"offset"}};
constexpr OpInfo kUniformRow{
    .name = "uniform",
    .inputs = kKeyParts,
    .counted = true,
    .attrs = &attrs_info<ops::UniformAttrs>,
    .eval = [](const void* attrs, std::span<const Scalar> in, std::span<Scalar> out) {
      out[0] = scalar::uniform(in[0], in[1] + in[2], attrs_at<ops::UniformAttrs>(attrs).dtype);
    }};

void uniform(const OpCall& call) {
  const Tensor* const inputs[] = {call.inputs.data(), &call.inputs[1]};
  run_counted(kUniformRow, call.attrs, inputs, call.outputs[0]);
}

void random_key(const OpCall& call) {
  const RandomKey key =
      default_generator().next_key(call.attrs_as<ops::RandomKeyAttrs>().count.number());
  *reinterpret_cast<std::int64_t*>(call.outputs[0].impl()->data) = key.seed;
  *reinterpret_cast<std::int64_t*>(call.outputs[1].impl()->data) = key.offset;
}

void seed_generator(const OpCall& call) {
  const auto& attrs = call.attrs_as<ops::SeedGeneratorAttrs>();
  default_generator().set_state({attrs.seed, attrs.offset});
}

}  // namespace

std::span<const NamedKernel> random_kernels() {
  static constexpr NamedKernel kernels[] = {
      {"random_key", {random_key}}, {"seed_generator", {seed_generator}}, {"uniform", {uniform}}};
  return kernels;
}

}  // namespace dyad::runtime::cpu
