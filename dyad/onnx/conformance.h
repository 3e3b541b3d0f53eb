#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dyad/base/loc.h"

namespace dyad::onnx {

/// How a case of ONNX's backend tests went.
struct CaseResult {
  enum class Outcome { passed, failed, skipped };
  std::string name;  ///< the folder's
  Outcome outcome = Outcome::failed;
  std::string reason;  ///< of a failure its first difference, of a skipped case what is missing
  /// Whether random numbers made it necessary to compare mean and variance.
  bool by_statistics = false;
};

/// How far results may be from those of a case: |got - want| <= absolute + relative * |want|.
struct Tolerance {
  double relative = 1e-3;
  double absolute = 1e-7;
};

/// The folders below `path` (or itself) that hold a case in the layout of ONNX's backend tests:
/// `model.onnx` and `test_data_set_*` with `input_*.pb` and `output_*.pb`. Sorted by name. IoError
/// where there is none.
[[nodiscard]] std::vector<std::string> find_cases(const std::string& path,
                                                  Loc loc = std::source_location::current());

/// Runs a case: dtypes and shapes of the results must be equal, values within the tolerance (NaN
/// equals NaN, infinity only itself); a file `tolerance.txt` ("relative absolute") in the folder
/// overrides it. What a model draws at random is compared by mean and variance (the default
/// generator is seeded anew). A data set without results to compare with fails, as do files for
/// inputs or outputs that the model does not have. A model that needs what Dyad does not have is
/// skipped, as is a folder without data sets. Throws nothing that a model can cause.
[[nodiscard]] CaseResult run_case(const std::string& folder, Tolerance tolerance = {});

}  // namespace dyad::onnx
