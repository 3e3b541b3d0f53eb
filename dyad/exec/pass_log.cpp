#include "dyad/exec/pass_log.h"

#include <functional>
#include <utility>
#include <vector>

#include "dyad/ir/graph_constants.h"
#include "dyad/ir/undecided.h"
#include "dyad/passes/lower.h"
#include "dyad/runtime/library_calls.h"

namespace dyad::exec {

PassLog::PassLog(std::string graph, GraphTextOptions text) : text_options_(text) {
  log_.graph = std::move(graph);
}

void PassLog::operator()(std::string_view pass, const GraphImpl& graph) {
  const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start_;
  std::string now = to_string(graph, text_options_);
  const int operators = count_operators(graph);
  if (pass == "input") {
    log_.text = now;
  } else {
    ExplainedPass& told =
        log_.passes.emplace_back(ExplainedPass{.name = std::string(pass),
                                               .summary = passes::find_pass(pass).summary,
                                               .operators_before = operators_,
                                               .operators_after = operators,
                                               .ms = taken.count(),
                                               .text = {}});
    if (now != latest_) told.text = now;
  }
  latest_ = std::move(now);
  operators_ = operators;
  start_ = std::chrono::steady_clock::now();
}

passes::LowerOptions lower_options(const ExecutableOptions& options) {
  passes::LowerOptions how;
  how.evaluate = evaluate_node;
  how.cannot_fail = never_fails;
  how.off = options.passes_off;
  how.fast_math = options.fast_math;
  how.channel_blocks = options.channel_blocks.value_or(runtime::prefers_channel_blocks());
  how.library = {runtime::convolves, runtime::multiplies};
  how.memory = options.memory;
  how.dump = options.dump;
  return how;
}

ExplainedPasses explain_passes(const GraphImpl& graph, std::string name,
                               const ExecutableOptions& options) {
  const std::vector<ContentsHold> read = hold_constants(graph);
  PassLog log(std::move(name));
  passes::LowerOptions how = lower_options(options);
  how.dump = std::ref(log);
  std::string question;
  try {
    static_cast<void>(passes::run_passes(clone(graph), passes::passes_for(how), how));
  } catch (const UndecidedError& error) {
    question = error.what();
  }
  ExplainedPasses told = log.take();
  told.undecided = std::move(question);
  return told;
}

}  // namespace dyad::exec
