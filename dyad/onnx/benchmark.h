#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dyad/onnx/inputs.h"

namespace dyad::onnx {

/// How a model is timed.
struct BenchmarkOptions {
  InputOptions inputs = {.values = {}, .files = {}, .sizes = {}, .seed = 0};
  double seconds = 3;     ///< the runs that count take about so long, at least 3 runs
  std::int64_t runs = 0;  ///< so many instead, unless 0
  bool fast_math = true;  ///< of a model: LoadOptions::fast_math
  /// Told what happens now, and how much of it is done (0 to 1).
  std::function<void(std::string_view stage, double part)> progress = {};
};

/// What a model takes. Times are in milliseconds.
struct Benchmark {
  /// All nodes of one kind.
  struct Operator {
    std::string onnx;    ///< `Conv`; of a kernel that computes several nodes `Add, Relu`
    std::string kernel;  ///< Dyad's operators for it: `conv`, `add, relu`
    double ms = 0;       ///< of one run
    double share = 0;    ///< of the time of all operators, 0 to 1
    double calls = 0;    ///< in one run
  };
  /// A node that takes long.
  struct Slow {
    std::string node;  ///< its name and place in the file
    std::string onnx;
    double ms = 0, share = 0;
  };

  std::vector<std::pair<std::string, std::int64_t>> sizes;
  int threads = 0;
  double load_ms = 0;       ///< the file, until the graph is there
  double compile_ms = 0;    ///< passes, memory plan, kernels (from the cache, if they are in it)
  double first_run_ms = 0;  ///< after that; with compilation where data decide on sizes, and where
                            ///< nothing else compiles
  std::int64_t runs = 0;
  double median_ms = 0, p90_ms = 0, min_ms = 0, mean_ms = 0;
  std::uint64_t tensor_peak_bytes = 0;   ///< most memory of tensors at once, weights too
  std::uint64_t process_peak_bytes = 0;  ///< most memory of the process; 0 when unknown
  std::vector<Operator> operators;       ///< the slowest first
  std::vector<Slow> slowest;             ///< at most ten steps
};

/// What is timed, where it is no ONNX model: something that is loaded and has its inputs.
struct BenchmarkSubject {
  double load_ms = 0;
  std::vector<std::pair<std::string, std::int64_t>> sizes = {};
  std::function<void()> prepare = {};  ///< compiles; may be left out
  std::function<void()> run;
  /// The ONNX operator of a place in the graph, empty for other places; may be left out.
  std::function<std::string(Loc)> operator_at = {};
};

/// Times a subject as the function below does. Of the options `inputs` and `fast_math` are not
/// used. Memory counts from the last reset_peak_memory(). Throws what the subject throws.
[[nodiscard]] Benchmark benchmark(const BenchmarkSubject& subject,
                                  const BenchmarkOptions& options = {});

/// Loads, compiles and runs a model, times it, and finds where the time goes: in runs of their own,
/// whose steps are timed one by one. Errors as of load(), make_inputs() and run().
[[nodiscard]] Benchmark benchmark(const std::string& path, const BenchmarkOptions& options = {},
                                  Loc loc = std::source_location::current());

}  // namespace dyad::onnx
