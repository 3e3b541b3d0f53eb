#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "dyad/core/tensor.h"
#include "dyad/exec/flatten.h"

namespace dyad {

/// Where the forward part of a custom function leaves what its backward part reads.
class Saver {
 public:
  /// Keeps a tensor for backward: an argument, a result, or anything computed on the way. Second
  /// derivatives flow through arguments and results; in eager mode a floating tensor computed on
  /// the way has none (GradError when one is asked for): return it as a result, or compute it
  /// again.
  void save(const Tensor& tensor) { tensors_.push_back(tensor); }
  [[nodiscard]] const std::vector<Tensor>& tensors() const noexcept { return tensors_; }

 private:
  std::vector<Tensor> tensors_;
};

/// What the backward part of a custom function sees.
class CustomGradient {
 public:
  /// The gradient of result i; zeros where nothing came back.
  [[nodiscard]] const Tensor& grad(int i = 0) const { return grads_[static_cast<std::size_t>(i)]; }
  /// What the forward part saved, in order; of a forward part without Saver, the arguments.
  [[nodiscard]] const Tensor& saved(int i) const;
  /// True when argument i wants a gradient.
  [[nodiscard]] bool needs(int i) const { return needs_[static_cast<std::size_t>(i)]; }

 private:
  friend struct CustomRule;
  std::vector<Tensor> grads_, saved_;
  std::vector<bool> needs_, constant_;  // constant_: kept without its place on the tape
};

namespace exec {

using CustomForward = std::function<std::vector<Tensor>(Saver&, std::span<const Tensor>)>;
using CustomBackward = std::function<std::vector<Tensor>(const CustomGradient&)>;

/// What custom_gradient() does, for any numbers of arguments and results.
std::vector<Tensor> call_custom(const std::string& name, const CustomForward& forward,
                                const CustomBackward& backward, std::span<const Tensor> arguments,
                                bool save_arguments, Loc loc);

}  // namespace exec

/// A function with a gradient of its own:
///
///     auto clipped = custom_gradient(
///         [](const Tensor& x) { return x * 1; },
///         [](const CustomGradient& g) { return clamp(g.grad(), -1, 1); });
///     Tensor y = clipped(x);
///
/// `forward` takes tensors, after a `Saver&` if it wants to choose what is kept for `backward`
/// (otherwise the arguments are), and gives a tensor or a vector, pair or tuple of tensors. What it
/// computes is not differentiated; tensors that it uses besides its arguments are constants to it.
/// `backward` takes a CustomGradient and gives the gradients of the arguments: a tensor, or a
/// vector or tuple of them, undefined where there is none (ValueError for another number,
/// ShapeError for another shape than the argument's). Written in operators, it is differentiated in
/// its turn. Works eagerly, in compiled functions and in static graphs, which record what both
/// parts do; both are kept until the last backward, so they hold by value what does not live as
/// long.
template <class Forward, class Backward>
auto custom_gradient(Forward forward, Backward backward, std::string name = "custom_gradient",
                     Loc loc = std::source_location::current()) {
  return [forward = std::move(forward), backward = std::move(backward), name = std::move(name),
          loc](const auto&... arguments) {
    constexpr std::size_t count = sizeof...(arguments);
    constexpr bool saves = std::invocable<const Forward&, Saver&, decltype(arguments)...>;
    const std::vector<Tensor> given{arguments...};
    const auto call = [&](Saver& saver, const auto&... each) {
      if constexpr (saves) {
        return forward(saver, each...);
      } else {
        return forward(each...);
      }
    };
    using Result = std::decay_t<decltype(call(std::declval<Saver&>(), arguments...))>;
    std::optional<Result> like;
    const std::vector<Tensor> results = exec::call_custom(
        name,
        [&](Saver& saver, std::span<const Tensor> in) {
          [&]<std::size_t... I>(std::index_sequence<I...>) {
            like.emplace(call(saver, in[I]...));
          }(std::make_index_sequence<count>{});
          return exec::pack::flatten(*like);
        },
        [backward](const CustomGradient& g) { return exec::pack::flatten(backward(g)); }, given,
        !saves, loc);
    return exec::pack::rebuild(*like, results);
  };
}

}  // namespace dyad
