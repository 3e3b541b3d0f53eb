#pragma once

#include <llvm/IR/Module.h>

#include "dyad/codegen/llvm/debug_info.h"
#include "dyad/codegen/llvm/operands.h"

namespace dyad::codegen {

/// Adds a DyadRowFn to the module: a main loop over whole vectors; the rest as a masked vector, as
/// single elements, or, of large programs, through buffers in a last turn of the main loop. Where a
/// call asks for it, and operands allow it, whole vectors are stored past the caches from an
/// aligned place on: by a loop of their own, or, of large programs, by the main loop.
void emit_row(llvm::Module& module, const DyadFunction& source, const VectorTarget& target,
              DebugInfo& debug);
/// Adds a DyadReduceFn: 16 lanes in vectors, blocks of 16 elements, the first and last of them
/// masked.
void emit_reduce(llvm::Module& module, const DyadFunction& source, const VectorTarget& target,
                 DebugInfo& debug);

}  // namespace dyad::codegen
