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

/// Adds the rows of checkpoints to the registry, once, so that graphs with them can be read.
void register_checkpoint_ops();

}  // namespace exec

/// `fn(inputs...)`, of which only the inputs are kept for the backward pass: what it computed on
/// the way is computed again there. Memory for time, about a third more of it for a whole network
/// (Chen et al. 2016). `fn` takes tensors and gives a tensor, or a vector, pair or tuple of
/// tensors; it may use parameters and other tensors from outside, which get their gradients.
/// Computing again repeats the same random numbers and does not write in place to tensors from
/// outside (running means) a second time; what the host reads or changes must be the same as at
/// first. Checkpoints nest, and are differentiated to any order. Eagerly and in compiled functions
/// `fn` is called again: it holds by value what does not live until the backward pass. In a static
/// graph its nodes are repeated.
template <class F, class... Inputs>
auto checkpoint(F fn, const Inputs&... inputs) {
  using R = std::decay_t<std::invoke_result_t<F&, const Inputs&...>>;
  const auto like = std::make_shared<std::optional<R>>();
  const auto call = [fn, like](std::span<const Tensor> given) mutable {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      R result = fn(given[I]...);
      std::vector<Tensor> tensors = exec::pack::flatten(result);
      if (!*like) {
        exec::pack::for_each_tensor(result, [](Tensor& t) { t = Tensor(); });
        like->emplace(std::move(result));
      }
      return tensors;
    }(std::make_index_sequence<sizeof...(Inputs)>{});
  };
  const std::vector<Tensor> results =
      exec::run_checkpoint(call, std::vector<Tensor>{inputs...}, std::source_location::current());
  return exec::pack::rebuild(**like, results);
}

}  // namespace dyad
