#pragma once

#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "dyad/core/tensor.h"
#include "dyad/exec/control_flow.h"

namespace dyad {
namespace exec {

std::vector<Tensor> run_checkpoint(const TensorFunction& fn, std::span<const Tensor> inputs,
                                   Loc loc);

/// `x` as a value of its own, from which things are computed anew: compilers do not share them with
/// what is computed from x, and derivatives by it are those by x of what is computed from it.
[[nodiscard]] Tensor restart(const Tensor& x, Loc loc = {});

/// checkpoint() of `fn`, which takes as many tensors as there are `inputs` and gives an R.
template <class R, class F, std::size_t... I>
R checkpointed(F fn, const std::vector<Tensor>& inputs, std::index_sequence<I...>, Loc loc) {
  const auto like = std::make_shared<std::optional<R>>();
  const auto call = [fn, like](std::span<const Tensor> given) mutable {
    R result = fn(given[I]...);
    std::vector<Tensor> tensors = pack::flatten(result);
    if (!*like) {
      pack::for_each_tensor(result, [](Tensor& t) { t = Tensor(); });
      like->emplace(std::move(result));
    }
    return tensors;
  };
  const std::vector<Tensor> results = run_checkpoint(call, inputs, loc);
  return pack::rebuild(**like, results);
}

/// Adds the rows of checkpoints to the registry, once, so that graphs with them can be read.
void register_checkpoint_ops();

}  // namespace exec

/// `fn(first, more...)`, of which only the inputs are kept for the backward pass: what it computed
/// on the way is computed again there. Memory for time, about a third more of it for a whole
/// network (Chen et al. 2016). `fn` takes tensors and gives a tensor, or a vector, pair or tuple of
/// tensors; it may use parameters and other tensors from outside, which get their gradients.
/// Computing again repeats the same random numbers and does not write in place to tensors from
/// outside (running means) a second time; what the host reads or changes must be the same as at
/// first. Checkpoints nest, and are differentiated to any order. Eagerly and in compiled functions
/// `fn` is called again: it holds by value what does not live until the backward pass. In a static
/// graph its nodes are repeated.
template <class F, class... More>
auto checkpoint(F fn, const Arg& first, const More&... more) {
  using R = std::decay_t<std::invoke_result_t<F&, const Tensor&, const More&...>>;
  return exec::checkpointed<R>(std::move(fn), {first.tensor(), more...},
                               std::make_index_sequence<sizeof...(More) + 1>{}, first.loc());
}

/// The same of a function without inputs.
template <class F>
auto checkpoint(F fn, Loc loc = std::source_location::current()) {
  using R = std::decay_t<std::invoke_result_t<F&>>;
  return exec::checkpointed<R>(std::move(fn), {}, std::index_sequence<>{}, loc);
}

}  // namespace dyad
