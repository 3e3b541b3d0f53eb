#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dyad/base/loc.h"

namespace dyad {

/// A host read in a recording, and the values that it has taken.
struct ExplainedDecision {
  Loc loc;
  bool is_bool = false;  ///< the answer of a comparison; otherwise a number
  std::vector<std::string> outcomes;
};

/// One step of a compiled function or graph, at the sizes of its latest call.
struct ExplainedKernel {
  /// The operators that it computes, in their order, each with its line.
  struct Part {
    std::string op;
    Loc loc;
  };
  std::vector<Part> parts;
  std::int64_t bytes = 0;       ///< of the tensors that it reads and writes, each once
  std::int64_t operations = 0;  ///< on numbers; 0 where nobody counts them (sort, gather)
  std::int64_t calls = 0;       ///< while the profile that explain() was given lived
  double seconds = 0;           ///< of those calls
};

/// Sizes of 0 and 1 at which a function was called, and compared with a recording for larger ones.
struct ExplainedSmallSizes {
  std::string sizes;    ///< `s0 = 1`
  std::string differs;  ///< what it did otherwise there; empty: the recording serves these too
};

/// One recording of a compiled function; of a graph what a set of fetches needs.
struct ExplainedRecording {
  /// Why it was made: the first call, or what had changed, with old and new value; the fetches.
  std::string reason;
  /// The line of the guard that failed, or the first that uses the argument that differs; that of
  /// the function where something else differs. None for the first call.
  Loc loc;
  std::vector<std::string> arguments;  ///< types, symbols where sizes may vary
  std::vector<std::string> guards;     ///< what must hold for it to be used, with lines
  std::vector<ExplainedSmallSizes> small_sizes;
  std::vector<ExplainedDecision> decisions;
  int ways = 0;             ///< ways through the host's branches recorded so far
  bool compiled = false;    ///< at least one call has run it
  int nodes = 0;            ///< operators recorded, all segments together
  int kernels = 0;          ///< steps that the compiled segments run
  int plans = 0;            ///< made so far: one for each combination of sizes that came
  double compile_ms = 0;    ///< optimising and generating code
  std::int64_t memory = 0;  ///< bytes for intermediate values, all segments together
  /// Why operators share a kernel or run together on a few rows at a time, and why not, with lines.
  std::vector<std::string> fusion;
  /// Sizes that are padded, and to what: `s0 = 64, 128`; operators that run at exact sizes all the
  /// same, with lines; why nothing is padded.
  std::vector<std::string> buckets, unpadded;
  std::string no_buckets;
  std::vector<std::string> hot_sizes;  ///< with a version of their own: `s0 = 64`
  std::string refusal;                 ///< why it runs eagerly; empty when it is compiled
  std::vector<ExplainedKernel> table;  ///< what its segments run, backward parts last
};

/// A call that fitted no recording and ran eagerly, because of OnRecompile or max_recordings.
struct ExplainedMiss {
  std::int64_t call = 0;  ///< calls until then, with it: its number where one thread calls
  std::string reason;     ///< what had changed, with old and new value
  Loc loc;                ///< as that of a recording, or that of a host read
};

/// What `explain()` tells of a compiled function, or of a graph, whose calls are its runs.
struct Explanation {
  std::string kind = "compiled function";  ///< or `graph`
  std::string name;                        ///< of a compiled function
  Loc loc;
  std::int64_t calls = 0;
  std::int64_t replays = 0;   ///< calls that ran compiled code alone
  std::int64_t recorded = 0;  ///< calls that ran eagerly while they were recorded
  std::int64_t rechecks = 0;  ///< of which to check the recording
  std::int64_t eager = 0;     ///< calls that ran eagerly because the function cannot be compiled or
                              ///< they fitted no recording
  std::int64_t early = 0;     ///< calls that ran eagerly while they were being compiled for
  std::vector<ExplainedRecording> recordings;
  std::vector<ExplainedMiss> misses;  ///< the last few
};

class GraphImpl;

/// A stretch of a recording without host reads. Its graphs have a text form (`to_string`, in
/// dyad/ir/graph.h) and a picture (`to_svg`, in dyad/ir/dot.h).
struct CompiledGraph {
  std::shared_ptr<const GraphImpl> recorded;  ///< as the operators were called
  std::shared_ptr<const GraphImpl> compiled;  ///< as it runs: optimised, chains of operators fused
};

/// What one pass of the compiler did to a graph.
struct ExplainedPass {
  std::string name, summary;
  int operators_before = 0;  ///< of the graph, without those inside of branches, loops and kernels
  int operators_after = 0;
  double ms = 0;
  std::string text;  ///< the graph after it; empty where it changed nothing

  [[nodiscard]] bool changed() const noexcept { return !text.empty(); }
};

/// What the passes did to one graph. Texts are without the elements of constants that take more
/// than 64 KiB in all.
struct ExplainedPasses {
  std::string graph;  ///< which: `recording 1`, `recording 2, region of the scan at rnn.cpp:12`
  std::string text;   ///< as it was given to the first pass
  std::vector<ExplainedPass> passes;  ///< in their order
  /// What a pass behind the last one asked of sizes that vary: such a graph goes through the passes
  /// at each combination of sizes. Mostly empty.
  std::string undecided;
};

/// A page to read.
[[nodiscard]] std::string to_string(const Explanation& explanation);

}  // namespace dyad
