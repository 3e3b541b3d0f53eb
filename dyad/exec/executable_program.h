#pragma once

#include <cstddef>
#include <string>
#include <vector>

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

/// What a kernel of a fused node reads: an input of the node in the shape of the operator that
/// takes it, seen through views one after the other.
struct RegionRead {
  std::size_t input = 0;
  Type as;
  std::vector<const Node*> views;
};

/// In the order in which the node's program takes them, those without views first.
[[nodiscard]] std::vector<RegionRead> region_reads(const GraphImpl& region);

/// The program of a pointwise operator, a reduction, or a fused node.
[[nodiscard]] StepProgram program_of(const Node& node, const Attrs& attrs,
                                     const SymbolMap& symbols);

}  // namespace dyad::exec
