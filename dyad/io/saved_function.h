#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dyad/exec/compile.h"
#include "dyad/io/json_fields.h"
#include "dyad/ir/graph_texts.h"

namespace dyad::io {

/// Graphs and tensors that a file holds, while it is written.
struct SavedParts {
  GraphTexts texts;
  std::vector<std::string> graphs;  ///< texts, named by their positions
  GraphTexts::Named grads;          ///< of tensors, by the tensors' names

  /// Adds a graph; GraphError naming the line of an operator that only this program has.
  std::size_t add(const GraphImpl& graph, Loc loc);
};

/// The same, read from a file.
struct LoadedParts {
  std::vector<std::string> graphs;
  NamedTensors variables;
  NamedTensors constants;
};

/// What a compiled function recorded, as JSON. Only recordings that hold in the modes of now are
/// taken. GraphError when there are none, or for one that runs eagerly (with the line that made it
/// so), and for several values of a number among the arguments.
[[nodiscard]] std::string save_function(const exec::CompiledCore& core, SavedParts& parts, Loc loc);

/// A function without its source.
struct LoadedFunction {
  std::unique_ptr<exec::CompiledCore> core;
  std::vector<std::int64_t> numbers;  ///< what a call passes beside tensors
  std::vector<Type> inputs, outputs;  ///< of the newest recording
};
/// `threads`: as of CompileOptions. Throws std::invalid_argument or an Error of Dyad for what
/// cannot have been saved.
[[nodiscard]] LoadedFunction load_function(const JsonValue& from, const LoadedParts& parts,
                                           int threads = 0);

}  // namespace dyad::io
