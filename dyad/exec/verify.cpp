#include "dyad/exec/verify.h"

#include <fmt/format.h>

#include <optional>
#include <ranges>
#include <utility>

#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/tape.h"
#include "dyad/base/error.h"
#include "dyad/base/finally.h"
#include "dyad/core/generator.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/exec/compared_graph.h"
#include "dyad/exec/executable.h"
#include "dyad/exec/recorder.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/ops/creation.h"
#include "dyad/runtime/threads.h"

namespace dyad::exec {
namespace {

/// What a recorded call was computed from.
GraphFeed feed_of(const Path& path, std::span<const Tensor> arguments, BeforeCall before,
                  RandomKey random) {
  GraphFeed made{.placeholders = {},
                 .sizes = path.hints,
                 .outer = {},
                 .random = random,
                 .before = std::move(before)};
  const auto feed = [&](Value placeholder, Tensor tensor) {
    made.placeholders[placeholder.node->attrs_as<PlaceholderAttrs>().name] = std::move(tensor);
  };
  const std::span<const Value> placeholders = path.graph->placeholders();
  for (std::size_t i = 0; i < arguments.size(); ++i)
    feed(placeholders[i], made.before.find(arguments[i]));
  for (const GradCapture& capture : path.grad_captures)
    feed(capture.placeholder, made.before.find_grad(capture));
  if (path.backward) {
    for (const Value seed : path.backward->seeds)
      feed(seed, ones(seed.type().shape(), seed.type().dtype()));
  }
  return made;
}

/// All that a call leaves, and what its results' gradients would be.
std::vector<Value> left_by(const Path& path) {
  std::vector<Value> values = path.outputs;
  for (const Write& write : path.writes) values.push_back(write.value);
  for (const GradWrite& write : path.grad_writes) values.push_back(write.value);
  if (path.backward) path.backward->for_each_grad([&](Value v) { values.push_back(v); });
  return values;
}

/// InternalError unless the recorded call, computed again, leaves what the call itself left.
void check_recording(const Path& path, const ComparedGraph& recorded,
                     std::span<const Tensor> arguments, std::span<const Tensor> results, Loc loc) {
  const auto check = [&](const Tensor& left, Value value, const std::string& what) {
    if (!differ(left, recorded.eager(value))) return;
    throw InternalError(fmt::format("{} of a recorded call is not that of the call", what), loc);
  };
  for (std::size_t i = 0; i < results.size(); ++i)
    check(results[i], path.outputs[i], fmt::format("result {}", i));
  for (const Write& write : path.writes) {
    const Tensor& written =
        write.argument < 0 ? write.variable : arguments[static_cast<std::size_t>(write.argument)];
    check(written, write.value, "the written value of " + type_string(written));
  }
  for (std::size_t i = 0; i < path.grad_writes.size(); ++i) {
    const GradWrite& write = path.grad_writes[i];
    const bool has_another =
        std::ranges::any_of(path.grad_writes | std::views::drop(i + 1),
                            [&](const GradWrite& later) { return later.is_same(write); });
    if (!write.value || has_another) continue;
    const Tensor& leaf = write.in(arguments);
    check(autograd::grad_of(*leaf.impl()), write.value, "the gradient of " + type_string(leaf));
  }
}

}  // namespace

VerifyReport verify_call(std::span<const Tensor> arguments, const VerifyBody& body,
                         const CompileOptions& options, Loc loc) {
  if (!Evaluator::is_eager()) {
    throw GraphError(
        "verify() calls the function eagerly: not inside a graph's definition, a "
        "compiled function or another transformation",
        loc.user());
  }
  std::optional<ThreadScope> threads;
  if (options.threads > 0) threads.emplace(options.threads);
  std::vector<Shape> shapes;
  for (const Tensor& argument : arguments) shapes.push_back(argument.shape());
  const RandomKey before = default_generator().state();
  Path path;
  BeforeCall kept;
  std::vector<Tensor> results;
  {
    Recorder recorder(shapes, arguments, {}, loc);
    recorder.keep_before(kept);
    const Evaluator::Scope scope(recorder);
    results = body(recorder.arguments());
    path = recorder.finish(results, loc);
  }
  VerifyReport report{.operators = count_operators(*path.graph), .refusal = path.refusal};
  if (!report.refusal.empty()) return report;

  const RandomKey after = default_generator().state();
  const Finally restored([&] { default_generator().set_state(after); });
  const NoGrad no_tape;
  ExecutableOptions as_given = executable_options(options);
  as_given.memory.sizes = path.hints;
  const ComparedGraph call(*path.graph, feed_of(path, arguments, std::move(kept), before),
                           left_by(path), std::move(as_given));
  report.values = static_cast<int>(call.wanted().size());
  check_recording(path, call, arguments, results, loc);
  report.difference = call.find_first();
  return report;
}

}  // namespace dyad::exec

namespace dyad {

std::string to_string(const VerifyReport& report) {
  const auto count = [](int n, const char* what) {
    return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
  };
  if (!report.refusal.empty()) return "nothing to compare: " + report.refusal + "\n";
  if (!report.difference) {
    return fmt::format("the same bits: {} from {}\n", count(report.values, "value"),
                       count(report.operators, "operator"));
  }
  const VerifyDifference& d = *report.difference;
  std::string where = to_string(d.loc);
  for (const std::string& place : std::views::reverse(d.inside)) where += ", in " + place + ",";
  return fmt::format(
      "{} at {} differs first: element {} of {} is {} in eager mode, {} compiled; {}\n", d.op,
      where, d.element, d.type, d.eager, d.compiled,
      d.pass ? "the pass '" + *d.pass + "' makes it differ"
             : "no pass does that: the kernels that run give something else");
}

}  // namespace dyad
