#pragma once

#include <string>

#include "dyad/core/dim.h"
#include "dyad/ir/graph.h"
#include "dyad/ir/scalar_reduction.h"

namespace dyad::exec {

/// What the kernel of a node computes for each element.
struct StepProgram {
  std::string name;
  bool is_reduction = false;
  ScalarProgram pointwise;     ///< inputs to outputs
  ReductionProgram reduction;  ///< its map starts from the node's inputs
  bool counts = false;         ///< behind these is the number of the element, row-major
  Shape space;                 ///< a reduction's: the shape of its element
  Ints reduced;                ///< the axes of the space that are reduced
};

/// The program of a pointwise operator, a reduction, or a fused node.
[[nodiscard]] StepProgram program_of(const Node& node, const Attrs& attrs,
                                     const SymbolMap& symbols);

}  // namespace dyad::exec
