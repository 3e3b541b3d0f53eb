#include "dyad/exec/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ranges>
#include <unordered_map>
#include <unordered_set>

#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/tape.h"
#include "dyad/base/error.h"
#include "dyad/base/finally.h"
#include "dyad/core/element.h"
#include "dyad/core/generator.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/exec/executable.h"
#include "dyad/exec/recorder.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/ir/literal.h"
#include "dyad/ops/creation.h"
#include "dyad/passes/extract.h"
#include "dyad/passes/pipeline.h"
#include "dyad/passes/rewriter.h"

namespace dyad::exec {
namespace {

using Tensors = std::vector<Tensor>;
using Names = std::vector<std::string>;

/// Where two tensors differ first, both being of one type; -1 when nowhere. Two NaN are equal.
std::int64_t first_difference(const Tensor& a, const Tensor& b) {
  const std::vector<std::byte> left = packed_elements(a), right = packed_elements(b);
  if (left == right) return -1;
  const std::size_t width = size_of(a.dtype());
  return visit_element(a.dtype(), [&]<class T>(std::type_identity<T>) -> std::int64_t {
    for (std::size_t at = 0; at < left.size(); at += width) {
      if (std::memcmp(&left[at], &right[at], width) == 0) continue;
      if constexpr (requires(T x) { convert_element<double>(x); }) {
        T x, y;
        std::memcpy(&x, &left[at], width);
        std::memcpy(&y, &right[at], width);
        if (std::isnan(convert_element<double>(x)) && std::isnan(convert_element<double>(y))) {
          continue;
        }
      }
      return static_cast<std::int64_t>(at / width);
    }
    return -1;
  });
}

bool differ(const Tensor& a, const Tensor& b) {
  return !type_of(a).same_as(type_of(b)) || first_difference(a, b) >= 0;
}

Names optional_passes() {
  Names names;
  for (const passes::Pass& pass : passes::pipeline()) {
    if (pass.use == passes::PassUse::optional) names.push_back(pass.name);
  }
  return names;
}

/// One recorded call, computed in several ways on the same numbers.
class RecordedCall {
 public:
  RecordedCall(const Path& path, std::span<const Tensor> arguments, RandomKey random)
      : graph_(*path.graph), sizes_(path.hints), random_(random) {
    const std::span<const Value> placeholders = graph_.placeholders();
    for (int i = 0; i < path.arguments; ++i) {
      feed(placeholders[static_cast<std::size_t>(i)], arguments[static_cast<std::size_t>(i)]);
    }
    for (const GradCapture& capture : path.grad_captures) {
      const Tensor grad = autograd::grad_of(*capture.in(arguments).impl());
      const Type& type = capture.placeholder.type();
      feed(capture.placeholder, grad.defined() ? grad : zeros(type.shape(), type.dtype()));
    }
    for (const Value v : path.outputs) want(v);
    for (const Write& write : path.writes) want(write.value);
    for (const GradWrite& write : path.grad_writes) want(write.value);
    if (path.backward) {
      for (const Value seed : path.backward->seeds) {
        feed(seed, ones(seed.type().shape(), seed.type().dtype()));
      }
      path.backward->for_each_grad([&](Value v) { want(v); });
    }
    find_live();
    interpret();
  }

  [[nodiscard]] const std::vector<Value>& wanted() const noexcept { return wanted_; }
  [[nodiscard]] const Tensor& eager(Value v) const { return eager_.at(v); }

  /// The values by compiled code, without some passes.
  [[nodiscard]] Tensors compiled(std::span<const Value> values, const Names& off) const {
    default_generator().set_state(random_);
    const auto is_host_effect = [](const Node& node) { return node.op().effect == Effect::host; };
    const Ref<GraphImpl> part = passes::extract(graph_, values);
    part->erase_if(is_host_effect);
    Executable executable(part, {.passes_off = off});
    Tensors inputs;
    for (const Value v : part->placeholders()) {
      inputs.push_back(fed_.at(v.node->attrs_as<PlaceholderAttrs>().name));
    }
    return executable.run(inputs);
  }

  /// The first of the values that compiled code without these passes computes otherwise, or none.
  [[nodiscard]] std::optional<VerifyDifference> difference(std::span<const Value> values,
                                                           const Names& off) const {
    const Tensors made = compiled(values, off);
    for (std::size_t i = 0; i < made.size(); ++i) {
      const Tensor& expected = eager(values[i]);
      if (differ(made[i], expected)) return describe(values[i], expected, made[i]);
    }
    return {};
  }

  /// Every tensor that is computed on the way to the wanted ones, in program order.
  [[nodiscard]] std::vector<Value> steps() const {
    std::vector<Value> values;
    for (const auto& node : graph_.nodes()) {
      if (!live_.contains(node.get()) || node->op().effect != Effect::pure ||
          node->op().kind == BodyKind::structural) {
        continue;
      }
      for (int i = 0; i < static_cast<int>(node->types().size()); ++i) {
        values.push_back(node->output(i));
      }
    }
    return values;
  }

 private:
  void feed(Value placeholder, const Tensor& tensor) {
    fed_[placeholder.node->attrs_as<PlaceholderAttrs>().name] = tensor;
  }
  void want(Value v) {
    if (v && std::ranges::find(wanted_, v) == wanted_.end()) wanted_.push_back(v);
  }

  static VerifyDifference describe(Value v, const Tensor& eager, const Tensor& compiled) {
    VerifyDifference found{.op = std::string(v.node->op().name),
                           .type = to_string(v.type()),
                           .loc = v.node->loc(),
                           .eager = type_string(eager),
                           .compiled = type_string(compiled),
                           .pass = {}};
    if (!type_of(eager).same_as(type_of(compiled))) return found;
    found.element = first_difference(eager, compiled);
    const auto element = [&](const Tensor& t) {
      const std::vector<std::byte> bytes = packed_elements(t);
      const std::size_t at = static_cast<std::size_t>(found.element) * size_of(t.dtype());
      return element_text(t.dtype(), &bytes[at]);
    };
    found.eager = element(eager);
    found.compiled = element(compiled);
    return found;
  }

  /// A backward part that could not be recorded leaves nodes behind that nobody wants.
  void find_live() {
    for (const Value v : wanted_) live_.insert(v.node);
    for (const auto& node : std::views::reverse(graph_.nodes())) {
      if (node->op().effect == Effect::random) live_.insert(node.get());
      if (!live_.contains(node.get())) continue;
      for (const Value v : node->inputs()) live_.insert(v.node);
    }
  }

  /// Computes the values, one operator after the other.
  void interpret() {
    default_generator().set_state(random_);
    for (const auto& node : graph_.nodes()) {
      if (!live_.contains(node.get())) continue;
      if (&node->op() == &kPlaceholderOp) {
        eager_[node->output()] = fed_.at(node->attrs_as<PlaceholderAttrs>().name);
      } else if (&node->op() == &kVariableOp) {
        eager_[node->output()] = node->attrs_as<VariableAttrs>().tensor;
      } else if (&node->op() == &kConstantOp) {
        eager_[node->output()] = node->attrs_as<ConstantAttrs>().value;
      } else {
        Tensors inputs;
        for (const Value v : node->inputs()) inputs.push_back(v ? eager_.at(v) : Tensor());
        const Tensors made = node->op().kind == BodyKind::control
                                 ? run_alone(*node, inputs)
                                 : evaluate_node_at(*node, inputs, sizes_);
        for (int i = 0; i < static_cast<int>(made.size()); ++i) {
          eager_[node->output(i)] = made[static_cast<std::size_t>(i)];
        }
      }
    }
  }

  /// What a loop or a choice gives, as a graph of its own.
  [[nodiscard]] Tensors run_alone(const Node& node, const Tensors& inputs) const {
    passes::Rewriter rewriter(graph_);
    Tensors given;
    std::unordered_set<Value, ValueHash> known;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const Value v = node.inputs()[i];
      if (!v || !known.insert(v).second) continue;
      rewriter.set(v, rewriter.to()->add_placeholder("x" + std::to_string(i), type_of(inputs[i]),
                                                     node.loc()));
      given.push_back(inputs[i]);
    }
    rewriter.copy(node);
    for (std::size_t i = 0; i < node.types().size(); ++i) {
      rewriter.to()->outputs().push_back(
          rewriter.at({const_cast<Node*>(&node), static_cast<int>(i)}));
    }
    return Executable(rewriter.to()).run_region(given, sizes_, nullptr, node.loc());
  }

  const GraphImpl& graph_;
  const SymbolMap& sizes_;  ///< that data told
  RandomKey random_;        ///< before the call
  std::unordered_map<std::string, Tensor> fed_;
  std::vector<Value> wanted_;
  std::unordered_set<const Node*> live_;  ///< what they need, and all that draws random numbers
  std::unordered_map<Value, Tensor, ValueHash> eager_;
};

/// The pass after which the values differ, when passes are switched on in their order.
std::optional<std::string> find_culprit(const RecordedCall& call) {
  Names off = optional_passes();
  if (call.difference(call.wanted(), off)) return {};
  while (!off.empty()) {
    std::string now_on = off.front();
    off.erase(off.begin());
    if (call.difference(call.wanted(), off)) return now_on;
  }
  return {};
}

/// The first operator whose result differs: when all are asked for at once, or else each alone.
VerifyDifference find_first(const RecordedCall& call, VerifyDifference otherwise) {
  const std::vector<Value> steps = call.steps();
  if (auto found = call.difference(steps, {})) return *std::move(found);
  for (const Value& step : steps) {
    if (auto found = call.difference({&step, 1}, {})) return *std::move(found);
  }
  return otherwise;
}

}  // namespace

VerifyReport verify_call(std::span<const Tensor> arguments, const VerifyBody& body, Loc loc) {
  if (!Evaluator::is_eager()) {
    throw GraphError(
        "verify() calls the function eagerly: not inside a graph's definition, a "
        "compiled function or another transformation",
        loc.user());
  }
  std::vector<Shape> shapes;
  for (const Tensor& argument : arguments) shapes.push_back(argument.shape());
  const RandomKey before = default_generator().state();
  Path path;
  Tensors results;
  {
    Recorder recorder(shapes, arguments, {}, loc);
    const Evaluator::Scope scope(recorder);
    results = body(recorder.arguments());
    path = recorder.finish(results, loc);
  }
  VerifyReport report{.operators = count_operators(*path.graph), .refusal = path.refusal};
  if (!report.refusal.empty()) return report;

  const RandomKey after = default_generator().state();
  const Finally restored([&] { default_generator().set_state(after); });
  const NoGrad no_tape;
  const RecordedCall call(path, arguments, before);
  report.values = static_cast<int>(call.wanted().size());
  if (path.writes.empty() && path.grad_writes.empty()) {  // so everything is as it was
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (!differ(results[i], call.eager(path.outputs[i]))) continue;
      throw InternalError(fmt::format("result {} of a recorded call is not that of the call", i),
                          loc);
    }
  }
  report.difference = call.difference(call.wanted(), {});
  if (report.difference) {
    report.difference = find_first(call, *std::move(report.difference));
    report.difference->pass = find_culprit(call);
  }
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
  return fmt::format(
      "{} at {} differs first: element {} of {} is {} in eager mode, {} compiled; {}\n", d.op,
      to_string(d.loc), d.element, d.type, d.eager, d.compiled,
      d.pass ? "the pass '" + *d.pass + "' makes it differ"
             : "with every pass off that may be, it differs too");
}

}  // namespace dyad
