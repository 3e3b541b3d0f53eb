#pragma once

#include <cstdint>
#include <string>

namespace dyad::tool {

/// What `dyad demo` does.
struct DemoOptions {
  std::string
      data;  ///< folder with digits; empty: DYAD_DATA_DIR, or the digits that come with Dyad
  std::string output = "dyad-demo";  ///< folder for report.html, model.onnx and weights.safetensors
  int epochs = 0;  ///< 0: 30 for the small digits, 5 for MNIST, which has six times as many
  std::int64_t batch = 64;
  std::uint64_t seed = 1;
  bool graph = true;  ///< pictures of the graph in the report
};

/// Trains a CNN on handwritten digits eagerly and compiled, compares, exports, reloads, classifies.
/// 0 when all agreed.
int run_demo(DemoOptions options);

}  // namespace dyad::tool
