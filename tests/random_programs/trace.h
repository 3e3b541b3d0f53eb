#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "program.h"

namespace dyad::testing {

/// A tensor that a call gave or left behind.
struct Seen {
  std::string name;  ///< "result 0", "gradient of v1"...
  Tensor value;
  bool tracks_grad = false;
};

/// What one call did: everything that can be seen of it, or its error.
struct Trace {
  std::vector<Seen> seen;
  std::string error;  ///< type and message
};

/// One trace for each call, up to the first that throws.
using Traces = std::vector<Trace>;

/// Where the elements of two tensors of one type part: empty when they do not. Any NaN equals any
/// other.
[[nodiscard]] std::string element_difference(const Tensor& got, const Tensor& want);
/// Whether it ends with the one error that compiled functions have of their own: second derivatives
/// from outside come too late for a call that was replayed.
[[nodiscard]] bool is_missing_second_derivative(const Trace& trace);
/// Where two runs of one call part: empty when they do not. Any NaN equals any other.
std::string difference(const Trace& got, const Trace& want);

/// A digest of what a program did: the same on every machine. Where a library took part, whose bits
/// depend on the machine, it is without elements, and without sizes, which may follow from them.
std::uint64_t digest(const Program& program, const Traces& traces);

}  // namespace dyad::testing
