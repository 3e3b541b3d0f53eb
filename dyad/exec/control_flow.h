#pragma once

#include <functional>
#include <optional>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "dyad/core/tensor.h"
#include "dyad/exec/flatten.h"

namespace dyad {

namespace exec {

/// A function of tensors, whatever its parameters and result are made of.
using TensorFunction = std::function<std::vector<Tensor>(std::span<const Tensor>)>;

std::vector<Tensor> run_cond(const Tensor& pred, const TensorFunction& then,
                             const TensorFunction& otherwise, std::span<const Tensor> given,
                             Loc loc);
/// `kept`: so many tensors `body` gives beside the next state; they come stacked behind the last
/// one, a row for each step.
std::vector<Tensor> run_while(const TensorFunction& condition, const TensorFunction& body,
                              std::span<const Tensor> given, Loc loc, std::size_t kept = 0);
/// `body` takes the carries and one slice of each of the tensors to slice, and gives the new
/// carries and then the slices of the results.
std::vector<Tensor> run_scan(const TensorFunction& body, std::span<const Tensor> init,
                             std::span<const Tensor> slices, Loc loc);

/// A tensor is one argument, a tuple as many as it has elements.
template <class F, class T>
decltype(auto) call_with(F& fn, const T& arguments) {
  if constexpr (pack::TupleLike<T>) {
    return std::apply(fn, arguments);
  } else {
    return fn(arguments);
  }
}

}  // namespace exec

/// `then(operands...)` where the bool scalar `pred` is true, `otherwise(operands...)` where it is
/// false. Both give the same pack: a tensor, or a vector, pair or tuple of tensors, of the same
/// types (ShapeError, DTypeError naming both). Eager: one of them runs. In a graph: both become
/// graphs inside a `cond` node, tensors that they use from outside its operands, and a run executes
/// one of them; they may not write in place to tensors from outside (GraphError).
template <class Then, class Else, class... Operands>
auto cond(const Arg& pred, Then&& then, Else&& otherwise, const Operands&... operands) {
  using Result = std::remove_cvref_t<std::invoke_result_t<Then&, const Operands&...>>;
  const std::tuple<Operands...> given(operands...);
  std::optional<Result> like;
  const auto as_function = [&](auto& fn) -> exec::TensorFunction {
    return [&](std::span<const Tensor> values) {
      like.emplace(std::apply(fn, exec::pack::rebuild(given, values)));
      return exec::pack::flatten(*like);
    };
  };
  const std::vector<Tensor> results =
      exec::run_cond(pred.tensor(), as_function(then), as_function(otherwise),
                     exec::pack::flatten(given), pred.loc());
  return exec::pack::rebuild(*like, results);
}

/// Repeats `state = body(state)` while `condition(state)`, a bool scalar, is true; gives the last
/// state. The state is a tensor, or a vector, pair or tuple of tensors (a tuple's elements are
/// separate parameters), whose types stay the same. In a graph a `while_loop` node, as for `cond`.
template <class Condition, class Body, class State>
State while_loop(Condition&& condition, Body&& body, const State& state,
                 Loc loc = std::source_location::current()) {
  const exec::TensorFunction run_condition = [&](std::span<const Tensor> values) {
    return std::vector<Tensor>{
        Tensor(exec::call_with(condition, exec::pack::rebuild(state, values)))};
  };
  const exec::TensorFunction run_body = [&](std::span<const Tensor> values) {
    const State next = exec::call_with(body, exec::pack::rebuild(state, values));
    return exec::pack::flatten(next);
  };
  const std::vector<Tensor> results =
      exec::run_while(run_condition, run_body, exec::pack::flatten(state), loc);
  return exec::pack::rebuild(state, results);
}

/// `{carry, y_t} = body(carry, x_t)` for the slices x_t of `xs` along its first axis, from
/// `carry = init`; gives the last carry and the y_t stacked along a new first axis. Carry, xs and y
/// are packs as for while_loop, passed whole. In a graph a `scan` node.
template <class Body, class Carry, class Xs>
auto scan(Body&& body, const Carry& init, const Xs& xs, Loc loc = std::source_location::current()) {
  using Result = std::remove_cvref_t<std::invoke_result_t<Body&, const Carry&, const Xs&>>;
  static_assert(
      requires(const Result& step) { step.first, step.second; },
      "the body of a scan returns std::pair(carry, y): y is stacked, e.g. the carry again");
  using Y = std::remove_cvref_t<decltype(std::declval<Result>().second)>;
  const std::vector<Tensor> carries = exec::pack::flatten(init);
  std::optional<Y> like;
  const exec::TensorFunction step = [&](std::span<const Tensor> values) {
    Result result =
        body(exec::pack::rebuild(init, values), exec::pack::rebuild(xs, values, carries.size()));
    like.emplace(result.second);
    std::vector<Tensor> flat = exec::pack::flatten(result.first);
    for (Tensor& y : exec::pack::flatten(result.second)) flat.push_back(std::move(y));
    return flat;
  };
  const std::vector<Tensor> results = exec::run_scan(step, carries, exec::pack::flatten(xs), loc);
  return std::pair<Carry, Y>(exec::pack::rebuild(init, results),
                             exec::pack::rebuild(*like, results, carries.size()));
}

}  // namespace dyad
