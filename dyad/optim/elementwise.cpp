#include "dyad/optim/elementwise.h"

#include <algorithm>
#include <cmath>

#include "dyad/exec/update.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/embedding.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/registry.h"

namespace dyad::optim::detail {

void Elementwise::add_rule(std::string_view op, Ref<Attrs> attrs, const std::vector<State>& states,
                           bool maximize, Loc loc) {
  ops::register_builtin_ops();
  const auto [begin, end] = range_of(rules_.size());
  Rule& rule = rules_.emplace_back();
  rule.op = find_op(op);
  rule.attrs = std::move(attrs);
  rule.maximize = maximize;
  for (std::size_t i = begin; i < end; ++i) states_.emplace_back();
  for (const State& state : states) {
    for (std::size_t i = begin; i < end; ++i) {
      states_[i].push_back(add_state(state.name, i, state.first, loc));
    }
  }
}

Tensor Elementwise::kept_share(std::size_t group, bool decoupled) const {
  return decoupled ? 1 - lr_tensor(group) * decay_tensor(group) : ones({}, f64);
}

Tensor Elementwise::decay_of_gradient(std::size_t group, bool decoupled) const {
  return decoupled ? zeros({}, f64) : decay_tensor(group);
}

Tensor Elementwise::correction(double beta) const {
  // As -expm1(step * log(beta)): the plain form loses digits in the first steps.
  return neg(expm1(step_tensor() * std::log(beta)));
}

void Elementwise::begin_step() {
  for (std::size_t g = 0; g < rules_.size(); ++g) {
    Rule& rule = rules_[g];
    rule.wide = numbers(g);
    rule.narrow.clear();
    const auto [begin, end] = range_of(g);
    for (std::size_t i = begin; i < end && rule.narrow.empty(); ++i) {
      if (parameter(i).dtype() == f64) continue;
      for (const Tensor& number : rule.wide) rule.narrow.push_back(number.to(f32));
    }
  }
}

void Elementwise::update(std::size_t index, const Tensor& gradient, Loc loc) {
  const Rule& rule = rules_[group_of(index)];
  const Tensor g = rule.maximize ? neg(gradient) : gradient;
  Tensor& p = parameter(index);
  std::vector<const Tensor*> inputs{&p, &g};
  std::vector<Tensor> targets{p};
  for (const Tensor& state : states_[index]) {
    inputs.push_back(&state);
    targets.push_back(state);
  }
  add_numbers(inputs, index);
  exec::update(*rule.op, inputs, rule.attrs->data(), targets, loc);
}

void Elementwise::add_numbers(std::vector<const Tensor*>& inputs, std::size_t index) const {
  const Rule& rule = rules_[group_of(index)];
  for (const Tensor& number : parameters()[index].dtype() == f64 ? rule.wide : rule.narrow) {
    inputs.push_back(&number);
  }
}

void Elementwise::update_rows(std::size_t index, const SparseRows& gradient, Loc loc) {
  const Rule& rule = rules_[group_of(index)];
  const OpInfo& put = *find_op("put_rows");
  const Tensor sums = row_sums(gradient.rows, gradient.index);
  std::vector<Tensor> whole{parameter(index)}, rows;
  whole.insert(whole.end(), states_[index].begin(), states_[index].end());
  for (const Tensor& x : whole) rows.push_back(index_select(x, 0, gradient.index));
  // Rows of equal index have equal sums, so they become equal: whichever is put last.
  const Tensor g = rule.maximize ? neg(sums) : sums;
  std::vector<const Tensor*> inputs{rows.data(), &g};
  for (std::size_t i = 1; i < rows.size(); ++i) inputs.push_back(&rows[i]);
  add_numbers(inputs, index);
  exec::update(*rule.op, inputs, rule.attrs->data(), rows, loc);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const Tensor* operands[] = {&whole[i], &gradient.index, &rows[i]};
    exec::update(put, operands, nullptr, {&whole[i], 1}, loc);
  }
}

}  // namespace dyad::optim::detail
