#include <utility>

#include "dyad/core/create.h"
#include "dyad/exec/control_flow.h"
#include "dyad/ops/ops.h"
#include "instructions.h"

// Control flow of graphs, and of the host.

namespace dyad::testing {
namespace {

using F = const Frame&;
using Tensors = std::vector<Tensor>;

/// One or two values (inputs `from` on), which a branch or a loop gives anew.
std::vector<std::size_t> state_draft(Draft& d, std::size_t from) {
  std::vector<std::size_t> state;
  for (auto left = d.numbers.between(1, 2); left > 0; --left) {
    if (!d.input(with_rank(0, 3))) return {};
    state.push_back(from + state.size());
  }
  d.statement().out.resize(state.size());
  return state;
}

bool branches_draft(Draft& d, std::size_t from) {
  const std::vector<std::size_t> state = state_draft(d, from);
  if (state.empty()) return false;
  d.body({}, state);
  d.body({}, state);
  return true;
}

Tensors examples(const Draft& d, const std::vector<std::size_t>& inputs) {
  Tensors found;
  for (const std::size_t i : inputs) found.push_back(d.example(i));
  return found;
}

Tensors state_of(F f, std::size_t from) {
  Tensors state = f.all();
  state.erase(state.begin(), state.begin() + static_cast<std::ptrdiff_t>(from));
  return state;
}

/// Apart from what went in: whether a result is the very tensor that went in is not said by graphs.
Tensors apart(const Tensors& results) {
  Tensors copies;
  for (const Tensor& result : results) copies.push_back(clone(result));
  return copies;
}

/// A loop of number 0 steps; `body(n, state)` is step n.
template <class Body>
Tensors counted_while(F f, const Body& body) {
  Tensors state = state_of(f, 0);
  state.insert(state.begin(), tensor(std::int64_t{0}));
  state = while_loop([&](const Tensors& s) { return s[0] < f.whole(0); },
                     [&](const Tensors& s) {
                       Tensors next = body(s[0], Tensors(s.begin() + 1, s.end()));
                       next.insert(next.begin(), s[0] + 1);
                       return next;
                     },
                     state);
  state.erase(state.begin());
  return apart(state);
}

Tensors run_while(F f) {
  return counted_while(f, [&](const Tensor&, const Tensors& state) { return f.run(0, state); });
}

/// Steps go through a cond: one in number 1 of them this way, all others that way.
Tensors run_while_cond(F f) {
  return counted_while(f, [&](const Tensor& n, const Tensors& state) {
    return cond(
        remainder(n, tensor(f.whole(1))) < 1, [&] { return f.run(0, state); },
        [&] { return f.run(1, state); });
  });
}

Tensors run_scan(F f) {
  auto [carry, ys] = scan(
      [&](const Tensors& state, const Tensor& x) {
        Tensors next = state;
        next.push_back(x);
        next = f.run(0, next);
        Tensor y = next.back();
        next.pop_back();
        return std::pair(next, y);
      },
      state_of(f, 1), f[0]);
  carry.push_back(ys);
  return apart(carry);
}

}  // namespace

void add_control(Instructions& list) {
  const auto is_truth = with_rank(0, 0, is_bool);
  list.push_back(
      {"cond", "", 6,
       [](F f) {
         return apart(cond(f[0], [&] { return f.run(0, {}); }, [&] { return f.run(1, {}); }));
       },
       [=](Draft& d) { return d.input(is_truth) && branches_draft(d, 1); }, 0, Form::cond});
  list.push_back({"while_loop", "", 4, run_while,
                  [](Draft& d) {
                    d.whole(0, 6);
                    const std::vector<std::size_t> state = state_draft(d, 0);
                    if (state.empty()) return false;
                    d.body(examples(d, state), state);
                    return true;
                  },
                  0, Form::while_loop});
  list.push_back({"scan", "", 4, run_scan,
                  [](Draft& d) {
                    if (!d.input(with_rank(1, 3))) return false;
                    const auto sizes = d.example(0).shape().numbers();
                    if (sizes[0] < 1) return false;
                    const std::vector<std::size_t> state = state_draft(d, 1);
                    if (state.empty()) return false;
                    Tensors parameters = examples(d, state);
                    parameters.push_back(d.example(0).select(0, 0));
                    std::vector<std::size_t> like = state;
                    like.push_back(like.front());
                    d.body(parameters, like);
                    d.statement().out.resize(state.size() + 1);
                    return true;
                  },
                  0, Form::scan});
  list.push_back({"host_if", "", 5, [](F f) { return f.run(static_cast<bool>(f[0]) ? 0 : 1, {}); },
                  [=](Draft& d) { return d.input(is_truth) && branches_draft(d, 1); }, 0,
                  Form::host_if});
  list.push_back({"host_for", "", 3,
                  [](F f) {
                    Tensors state = state_of(f, 1);
                    for (auto left = f[0].item<std::int64_t>() % 3; left > 0; --left)
                      state = f.run(0, state);
                    return state;
                  },
                  [](Draft& d) {
                    if (!d.input(with_rank(0, 0, is_whole))) return false;
                    const std::vector<std::size_t> state = state_draft(d, 1);
                    if (state.empty()) return false;
                    d.body(examples(d, state), state);
                    return true;
                  },
                  0, Form::host_for});
  list.push_back(
      {"item", "$0 * $1.item<float>()", 2, [](F f) { return Tensors{f[0] * f[1].item<float>()}; },
       [](Draft& d) { return d.input(is_number) && d.input(with_rank(0, 0, is_number)); }});
  list.push_back({"size_choice", "($0.size(#0) > #1 ? $0 : -$0)", 2,
                  [](F f) { return Tensors{f[0].size(f.whole(0)) > f.whole(1) ? f[0] : -f[0]}; },
                  [](Draft& d) {
                    if (!d.input(with_rank(1, 3, is_number)) || !d.axis()) return false;
                    d.whole(0, 4);
                    return true;
                  }});
}

void add_nested_control(Instructions& list) {
  list.push_back({.name = "while_cond",
                  .text = "",
                  .weight = 3,
                  .run = run_while_cond,
                  .draft =
                      [](Draft& d) {
                        d.whole(0, 9);
                        d.whole(2, 3);
                        const std::vector<std::size_t> state = state_draft(d, 0);
                        if (state.empty()) return false;
                        d.body(examples(d, state), state);
                        d.body(examples(d, state), state);
                        return true;
                      },
                  .outputs = 0,
                  .form = Form::while_cond});
}

}  // namespace dyad::testing
