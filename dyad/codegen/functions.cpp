#include "dyad/codegen/functions.h"

#include <utility>

namespace dyad::codegen {
namespace {

/// The ABI is part of it: code that was compiled for another one is never found.
KernelHash key_of(const KernelFunction& f) {
  KernelRecipe content;
  content.kind = f.part == KernelPart::reduce ? KernelKind::reduce_rows : KernelKind::pointwise;
  content.inputs = f.inputs;
  content.outputs = f.outputs;
  content.program = f.program;
  content.combine = f.combine;
  content.init = f.init;
  return hash_bytes(content.text(true), DYAD_KERNEL_ABI);
}

std::vector<Operand> contiguous(const std::vector<ScalarType>& types) {
  std::vector<Operand> operands;
  for (ScalarType t : types) operands.push_back({.dtype = scalar::dtype_of_type(t)});
  return operands;
}

std::vector<Operand> joined(std::vector<Operand> a, const std::vector<Operand>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

std::vector<KernelFunction> functions_of(const KernelRecipe& recipe) {
  std::vector<KernelFunction> functions;
  const auto add = [&](KernelPart part, std::string_view suffix, std::vector<Operand> inputs,
                       ScalarProgram program, std::vector<Operand> outputs) -> KernelFunction& {
    return functions.emplace_back(KernelFunction{.part = part,
                                                 .key = {},
                                                 .name = recipe.name + std::string(suffix),
                                                 .inputs = std::move(inputs),
                                                 .outputs = std::move(outputs),
                                                 .program = std::move(program),
                                                 .combine = {},
                                                 .init = {}});
  };
  if (!recipe.is_reduction()) {
    add(KernelPart::row, "", recipe.inputs, recipe.program, recipe.outputs);
  } else {
    const auto accumulators = contiguous(recipe.accumulators());
    if (recipe.kind == KernelKind::reduce_rows) {
      KernelFunction& reduce = add(KernelPart::reduce, "", recipe.inputs, recipe.program, {});
      reduce.combine = recipe.combine;
      reduce.init = recipe.init;
    } else {
      add(KernelPart::accumulate, "", joined(accumulators, recipe.inputs),
          accumulate_program(recipe), accumulators);
    }
    add(KernelPart::combine, ".combine", joined(accumulators, accumulators), recipe.combine,
        accumulators);
    const Operand count{.dtype = DType::i64, .access = Access::broadcast};
    add(KernelPart::finish, ".finish", joined(accumulators, {count}), recipe.finish,
        recipe.outputs);
  }
  for (KernelFunction& f : functions) f.key = key_of(f);
  return functions;
}

std::optional<DyadKernelCode> code_of(std::span<const KernelFunction> functions,
                                      const FindFunction& find) {
  DyadKernelCode code{};
  for (const KernelFunction& f : functions) {
    void* address = const_cast<void*>(find(f.key));
    if (address == nullptr) return std::nullopt;
    if (f.part == KernelPart::reduce)
      code.reduce = reinterpret_cast<DyadReduceFn>(address);
    else
      row_entry(code, f.part) = reinterpret_cast<DyadRowFn>(address);
  }
  return code;
}

}  // namespace dyad::codegen
