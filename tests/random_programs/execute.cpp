#include "execute.h"

#include <algorithm>
#include <array>
#include <functional>
#include <typeinfo>

#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/gradients.h"
#include "dyad/base/error.h"
#include "dyad/core/create.h"
#include "dyad/core/generator.h"
#include "dyad/exec/graph.h"
#include "dyad/exec/session.h"
#include "dyad/ops/ops.h"
#include "instructions.h"

namespace dyad::testing {
namespace {

using Tensors = std::vector<Tensor>;

/// The parts of complex numbers, what else there is as it is.
Tensor parts_of(const Tensor& x) { return is_complex(x.dtype()) ? view_as_real(x) : x; }

/// One number that all floating results have a part in; undefined when there are none.
Tensor weighted(const Tensors& results) {
  Tensor total;
  for (const Tensor& result : results) {
    const Tensor y = parts_of(result);
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
  if (program.gradients != Gradients::inside && program.gradients != Gradients::step)
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
    const Input& input = program.inputs[i];
    if (!(input.captured || input.kept) || !input.requires_grad) continue;
    if (weight.grad().defined()) weight.sub_(weight.grad() * 0.125);
  }
  return results;
}

Tensor kept(const Tensor& x) {
  const NoGrad apart;
  return clone(detach(x));
}

/// The tensors that calls are given: what lives on is made once.
class Inputs {
 public:
  explicit Inputs(const Program& program) : program_(program) {
    for (auto& lasting : lasting_) lasting.resize(program.inputs.size());
  }

  /// Those of call `k`.
  const Tensors& of_call(std::size_t k) {
    given_.clear();
    made_.clear();
    for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
      const Input& input = program_.inputs[i];
      const std::size_t turn = input.kept ? k % 2 : 0;
      Pair fresh;
      Pair& pair = input.captured || input.kept ? lasting_[turn][i] : fresh;
      if (!pair.given.defined()) {
        const std::size_t of = input.captured || input.kept ? turn : k;
        const int index = static_cast<int>(i);
        pair.made =
            make_input(program_, index, program_.calls[std::min(of, program_.calls.size() - 1)]);
        pair.given = given_input(program_, index, pair.made, given_);
      }
      made_.push_back(pair.made);
      given_.push_back(pair.given);
    }
    return given_;
  }

  /// The tensors that they were made from: leaves.
  [[nodiscard]] const Tensors& made() const noexcept { return made_; }

 private:
  struct Pair {
    Tensor made, given;
  };

  const Program& program_;
  std::array<std::vector<Pair>, 2> lasting_;
  Tensors made_, given_;
};

/// Differentiates `loss` from outside, as the program says.
void differentiate(const Program& program, const Tensor& loss, const Tensors& inputs) {
  if (!loss.defined() || !loss.tracks_grad()) return;
  if (program.gradients == Gradients::outside) {
    loss.backward();
    return;
  }
  Tensors wanted;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (program.inputs[i].requires_grad && inputs[i].tracks_grad()) wanted.push_back(inputs[i]);
  }
  if (wanted.empty()) return;
  Tensors grads = grad({&loss, 1}, wanted, {.create_graph = true, .allow_unused = true});
  std::erase_if(grads, [](const Tensor& one) { return !one.defined(); });
  const Tensor again = weighted(grads);
  if (again.defined() && again.tracks_grad()) again.backward();
}

/// What the caller does after call `k`.
void act_after(const Program& program, std::size_t k, const Tensors& results,
               const Tensors& leaves) {
  const NoGrad apart;
  if (program.after == After::write_results) {
    for (std::size_t i = 0; i < results.size(); ++i)
      Tensor(results[i]).fill_(static_cast<double>(i + 2));
  } else if (program.after == After::update) {
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      const Input& input = program.inputs[i];
      if (!input.requires_grad || !(input.captured || input.kept)) continue;
      const Tensor grad = leaves[i].grad();
      if (grad.defined()) Tensor(leaves[i]).sub_(grad * 0.125);
      if (k % 2 == 1) leaves[i].zero_grad();
    }
  }
}

/// Runs the calls one after the other: `call` is given all inputs.
Traces run_calls(const Program& program, const std::function<Tensors(const Tensors&)>& call) {
  manual_seed(program.seed);
  const bool from_outside =
      program.gradients == Gradients::outside || program.gradients == Gradients::twice;
  Inputs of_calls(program);
  Traces traces;
  for (std::size_t k = 0; k < program.calls.size(); ++k) {
    const Tensors inputs = of_calls.of_call(k);
    Trace& trace = traces.emplace_back();
    const auto note = [&](const std::string& name, const Tensor& value, bool tracks) {
      trace.seen.push_back({name, value.defined() ? parts_of(kept(value)) : Tensor(), tracks});
    };
    try {
      const Tensors results = call(inputs);
      for (std::size_t i = 0; i < results.size(); ++i)
        note("result " + std::to_string(i), results[i], results[i].tracks_grad());
      if (from_outside) differentiate(program, weighted(results), inputs);
      if (program.after != After::nothing) {
        act_after(program, k, results, of_calls.made());
        for (std::size_t i = 0; i < results.size(); ++i)
          note("result " + std::to_string(i) + " later", results[i], false);
      }
    } catch (const Error& error) {
      trace.error = std::string(typeid(error).name()) + ": " + error.message();
      return traces;
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const std::string name = "v" + std::to_string(i);
      note(name + " after the call", inputs[i], inputs[i].tracks_grad());
      if (program.inputs[i].requires_grad)
        note("gradient of " + name, of_calls.made()[i].grad(), false);
    }
    const RandomKey random = default_generator().state();
    note("offset of the random numbers", tensor(random.offset), false);
    if (is_stateful(program.seed)) note("seed of the random numbers", tensor(random.seed), false);
  }
  return traces;
}

}  // namespace

Traces run_eagerly(const Program& program) {
  return run_calls(program, [&](const Tensors& inputs) { return function(program, inputs); });
}

Traces run_compiled(const Program& program, const CompileOptions& options) {
  // Of half of the programs arguments that nobody looks at afterwards are given away.
  const bool gives_away = program.seed % 2 == 0 && program.after == After::nothing &&
                          !any_statement(program.body, [](const Statement& statement) {
                            return statement.op->form == Form::write;
                          });
  const auto is_given_away = [&](std::size_t i) {
    const Input& input = program.inputs[i];
    return gives_away && input.order == Order::row_major && !input.requires_grad && !input.kept &&
           !input.computed && input.view_of < 0 &&
           std::ranges::find(program.inputs, static_cast<int>(i), &Input::view_of) ==
               program.inputs.end();
  };
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
      if (program.inputs[i].captured) continue;
      arguments.push_back(is_given_away(i) ? inputs[i].clone() : inputs[i]);
    }
    return fast(std::move(arguments));
  });
}

std::optional<std::vector<std::pair<std::size_t, Trace>>> run_statically(const Program& program,
                                                                         bool symbolic,
                                                                         std::string& why) {
  if (is_stateful(program.seed)) {
    why = "a graph has no state of the tape";
    return {};
  }
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
        trace.seen.push_back({"result " + std::to_string(i), parts_of(results[i]), false});
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
    const Tensor before = parts_of(make_input(program, static_cast<int>(i), program.calls[0]));
    for (const Trace& trace : eager) {
      for (const Seen& seen : trace.seen) {
        if (seen.name != "v" + std::to_string(i) + " after the call") continue;
        if (!element_difference(seen.value, before).empty()) return true;
      }
    }
  }
  return false;
}

}  // namespace dyad::testing
