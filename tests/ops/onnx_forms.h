#pragma once

#include <map>
#include <string>

namespace dyad::testing {

/// The ONNX operators that rows write themselves as, by the row's name: of its reference cases the
/// one that takes the fewest nodes, in the opset that is written unless one is asked for (rows that
/// need a later one: in that). Each with the opset that brought its version: `Abs (13), Pow (15)`.
/// Nothing of a row that no case of its own writes.
[[nodiscard]] std::map<std::string, std::string> onnx_forms();

}  // namespace dyad::testing
