#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <utility>

#include "dyad/exec/executable.h"
#include "dyad/exec/explain.h"
#include "dyad/ir/graph.h"
#include "dyad/passes/dump_passes.h"
#include "dyad/passes/pipeline.h"

namespace dyad::exec {

/// Writes down what passes do to a graph: what LowerOptions::dump calls, one object for each graph.
class PassLog {
 public:
  /// `graph`: what it is called in reports.
  explicit PassLog(std::string graph,
                   GraphTextOptions text = {.data_limit = passes::kDumpDataLimit});

  /// The graph as given (pass "input"), or after a pass.
  void operator()(std::string_view pass, const GraphImpl& graph);
  /// What was written down.
  [[nodiscard]] ExplainedPasses take() { return std::move(log_); }

 private:
  GraphTextOptions text_options_;
  ExplainedPasses log_;
  std::string latest_;
  int operators_ = 0;
  std::chrono::steady_clock::time_point start_;  // of the pass that runs
};

/// What these say to passes; without notes.
[[nodiscard]] passes::LowerOptions lower_options(const ExecutableOptions& options);

/// Runs the passes on a graph as an Executable does, but for those on the graphs inside it. The
/// graph stays as it is. Where passes need to know how sizes compare that vary, what they ask is
/// the end of it.
[[nodiscard]] ExplainedPasses explain_passes(const GraphImpl& graph, std::string name,
                                             const ExecutableOptions& options);

}  // namespace dyad::exec
