#pragma once

#include <string>
#include <vector>

#include "dyad/core/tensor.h"

namespace dyad {

namespace exec {
void print_tensors(std::string format, std::vector<Tensor> tensors, Loc loc);

/// Adds the row of `print` to the registry, once, so that graphs with it can be read.
void register_print_op();
}  // namespace exec

/// Prints a line to the standard output: `format` with each `{}` replaced by the next tensor (a
/// scalar as a number, others as NumPy prints them; those left over follow). In a graph it is a
/// node: every run that computes what its tensors are made from prints, in program order.
/// ValueError when `format` has more places than there are tensors.
template <class... Tensors>
void print(std::string format, const Arg& first, const Tensors&... more) {
  exec::print_tensors(std::move(format), {first.tensor(), Tensor(more)...}, first.loc());
}

}  // namespace dyad
