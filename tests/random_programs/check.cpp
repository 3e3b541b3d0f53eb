#include "check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <functional>
#include <limits>
#include <string_view>

#include "dyad/autograd/grad_mode.h"
#include "dyad/ops/ops.h"
#include "dyad/passes/pipeline.h"
#include "dyad/runtime/threads.h"
#include "instructions.h"

namespace dyad::testing {
namespace {

/// A value that only `want` has. A gradient that fails may do so within the call, which then gives
/// nothing.
std::string missing_value(const Trace& got, const Trace& want) {
  if (!want.error.empty()) return {};
  for (const Seen& seen : want.seen) {
    if (std::ranges::find(got.seen, seen.name, &Seen::name) == got.seen.end())
      return "values: " + seen.name + " is missing";
  }
  return {};
}

Finding compare(const std::string& mode, const Traces& got, const Traces& want) {
  for (std::size_t k = 0; k < std::max(got.size(), want.size()); ++k) {
    if (k < got.size() && is_missing_second_derivative(got[k])) return {};
    std::string text;
    if (k >= got.size() || k >= want.size()) {
      text = "error: another number of calls";
    } else {
      text = difference(got[k], want[k]);
      if (text.empty()) text = missing_value(got[k], want[k]);
    }
    if (!text.empty()) {
      return {mode, text.substr(0, text.find(':')), "call " + std::to_string(k) + ", " + text};
    }
  }
  return {};
}

bool is_graph_control(const Statement& one) {
  return one.op->form == Form::cond || one.op->form == Form::while_loop ||
         one.op->form == Form::while_cond || one.op->form == Form::scan ||
         one.op->form == Form::host_if;
}

bool all_finite(const Trace& trace) {
  return std::ranges::all_of(trace.seen, [](const Seen& seen) {
    return !seen.value.defined() || !is_floating(seen.value.dtype()) ||
           all(isfinite(seen.value)).item<bool>();
  });
}

/// Of gradients that were taken inside, through loops: what a graph and the tape have in common. In
/// a graph a step is differentiated by all states, with zeros for those that no gradient has come
/// to, where the tape leaves out what leads to these alone: a 0 may have another sign, and beside
/// infinities there may be NaN.
void keep_common_gradients(const Program& program, Trace& got, Trace& want) {
  if (program.gradients != Gradients::inside || !any_statement(program.body, is_graph_control))
    return;
  // Infinities may be in what no result shows.
  const bool is_finite = all_finite(want) && all_finite(got);
  for (Trace* trace : {&got, &want}) {
    if (!is_finite) trace->seen.resize(std::min(trace->seen.size(), program.body.results.size()));
    for (std::size_t i = program.body.results.size(); i < trace->seen.size(); ++i) {
      Tensor& gradient = trace->seen[i].value;
      if (gradient.defined() && is_floating(gradient.dtype())) gradient = gradient + 0;
    }
  }
}

/// Whether an operator refused elements that it was given.
bool refuses_elements(const std::string& error) {
  for (const char* said :
       {"singular", "holds", "not positive definite", "element [", "out of range for axis"}) {
    if (error.find(said) != std::string::npos) return true;
  }
  return false;
}

Finding check_static(const Program& program, const Configuration& configuration,
                     const Traces& eager, Report& report) {
  const auto traces = run_statically(program, configuration.symbolic, report.not_static);
  if (!traces) return {};
  report.ran_statically = true;
  for (const auto& [k, trace] : *traces) {
    if (k >= eager.size()) break;
    Trace want = eager[k];
    for (Seen& seen : want.seen) seen.tracks_grad = false;
    if (trace.error.find("GraphError") != std::string::npos && want.error.empty()) {
      report.ran_statically = false;
      report.not_static = trace.error;
      break;
    }
    // Where sizes are symbols another operator may be the first that refuses them.
    if (is_wide(program.seed) && !trace.error.empty() && !want.error.empty()) break;
    // A session does not run what nobody fetches, and so does not see what that would refuse.
    if (trace.error.empty() && refuses_elements(want.error)) break;
    Trace got = trace;
    keep_common_gradients(program, got, want);
    const std::string text = difference(got, want);
    if (!text.empty())
      return {"static", text.substr(0, text.find(':')), "call " + std::to_string(k) + ", " + text};
  }
  return {};
}

/// Threads of the process while it lives.
class Threads {
 public:
  explicit Threads(int count) : before_(get_num_threads()) { set_num_threads(count); }
  ~Threads() { set_num_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

/// Where values part by more than sums in another order do, or numbers that are no floating ones.
std::string rough_difference(const Trace& got, const Trace& want) {
  if (got.error.empty() != want.error.empty())
    return "error: " + (got.error.empty() ? "none, not " + want.error : got.error + ", not none");
  for (const Seen& seen : got.seen) {
    const auto of = std::ranges::find(want.seen, seen.name, &Seen::name);
    if (of == want.seen.end()) return "values: " + seen.name + " is one too many";
    const Tensor &a = seen.value, &b = of->value;
    if (a.defined() != b.defined() || (a.defined() && type_string(a) != type_string(b)))
      return "values: " + seen.name + " has another type";
    if (!a.defined() || b.numel().number() == 0) continue;
    if (!is_floating(b.dtype())) {
      if (const std::string text = element_difference(a, b); !text.empty())
        return "values: " + seen.name + " " + text;
      continue;
    }
    const std::vector<double> p = contiguous(a).to_vector<double>(),
                              q = contiguous(b).to_vector<double>();
    double largest = 1;
    for (const double x : q) largest = std::max(largest, std::isfinite(x) ? std::abs(x) : 1);
    const double allowed = largest * (size_of(b.dtype()) < 4 ? 0.05 : 1e-3);
    for (std::size_t i = 0; i < q.size(); ++i) {
      if (p[i] == q[i] || std::abs(p[i] - q[i]) <= allowed ||
          (std::isnan(p[i]) && std::isnan(q[i])))
        continue;
      return fmt::format("values: {} element {} is {}, not {}", seen.name, i, p[i], q[i]);
    }
  }
  return missing_value(got, want);
}

constexpr std::string_view kPicking[] = {"argmax", "argmin",   "sort",         "argsort",
                                         "topk",   "kthvalue", "cross_entropy"};

/// With every axis padded that varies. Random numbers are others then.
Finding check_padded(const Program& program, const Traces& eager) {
  const auto draws = [](const Trace& trace) {
    const auto at = std::ranges::find(trace.seen, "offset of the random numbers", &Seen::name);
    return at != trace.seen.end() && at->value.item<double>() > 0;
  };
  if (is_stateful(program.seed) || std::ranges::any_of(eager, draws)) return {};
  // What picks by comparing may pick another element after sums in another order.
  const bool picks = any_statement(program.body, [](const Statement& one) {
    return one.op->picks || std::ranges::find(kPicking, one.op->name) != std::end(kPicking);
  });
  // Nor is it known what becomes of infinities, and of numbers whose sums are infinite.
  const bool ordinary = std::ranges::all_of(
      program.inputs, [](const Input& input) { return input.content != Content::special; });
  if (picks || !ordinary || !std::ranges::all_of(eager, all_finite)) return {};
  CompileOptions options{.recheck = false, .background = Background::never, .hot_calls = 0};
  int argument = 0;
  for (const Input& input : program.inputs) {
    if (input.captured) continue;
    for (std::size_t axis = 0; axis < input.shape.size(); ++axis) {
      if (input.shape[axis] < 0)
        options.buckets.push_back({{argument, static_cast<int>(axis)}, {4, 7, 11}});
    }
    ++argument;
  }
  if (options.buckets.empty()) return {};
  const Traces got = run_compiled(program, options);
  if (std::ranges::any_of(got, draws)) return {};
  for (std::size_t k = 0; k < std::min(got.size(), eager.size()); ++k) {
    if (is_missing_second_derivative(got[k])) return {};
    const std::string text = rough_difference(got[k], eager[k]);
    if (!text.empty())
      return {"padded", text.substr(0, text.find(':')), "call " + std::to_string(k) + ", " + text};
  }
  return {};
}

Finding compare_all(const Program& given, Report& report) {
  Program program = given;
  Traces eager = run_eagerly(program);
  report.digest = digest(program, eager);
  report.failed = !eager.back().error.empty();
  if (eager.back().error.find("InternalError") != std::string::npos)
    return {"eager", "error", eager.back().error};
  if (program.gradients != Gradients::none) {
    const RematerializeFrom all(0);
    if (Finding found = compare("rematerialized", run_eagerly(program), eager)) return found;
  }
  if (Finding found = compare("compiled", run_compiled(program, {}), eager)) return found;
  const Configuration drawn = draw_configuration(program.seed);
  {
    const Threads threads(drawn.threads);
    const RematerializeFrom least(drawn.keeps_all ? std::numeric_limits<std::size_t>::max() : 0);
    // What a library computes may depend on the number of threads, in all modes alike.
    const bool library =
        any_statement(program.body, [](const Statement& one) { return one.op->library; });
    if (Finding found = compare("configured", run_compiled(program, drawn.options),
                                library ? run_eagerly(program) : eager))
      return found;
  }
  if (Finding found = check_padded(program, eager)) return found;
  // The tape's own rules do not hold in a graph: its placeholders are no leaves.
  if (eager.back().error.find("GradError") != std::string::npos) {
    report.not_static = "it breaks a rule of the tape";
    return {};
  }
  const bool writes =
      any_statement(program.body, [](const Statement& one) { return one.op->form == Form::write; });
  const auto has = [&](std::string_view name) {
    return any_statement(program.body, [&](const Statement& one) { return one.op->name == name; });
  };
  const bool strided = std::ranges::any_of(
      program.inputs, [](const Input& in) { return in.order != Order::row_major; });
  // To a graph its placeholders are row-major, and contiguous() gives a copy of what may not be.
  if (writes ? has("contiguous") || strided : has("contiguous") && strided) {
    report.not_static = "strides decide what shares memory, and what adds up gradients";
    return {};
  }
  if (writes && has("detach")) {
    report.not_static = "a graph differentiates what is written, where the tape does not see it";
    return {};
  }
  if (report.failed) {
    // A graph does not run what its fetches do not need, nor fail there: nor what a write replaces.
    if (writes) {
      report.not_static = "a write may replace what fails";
      return {};
    }
    drop_dead_statements(program);
    eager = run_eagerly(program);
  }
  // A run of a graph does what its fetches need: writes to tensors from outside would be left out.
  if (writes_captured(program, eager)) {
    report.not_static = "it writes to tensors from outside";
    return {};
  }
  return check_static(program, drawn, eager, report);
}

}  // namespace

Configuration draw_configuration(std::uint64_t seed) {
  Numbers numbers(seed ^ 0xC0FFEE);
  Configuration drawn;
  drawn.threads = numbers.chance(50) ? 2 : 1;
  drawn.symbolic = numbers.chance(75);
  drawn.options.dynamic_sizes = numbers.chance(50);
  drawn.options.recheck = numbers.chance(30);
  for (const passes::Pass& pass : passes::pipeline()) {
    if (pass.use == passes::PassUse::optional && numbers.chance(25))
      drawn.options.passes_off.push_back(pass.name);
  }
  if (numbers.chance(60)) drawn.options.hot_calls = 1;
  drawn.keeps_all = numbers.chance(50);
  return drawn;
}

std::string to_string(const CompileOptions& options) {
  const CompileOptions usual;
  std::string text;
  const auto add = [&](const std::string& one) { text += (text.empty() ? "" : ", ") + one; };
  if (options.dynamic_sizes != usual.dynamic_sizes) add(".dynamic_sizes = false");
  if (options.recheck != usual.recheck) add(".recheck = false");
  if (options.hot_calls != usual.hot_calls)
    add(".hot_calls = " + std::to_string(options.hot_calls));
  std::string off;
  for (const std::string& pass : options.passes_off)
    off += (off.empty() ? "\"" : ", \"") + pass + "\"";
  if (!off.empty()) add(".passes_off = {" + off + "}");
  return "{" + text + "}";
}

Report check(const Program& program) {
  Report report;
  try {
    report.finding = compare_all(program, report);
  } catch (const std::exception& error) {
    report.finding = {"thrown", "error", error.what()};
  }
  return report;
}

}  // namespace dyad::testing
