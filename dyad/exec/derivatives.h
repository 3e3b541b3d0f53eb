#pragma once

#include <span>
#include <utility>
#include <vector>

#include "dyad/core/tensor.h"
#include "dyad/exec/control_flow.h"

namespace dyad {
namespace exec {

/// What a function gives, and with it derivatives of these numbers of tensors.
struct Derived {
  std::vector<Tensor> outputs, derivatives;
};
Derived run_vjp(const TensorFunction& fn, std::span<const Tensor> inputs,
                std::span<const Tensor> cotangents, Loc loc);
Derived run_jvp(const TensorFunction& fn, std::span<const Tensor> inputs,
                std::span<const Tensor> tangents, Loc loc);
std::vector<Tensor> run_jacobian(const TensorFunction& fn, std::span<const Tensor> inputs, Loc loc);
Derived run_hvp(const TensorFunction& fn, std::span<const Tensor> inputs,
                std::span<const Tensor> vectors, Loc loc);

/// `fn` as a function of tensors in a row; its result's structure goes to `like`.
template <class R, class F, class In>
TensorFunction flat_function(F& fn, const In& inputs, std::vector<R>& like) {
  return [&fn, &inputs, &like](std::span<const Tensor> given) {
    like.assign(1, call_with(fn, pack::rebuild(inputs, given)));
    return pack::flatten(like.front());
  };
}
template <class F, class In>
using ResultOf = std::decay_t<decltype(call_with(std::declval<F&>(), std::declval<const In&>()))>;

}  // namespace exec

// Derivatives of functions of tensors, by transformation of what the function does: for every
// operator that has a gradient, eagerly, in compiled functions and in static graphs. `inputs` is a
// tensor, or a tuple or pair of tensors (and packs of them), which the function takes as its
// arguments; a vector is one argument. Tensors that the function uses besides them are constants
// here, but the results are differentiable by them, and by the inputs, as those of operators are
// (not under NoGrad). Where a result does not depend on an input the derivative is zeros.

/// fn(inputs) and the products of `cotangents` (of the result's structure and shapes) with the
/// Jacobian: the gradients of the inputs, in their structure; undefined for inputs that are not
/// floating. One forward and one backward pass.
template <class F, class In, class Out>
auto vjp(F fn, const In& inputs, const Out& cotangents, Loc loc = std::source_location::current()) {
  using R = exec::ResultOf<F, In>;
  std::vector<R> like;
  const exec::Derived found =
      exec::run_vjp(exec::flat_function(fn, inputs, like), exec::pack::flatten(inputs),
                    exec::pack::flatten(cotangents), loc);
  return std::pair<R, In>{exec::pack::rebuild(like.front(), found.outputs),
                          exec::pack::rebuild(inputs, found.derivatives)};
}

/// fn(inputs) and the derivative of the result along `tangents` (of the inputs' structure and
/// shapes), in the result's structure; undefined for results that are not floating. Forward mode as
/// the transpose of the transpose: a backward pass, which is linear in what it is given, is
/// differentiated by that (Townsend 2017). Eagerly it costs a forward and two backward passes and
/// the memory of a tape; compiled, what only the first of them needs falls away.
template <class F, class In>
auto jvp(F fn, const In& inputs, const In& tangents, Loc loc = std::source_location::current()) {
  using R = exec::ResultOf<F, In>;
  std::vector<R> like;
  const exec::Derived found =
      exec::run_jvp(exec::flat_function(fn, inputs, like), exec::pack::flatten(inputs),
                    exec::pack::flatten(tangents), loc);
  return std::pair<R, R>{exec::pack::rebuild(like.front(), found.outputs),
                         exec::pack::rebuild(like.front(), found.derivatives)};
}

/// The derivatives of the elements of fn(inputs), one tensor, by those of each input, in the
/// inputs' structure: of shape result.shape + input.shape. A backward pass for each element of the
/// result, whose sizes must be known (GraphError).
template <class F, class In>
In jacobian(F fn, const In& inputs, Loc loc = std::source_location::current()) {
  std::vector<exec::ResultOf<F, In>> like;
  return exec::pack::rebuild(inputs, exec::run_jacobian(exec::flat_function(fn, inputs, like),
                                                        exec::pack::flatten(inputs), loc));
}

/// The second derivatives of fn(x), a scalar (ShapeError), by the elements of x: of shape
/// x.shape + x.shape. As many backward passes as x has elements, and one.
template <class F>
Tensor hessian(F fn, const Tensor& x, Loc loc = std::source_location::current()) {
  return jacobian(
      [&](const Tensor& at) {
        std::vector<Tensor> like;
        return exec::run_vjp(exec::flat_function(fn, at, like), {&at, 1}, {}, loc).derivatives[0];
      },
      x, loc);
}

/// fn(inputs), a scalar (ShapeError), and the product of its Hessian with `vectors` (of the inputs'
/// structure and shapes), in the inputs' structure: two backward passes, whatever the sizes.
template <class F, class In>
auto hvp(F fn, const In& inputs, const In& vectors, Loc loc = std::source_location::current()) {
  std::vector<Tensor> like;
  const exec::Derived found =
      exec::run_hvp(exec::flat_function(fn, inputs, like), exec::pack::flatten(inputs),
                    exec::pack::flatten(vectors), loc);
  return std::pair<Tensor, In>{found.outputs[0], exec::pack::rebuild(inputs, found.derivatives)};
}

}  // namespace dyad
