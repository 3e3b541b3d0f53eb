#include "dyad/ops/attrs/random.h"

#include "dyad/core/generator.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/runtime/cpu/kernels.h"
#include "dyad/runtime/launch.h"

namespace dyad::runtime::cpu {
namespace {

void uniform(const OpCall& call) {
  const Tensor* const inputs[] = {call.inputs.data(), &call.inputs[1]};
  run_counted(call.op, call.attrs, inputs, call.outputs[0]);
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
