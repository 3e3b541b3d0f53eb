#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "dyad/core/tensor.h"
#include "dyad/exec/control_flow.h"

namespace dyad {

/// Where the batch lies in what a vectorised function takes and gives.
struct VmapOptions {
  /// For each argument (a tensor, or a pack of them) the axis that counts samples, negative from
  /// the end; none for an argument that all samples share. Empty: the first axis of each.
  std::vector<std::optional<std::int64_t>> in_axes = {};
  std::int64_t out_axis = 0;  ///< of every result
};

namespace exec {

/// `in_axes` has an entry for each input.
std::vector<Tensor> run_vmap(const TensorFunction& fn, std::span<const Tensor> inputs,
                             std::span<const std::optional<std::int64_t>> in_axes,
                             std::int64_t out_axis, Loc loc);
/// Throws unless `axes` is empty or has an entry for each argument.
void check_in_axes(std::size_t axes, std::size_t arguments, Loc loc);

}  // namespace exec

/// `fn`, written for one sample, as a function of a batch of them: `vmap(fn)(xs)[i]` is
/// `fn(xs[i])`. What fn does with one sample is recorded as a graph, and each of its operators is
/// carried out for the whole batch: pointwise operators, reductions, views, products, convolutions
/// and whatever is made of them at once; another operator, by its row (`batching` in ir/op_info.h),
/// once for each sample. fn takes tensors (or packs of them) and gives a tensor or a vector, pair
/// or tuple of tensors; it may use tensors from outside, which all samples share, and take
/// gradients: with `grad(loss, {weight})` inside, per-sample gradients. The result is
/// differentiable as any computation. vmaps nest.
///
/// Random numbers: each sample draws its own; one random operator gives what a loop over the
/// samples would. Where samples go different ways, cond() runs both functions for all of them and
/// while_loop() goes on until the last one is done, which leaves the others as they are: what a
/// sample does not take must not fail for it. GraphError for what one recording cannot stand for: a
/// host read (item(), `if` on a tensor), the gradient of a while_loop() taken inside, a write in
/// place to a tensor from outside; ShapeError when batches differ in size. Eagerly it records anew
/// at each call: inside compile(), once.
template <class F>
auto vmap(F fn, VmapOptions options = {}, Loc loc = std::source_location::current()) {
  return [fn = std::move(fn), options = std::move(options), loc](const auto&... arguments) {
    using R = std::decay_t<std::invoke_result_t<const F&, decltype(arguments)...>>;
    exec::check_in_axes(options.in_axes.size(), sizeof...(arguments), loc);
    std::vector<Tensor> inputs;
    std::vector<std::optional<std::int64_t>> in_axes;
    std::size_t position = 0;
    const auto add = [&](const auto& argument) {
      const std::size_t at = position++;
      for (Tensor& tensor : exec::pack::flatten(argument)) {
        inputs.push_back(std::move(tensor));
        in_axes.push_back(options.in_axes.empty() ? 0 : options.in_axes[at]);
      }
    };
    (add(arguments), ...);
    std::optional<R> like;
    const std::vector<Tensor> results = exec::run_vmap(
        [&](std::span<const Tensor> given) {
          std::size_t next = 0;
          const auto sample = [&](const auto& argument) {
            auto made = exec::pack::rebuild(argument, given, next);
            next += exec::pack::flatten(argument).size();
            return made;
          };
          // Braces evaluate in order.
          const std::tuple<std::decay_t<decltype(arguments)>...> samples{sample(arguments)...};
          like.emplace(std::apply(fn, samples));
          return exec::pack::flatten(*like);
        },
        inputs, in_axes, options.out_axis, loc);
    return exec::pack::rebuild(*like, results);
  };
}

}  // namespace dyad
