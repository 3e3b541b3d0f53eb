#pragma once

#include <llvm/IR/IRBuilder.h>

#include <functional>
#include <vector>

#include "dyad/codegen/llvm/operands.h"
#include "dyad/codegen/plugin_abi.h"
#include "dyad/ir/scalar.h"

namespace dyad::codegen {

using scalar::Op;

/// The LLVM type of a compute type: a vector of `lanes`, or the plain type when lanes is 1.
[[nodiscard]] llvm::Type* value_type(llvm::LLVMContext& context, ScalarType type, unsigned lanes);
/// The type of an element in memory.
[[nodiscard]] llvm::Type* memory_type(llvm::LLVMContext& context, DType dtype, unsigned lanes);

/// Between what memory holds and what is computed with, one lane or many.
[[nodiscard]] llvm::Value* from_memory(llvm::IRBuilder<>& ir, DType dtype, llvm::Value* loaded);
[[nodiscard]] llvm::Value* to_memory(llvm::IRBuilder<>& ir, DType dtype, llvm::Value* value);

/// The bits of a constant or slot as a value of `lanes` equal elements.
[[nodiscard]] llvm::Value* constant_value(llvm::LLVMContext& context, ScalarType type,
                                          std::uint64_t bits, unsigned lanes);

/// The number that a param instruction stands for, from the slots that `params` points to.
[[nodiscard]] llvm::Value* load_param(llvm::IRBuilder<>& ir, const DyadInstruction& instruction,
                                      llvm::Value* params);

/// Emits a program's instructions for `lanes` elements at once. `inputs[i]` is the value of input
/// i; `param(slot, type)` gives a splat; `place` is told each instruction before it is emitted, for
/// debug locations.
[[nodiscard]] std::vector<llvm::Value*> emit_program(
    llvm::IRBuilder<>& ir, const DyadProgram& program, unsigned lanes, const VectorTarget& target,
    const std::vector<llvm::Value*>& inputs,
    const std::function<llvm::Value*(std::uint64_t slot, ScalarType type)>& param,
    const std::function<void(const DyadInstruction&)>& place);

}  // namespace dyad::codegen
