#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/dyad/cnn.h"

namespace dyad::tool {

/// One training run of the demo.
struct TrainingRun {
  std::string name;
  std::vector<double> losses = {};      ///< of each step
  std::vector<double> accuracies = {};  ///< after each epoch
  double seconds = 0;
  double step_ms = 0;  ///< median
  double compile_ms = 0;
  std::size_t peak_bytes = 0;
  std::optional<Explanation> explanation = {};
  std::vector<CompiledGraph> graphs = {};
};

struct DemoResult {
  std::string digits;
  TrainingRun eager, compiled;
  double largest_difference = 0;  ///< of any loss or trained parameter
};

/// The comparison as lines of text.
[[nodiscard]] std::string text_table(const DemoResult& result);

/// Writes the page: the table, curves, and with `pictures` the training step's graph before and
/// after optimisation.
void write_report(const DemoResult& result, const Cnn& model, bool pictures,
                  const std::string& path);

}  // namespace dyad::tool
