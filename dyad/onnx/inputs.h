#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dyad/onnx/load.h"

namespace dyad::onnx {

/// Where the inputs of a model come from.
struct InputOptions {
  std::vector<NamedValue> values = {};
  /// Input and file: `.npy`, or a message of ONNX (see load_value).
  std::vector<std::pair<std::string, std::string>> files = {};
  /// Numbers for sizes that have names; those that nothing tells are 1.
  std::map<std::string, std::int64_t> sizes = {};
  /// Draws the inputs that are not given: floats from the standard normal distribution; i8 and u8
  /// over their whole range; other integers 0 or 1, or below the number of rows of the table that
  /// they index; an optional is empty. Equal seeds draw equal numbers.
  std::optional<std::uint64_t> seed = {};
};

/// What a run of a model takes.
struct Inputs {
  std::vector<NamedValue> values;                           ///< in the model's order
  std::vector<std::pair<std::string, std::int64_t>> sizes;  ///< of all sizes with names
};

/// The names of sizes in the types of inputs, each once.
[[nodiscard]] std::vector<std::string> size_names(const std::vector<ValueInfo>& inputs);

/// The inputs of a model, complete and checked against what the model says of them. GraphError
/// naming what would be right: for a name that no input or size has, for inputs that are missing
/// (all of them) when there is no seed, or that cannot be drawn. DTypeError and ShapeError for a
/// value of another dtype or size than the model, another input or `sizes` says. IoError and
/// OnnxError for files.
[[nodiscard]] Inputs make_inputs(const Model& model, const InputOptions& options,
                                 Loc loc = std::source_location::current());

}  // namespace dyad::onnx
