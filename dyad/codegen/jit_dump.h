#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "dyad/codegen/line_table.h"

/// The file from which `perf inject --jit` learns of code that appeared at run time, with its bytes
/// and its lines: FOLDER/jit-PID.dump, when DYAD_PERF_JITDUMP=FOLDER is in the environment. A
/// process opens it with its first function, and so does each forked one.
namespace dyad::codegen {

/// Whether the environment asks for the file.
[[nodiscard]] bool jit_dump_wanted();

/// Adds a function, which must be in its place and not have run yet. `lines` are those of its code,
/// in order; there may be none. A file that cannot be written is reported once, as a warning, and
/// given up. From any thread.
void add_to_jit_dump(std::span<const std::byte> code, std::string_view name,
                     std::span<const SourceLine> lines);

}  // namespace dyad::codegen
