#pragma once

#include <functional>
#include <string>
#include <vector>

#include "dyad/core/tensor.h"

namespace dyad::bench {

/// An operator as the comparison with PyTorch calls it: bench/peers/ops_table.py has the same name
/// with PyTorch's call and the inputs.
struct BenchedOp {
  std::string name;
  std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)> run;
};

/// One line an operator.
[[nodiscard]] const std::vector<BenchedOp>& benched_ops();

/// Runs operators as the lines of standard input say, one JSON object each, and answers each line
/// by one: what bench/peers/ops.py drives in turn with PyTorch.
///   {"do": "list"} -> {"ops": [names]}
///   {"do": "load", "op": name, "inputs": [files.npy], "wanted": [inputs to differentiate by],
///    "weight": file.npy, "threads": n} -> {}
///   {"do": "run", "backward": b, "folder": f} -> {"outputs": n}: results, or gradients, in
///    f/0.npy... (the gradients of the first output, by weight)
///   {"do": "time", "backward": b, "count": n} -> {"seconds": s}
/// An error is answered {"error": text}.
void serve_ops();

}  // namespace dyad::bench
