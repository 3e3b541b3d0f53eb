#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/gradients.h"
#include "dyad/autograd/row_grad.h"
#include "dyad/core/generator.h"
#include "dyad/exec/checkpoint.h"
#include "dyad/exec/update.h"
#include "dyad/ops/attrs/optimizer_steps.h"
#include "dyad/ops/ops.h"
#include "dyad/ops/registry.h"
#include "instructions.h"

// What touches more than values: leaves made inside and their gradients, backward() in the middle,
// seeds, writes to parameters. Programs from kFirstStateful on have it.

namespace dyad::testing {
namespace {

using F = const Frame&;

bool tracks(const Tensor& x) { return is_float(x) && x.tracks_grad(); }
bool is_tracked_leaf(const Tensor& x) { return tracks(x) && x.is_leaf(); }

Tensor leaf(Tensor x) { return x.requires_grad(); }

void backward_of(const Tensor& x, bool retain) {
  const Tensor loss = sum(x * x * 0.5);
  if (loss.tracks_grad()) loss.backward({}, retain);
}

Tensor gradient_of(const Tensor& leaf) {
  const Tensor grad = leaf.grad();
  return grad.defined() ? grad : zeros_like(leaf);
}

Tensor derivative(const Tensor& x, const Tensor& by, bool create_graph) {
  const Tensor loss = sum(x * x * 0.5 + x);
  Tensor made;
  if (loss.tracks_grad())
    made = grad(loss, {by},
                {.create_graph = create_graph, .retain_graph = true, .allow_unused = true})[0];
  return made.defined() ? made : zeros_like(by);
}

Tensor rows_of(const Tensor& leaf) {
  const SparseRows rows = sparse_grad(leaf);
  return rows.defined() ? sum(rows.rows) + to(sum(rows.index), f32) : zeros({});
}

const OpInfo& row(std::string_view name) {
  ops::register_builtin_ops();
  return *find_op(name);
}

/// What an optimizer does to a parameter and what it keeps for it.
void adam_step(const Tensor& w, const Tensor& g, const Tensor& mean, const Tensor& square) {
  const Tensor size = full({}, 0.125, w.dtype()), one = ones({}, w.dtype());
  const std::vector<Tensor> targets{w, mean, square};
  const Tensor* inputs[] = {&w, &g, &mean, &square, &size, &one, &size, &one};
  const ops::AdamAttrs attrs;
  no_grad([&] { exec::update(row("adam_step"), inputs, &attrs, targets, {}); });
}

void momentum_step(const Tensor& w, const Tensor& g, const Tensor& velocity) {
  const Tensor size = full({}, 0.125, w.dtype());
  const std::vector<Tensor> targets{w, velocity};
  const Tensor* inputs[] = {&w, &g, &velocity, &size, &size, &size};
  const ops::MomentumAttrs attrs;
  no_grad([&] { exec::update(row("sgd_momentum_step"), inputs, &attrs, targets, {}); });
}

void add_values(Instructions& list) {
  const auto one = [&](std::string name, std::string text, int weight, auto call,
                       std::function<bool(Draft&)> draft) {
    list.push_back({.name = std::move(name),
                    .text = std::move(text),
                    .weight = weight,
                    .run = [call](F f) { return std::vector<Tensor>{call(f)}; },
                    .draft = std::move(draft),
                    .stateful = true});
  };
  const auto of = [](const Draft::Fits& fits) {
    return [fits](Draft& d) { return d.input(fits); };
  };
  const auto pair = [](Draft& d) {
    return d.input(any_value) && d.input(broadcasts_with(d.example(0)));
  };
  one(
      "leaf", "leaf($0.detach().clone())", 5, [](F f) { return leaf(f[0].detach().clone()); },
      of(is_float));
  one(
      "leaf_in_place", "leaf($0.detach())", 3, [](F f) { return leaf(f[0].detach()); },
      of(is_float));
  one(
      "gradient_of", "gradient_of($0)", 8, [](F f) { return gradient_of(f[0]); },
      of(is_tracked_leaf));
  one(
      "derivative", "derivative($0, $1, #0)", 10,
      [](F f) { return derivative(f[0], f[1], f.whole(0) != 0); },
      [](Draft& d) {
        d.number(d.numbers.chance(70) ? 1 : 0);
        return d.input(tracks) && d.input(tracks);
      });
  one(
      "no_grad", "no_grad([&] { return $0 * $1; })", 2,
      [](F f) { return no_grad([&] { return f[0] * f[1]; }); }, pair);
  one(
      "checkpoint", "checkpoint([=](const Tensor& t) { return tanh(t * $1); }, $0)", 2,
      [](F f) { return checkpoint([by = f[1]](const Tensor& t) { return tanh(t * by); }, f[0]); },
      pair);
  one(
      "sparse_embedding", "sparse_embedding(remainder(to($1, i64), size_tensor($0.size(0))), $0)",
      5,
      [](F f) {
        return sparse_embedding(remainder(to(f[1], i64), size_tensor(f[0].size(0))), f[0]);
      },
      [](Draft& d) {
        return d.input(with_rank(2, 2, is_float)) && d.input(with_rank(0, 2, is_number));
      });
  one(
      "rows_of", "rows_of($0)", 2, [](F f) { return rows_of(f[0]); },
      of(with_rank(2, 2, is_tracked_leaf)));
  one(
      "layout_choice", "($0.is_contiguous() ? $0 : -$0)", 1,
      [](F f) { return f[0].is_contiguous() ? f[0] : -f[0]; }, of(is_number));
}

void add_actions(Instructions& list) {
  const auto one = [&](std::string name, std::string text, int weight, auto call,
                       std::function<bool(Draft&)> draft) {
    list.push_back({.name = std::move(name),
                    .text = std::move(text),
                    .weight = weight,
                    .run =
                        [call](F f) {
                          call(f);
                          return std::vector<Tensor>{};
                        },
                    .draft = std::move(draft),
                    .outputs = 0,
                    .form = Form::write,
                    .stateful = true});
  };
  one(
      "backward_of", "backward_of($0, #0)", 12, [](F f) { backward_of(f[0], f.whole(0) != 0); },
      [](Draft& d) {
        d.number(d.numbers.chance(85) ? 1 : 0);
        return d.input(tracks);
      });
  one(
      "zero_grad", "$0.zero_grad()", 5, [](F f) { f[0].zero_grad(); },
      [](Draft& d) { return d.input(is_tracked_leaf); });
  one(
      "set_grad", "$0.set_grad($1.detach().clone())", 2,
      [](F f) { f[0].set_grad(f[1].detach().clone()); },
      [](Draft& d) { return d.input(is_tracked_leaf) && d.input(same_type(d.example(0))); });
  one(
      "update", "no_grad([&] { $0.sub_($1 * 0.125); })", 5,
      [](F f) { no_grad([&] { f[0].sub_(f[1] * 0.125); }); },
      [](Draft& d) { return d.input(is_tracked_leaf) && d.input(same_type(d.example(0))); });
  const auto kept_for = [](const Tensor& w) {
    return [fits = same_type(w)](const Tensor& x) { return fits(x) && !x.tracks_grad(); };
  };
  one(
      "adam_step", "adam_step($0, $1, $2, $3)", 6, [](F f) { adam_step(f[0], f[1], f[2], f[3]); },
      [=](Draft& d) {
        return d.input(is_tracked_leaf) && d.input(same_type(d.example(0))) &&
               d.input(kept_for(d.example(0))) && d.input(kept_for(d.example(0)));
      });
  one(
      "momentum_step", "momentum_step($0, $1, $2)", 6, [](F f) { momentum_step(f[0], f[1], f[2]); },
      [=](Draft& d) {
        return d.input(is_tracked_leaf) && d.input(same_type(d.example(0))) &&
               d.input(kept_for(d.example(0)));
      });
  one(
      "hook", "$0.register_hook([](const Tensor& g) { return g * 2; })", 2,
      [](F f) { f[0].register_hook([](const Tensor& g) { return g * 2; }); },
      [](Draft& d) { return d.input([](const Tensor& x) { return tracks(x) && !x.is_leaf(); }); });
  one(
      "seed", "manual_seed(#0)", 3,
      [](F f) { manual_seed(static_cast<std::uint64_t>(f.whole(0))); },
      [](Draft& d) {
        d.whole(0, 5);
        return true;
      });
  one(
      "set_state", "default_generator().set_state({#0, #1})", 2,
      [](F f) { default_generator().set_state({f.whole(0), f.whole(1)}); },
      [](Draft& d) {
        d.whole(0, 5);
        d.whole(0, 1000);
        return true;
      });
}

}  // namespace

void add_stateful(Instructions& list) {
  add_values(list);
  add_actions(list);
}

}  // namespace dyad::testing
