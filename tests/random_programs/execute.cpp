#include "execute.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <span>
#include <typeinfo>

#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/gradients.h"
#include "dyad/base/error.h"
#include "dyad/core/create.h"
#include "dyad/core/element.h"
#include "dyad/core/generator.h"
#include "dyad/exec/graph.h"
#include "dyad/exec/session.h"
#include "dyad/ir/literal.h"
#include "dyad/ops/ops.h"
#include "instructions.h"

namespace dyad::testing {
namespace {

using Tensors = std::vector<Tensor>;

/// One number that all floating results have a part in; undefined when there are none.
Tensor weighted(const Tensors& results) {
  Tensor total;
  for (const Tensor& y : results) {
    if (!is_floating(y.dtype())) continue;
    const Tensor term = to(sum(y * y * 0.5 + y), f32);
    total = total.defined() ? total + term : term;
  }
  return total;
}

/// The function: `inputs` are all its tensors, those from outside included.
Tensors function(const Program& program, const Tensors& inputs) {
  Tensors values(static_cast<std::size_t>(program.values));
  std::copy(inputs.begin(), inputs.end(), values.begin());
  Tensors results = run_body(program.body, {}, values);
  // Only a shrunk program asks for what was never made.
  for (const Tensor& result : results) {
    if (!result.defined()) throw ValueError("a compiled function returned an undefined tensor");
  }
  if (program.gradients == Gradients::none || program.gradients == Gradients::outside)
    return results;
  const Tensor loss = weighted(results);
  if (!loss.defined()) return results;
  const bool tracks = loss.is_symbolic() || loss.tracks_grad();
  Tensors wanted;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (program.inputs[i].requires_grad) wanted.push_back(inputs[i]);
  }
  if (program.gradients == Gradients::inside) {
    Tensors grads(wanted.size());
    if (tracks) grads = grad({&loss, 1}, wanted, {.allow_unused = true});
    for (std::size_t i = 0; i < grads.size(); ++i)
      results.push_back(grads[i].defined() ? grads[i] : zeros_like(wanted[i]));
    return results;
  }
  if (!tracks) return results;
  loss.backward();
  const NoGrad apart;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Tensor weight = inputs[i];
    if (!program.inputs[i].captured || !program.inputs[i].requires_grad) continue;
    if (weight.grad().defined()) weight.sub_(weight.grad() * 0.125);
  }
  return results;
}

Tensor kept(const Tensor& x) {
  const NoGrad apart;
  return clone(detach(x));
}

/// Runs the calls one after the other: `call` is given all inputs.
Traces run_calls(const Program& program, const std::function<Tensors(const Tensors&)>& call) {
  manual_seed(program.seed);
  // After a pass inside the function nothing is left of the tape that results may still name.
  const bool differentiable =
      program.gradients == Gradients::none || program.gradients == Gradients::outside;
  Tensors captured;
  Traces traces;
  for (const Call& one : program.calls) {
    Tensors inputs;
    for (std::size_t i = 0; i < program.inputs.size(); ++i) {
      const bool outside = program.inputs[i].captured;
      if (outside && !captured.empty()) {
        inputs.push_back(captured[i]);
      } else {
        inputs.push_back(
            make_input(program, static_cast<int>(i), outside ? program.calls[0] : one));
      }
    }
    captured = inputs;
    Trace& trace = traces.emplace_back();
    const auto note = [&](const std::string& name, const Tensor& value, bool tracks) {
      trace.seen.push_back({name, value.defined() ? kept(value) : Tensor(), tracks});
    };
    try {
      const Tensors results = call(inputs);
      for (std::size_t i = 0; i < results.size(); ++i)
        note("result " + std::to_string(i), results[i], differentiable && results[i].tracks_grad());
      if (program.gradients == Gradients::outside) {
        const Tensor loss = weighted(results);
        if (loss.defined() && loss.tracks_grad()) loss.backward();
      }
    } catch (const Error& error) {
      trace.error = std::string(typeid(error).name()) + ": " + error.message();
      return traces;
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const std::string name = "v" + std::to_string(i);
      note(name + " after the call", inputs[i], inputs[i].tracks_grad());
      if (program.inputs[i].requires_grad) note("gradient of " + name, inputs[i].grad(), false);
    }
    note("offset of the random numbers", tensor(default_generator().state().offset), false);
  }
  return traces;
}

std::string element_difference(const Tensor& got, const Tensor& want) {
  const Tensor a = contiguous(got), b = contiguous(want);
  const auto count = static_cast<std::size_t>(a.numel().number());
  const std::size_t bytes = count * size_of(a.dtype());
  const auto* x = static_cast<const std::byte*>(a.raw_data());
  const auto* y = static_cast<const std::byte*>(b.raw_data());
  if (bytes == 0 || std::memcmp(x, y, bytes) == 0) return {};
  const std::vector<double> p = a.to_vector<double>(), q = b.to_vector<double>();
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t size = size_of(a.dtype());
    if (std::memcmp(x + i * size, y + i * size, size) == 0) continue;
    if (std::isnan(p[i]) && std::isnan(q[i])) continue;
    return "element " + std::to_string(i) + " is " + number_text(p[i]) + ", not " +
           number_text(q[i]);
  }
  return {};
}

std::string seen_difference(const Seen& got, const Seen& want) {
  if (got.value.defined() != want.value.defined()) {
    return want.value.defined() ? "is undefined, not " + type_string(want.value)
                                : "is " + type_string(got.value) + ", not undefined";
  }
  if (!got.value.defined()) return {};
  if (type_string(got.value) != type_string(want.value))
    return "is " + type_string(got.value) + ", not " + type_string(want.value);
  if (got.tracks_grad != want.tracks_grad)
    return got.tracks_grad ? "tracks gradients" : "does not track gradients";
  return element_difference(got.value, want.value);
}

/// Mixes words into one.
class Mixer {
 public:
  void add(std::uint64_t word) noexcept {
    hash_ = (hash_ ^ word) * 0x9E3779B97F4A7C15u;
    hash_ ^= hash_ >> 29;
  }
  void add(const std::string& text) noexcept {
    for (const char c : text) add(static_cast<std::uint64_t>(static_cast<unsigned char>(c)));
    add(text.size());
  }
  void add_elements(const Tensor& x) {
    const Tensor row = contiguous(x);
    const std::size_t size = size_of(x.dtype());
    const auto* at = static_cast<const std::byte*>(row.raw_data());
    const std::vector<double> values =
        is_floating(x.dtype()) ? row.to_vector<double>() : std::vector<double>();
    for (std::int64_t i = 0; i < row.numel().number(); ++i, at += size) {
      std::uint64_t word = 0;
      std::memcpy(&word, at, size);
      const auto place = static_cast<std::size_t>(i);
      add(!values.empty() && std::isnan(values[place]) ? 0x7ff8 : word);
    }
  }
  [[nodiscard]] std::uint64_t hash() const noexcept { return hash_; }

 private:
  std::uint64_t hash_ = 0xCBF29CE484222325u;
};

bool calls_library(const Body& body) {
  for (const Statement& statement : body.statements) {
    if (statement.op->library) return true;
    for (const Body& inner : statement.bodies) {
      if (calls_library(inner)) return true;
    }
  }
  return false;
}

}  // namespace

Traces run_eagerly(const Program& program) {
  return run_calls(program, [&](const Tensors& inputs) { return function(program, inputs); });
}

Traces run_compiled(const Program& program, const CompileOptions& options) {
  Tensors captured;
  const auto fast = compile(
      [&](const Tensors& arguments) {
        Tensors inputs;
        std::size_t next = 0;
        for (std::size_t i = 0; i < program.inputs.size(); ++i)
          inputs.push_back(program.inputs[i].captured ? captured[i] : arguments[next++]);
        return function(program, inputs);
      },
      options);
  return run_calls(program, [&](const Tensors& inputs) {
    captured = inputs;
    Tensors arguments;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!program.inputs[i].captured) arguments.push_back(inputs[i]);
    }
    Tensors results = fast(arguments);
    return results;
  });
}

std::optional<std::vector<std::pair<std::size_t, Trace>>> run_statically(const Program& program,
                                                                         bool symbolic,
                                                                         std::string& why) {
  if (program.gradients == Gradients::step) {
    why = "backward() writes to leaves";
    return {};
  }
  const Call& first = program.calls[0];
  Graph graph;
  Tensors inputs, fetches;
  try {
    for (std::size_t i = 0; i < program.inputs.size(); ++i) {
      const Input& input = program.inputs[i];
      if (input.captured) {
        inputs.push_back(make_input(program, static_cast<int>(i), first));
        continue;
      }
      Shape shape;
      for (const int size : input.shape) {
        const auto axis = static_cast<std::size_t>(size < 0 ? ~size : 0);
        shape.push_back(size >= 0  ? Dim(size)
                        : symbolic ? Dim::symbol("d" + std::to_string(axis))
                                   : Dim(first.sizes[axis]));
      }
      inputs.push_back(graph.placeholder("v" + std::to_string(i), input.dtype, shape));
    }
    fetches = graph.define([&] { return function(program, inputs); });
  } catch (const Error& error) {
    why = std::string(typeid(error).name()) + ": " + error.message();
    return {};
  }
  for (const Tensor& fetch : fetches) {
    if (!fetch.is_symbolic()) {
      why = "a result is no value of the graph";
      return {};
    }
  }
  Session session(graph);
  manual_seed(program.seed);
  std::vector<std::pair<std::size_t, Trace>> traces;
  for (std::size_t k = 0; k < program.calls.size(); ++k) {
    if (!symbolic && program.calls[k].sizes != first.sizes) break;
    std::vector<Feed> feeds;
    for (std::size_t i = 0; i < program.inputs.size(); ++i) {
      if (program.inputs[i].captured) continue;
      feeds.emplace_back("v" + std::to_string(i),
                         make_input(program, static_cast<int>(i), program.calls[k]));
    }
    Trace& trace = traces.emplace_back(k, Trace()).second;
    try {
      const Tensors results = session.run(fetches, feeds);
      for (std::size_t i = 0; i < results.size(); ++i)
        trace.seen.push_back({"result " + std::to_string(i), results[i], false});
    } catch (const Error& error) {
      trace.error = std::string(typeid(error).name()) + ": " + error.message();
      break;
    }
  }
  return traces;
}

bool writes_captured(const Program& program, const Traces& eager) {
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    if (!program.inputs[i].captured) continue;
    const Tensor before = make_input(program, static_cast<int>(i), program.calls[0]);
    for (const Trace& trace : eager) {
      for (const Seen& seen : trace.seen) {
        if (seen.name != "v" + std::to_string(i) + " after the call") continue;
        if (!element_difference(seen.value, before).empty()) return true;
      }
    }
  }
  return false;
}

std::string difference(const Trace& got, const Trace& want) {
  if (got.error != want.error) {
    return "error: " + (got.error.empty() ? "none" : got.error) + ", not " +
           (want.error.empty() ? "none" : want.error);
  }
  for (const Seen& seen : got.seen) {
    const auto of = std::ranges::find(want.seen, seen.name, &Seen::name);
    if (of == want.seen.end()) return "values: " + seen.name + " is one too many";
    const std::string text = seen_difference(seen, *of);
    if (!text.empty()) return "values: " + seen.name + " " + text;
  }
  return {};
}

std::uint64_t digest(const Program& program, const Traces& traces) {
  const bool exact = !calls_library(program.body);
  Mixer mixer;
  for (const Trace& trace : traces) {
    mixer.add(trace.error.substr(0, trace.error.find(':')));
    for (const Seen& seen : trace.seen) {
      mixer.add(seen.name);
      if (!seen.value.defined()) continue;
      mixer.add(type_string(seen.value));
      if (exact) mixer.add_elements(seen.value);
    }
  }
  return mixer.hash();
}

}  // namespace dyad::testing
