#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "dyad/onnx/export.h"
#include "dyad/optim/optimizer.h"

namespace dyad::onnx {

/// How a training step is written.
struct TrainingOptions {
  /// Tensors that the step reads and writes beside its arguments, by the names that they shall
  /// have: training_state(model, optimizer).
  TensorDict state = {};
  /// The state as it is now goes into the file, as defaults of the inputs: the first step needs not
  /// be fed. For runtimes that take such inputs for constants: false.
  bool initial_values = true;
  SaveOptions save = {};  ///< outputs: names of the step's results, `loss` for a single one
};

/// The state of a model, and that of its optimizer under `optimizer.`.
template <nn::Module Model>
[[nodiscard]] TensorDict training_state(const Model& model, const optim::Optimizer& optimizer) {
  TensorDict state;
  state.add_all("", nn::state_dict(model));
  state.add_all("optimizer.", optimizer.state_dict());
  return state;
}

namespace detail {

void save_training_function(const std::string& path, const Function& step,
                            std::span<const Input> inputs, const TrainingOptions& options, Loc loc);

}  // namespace detail

/// Writes one step of training, a function as compile() takes it (or a compiled one), as a model
/// that any runtime can train: `onnx::save_training("step.onnx", step, {{"image", f32, {"batch", 1,
/// 28, 28}}, {"label", i64, {"batch"}}}, {.state = onnx::training_state(model, optimizer)});`.
///
/// Its inputs are those of the step, then every tensor of `options.state` that the step uses; its
/// results those of the step, then `next.NAME` for each tensor that the step writes: the input NAME
/// of the next step. What the step writes and `state` does not name gets a name of its own. Random
/// numbers (dropout) are functions of the inputs `random.seed` and `random.offset`, which becomes
/// `next.random.offset`: the same numbers as Dyad's.
///
/// The step is run once, on zeros, and what it wrote is put back: tensors, gradients, the
/// generator. OnnxError when it reads numbers on the host, depends on what sizes are, or does what
/// ONNX cannot express.
template <class Step>
  requires(!std::is_convertible_v<Step&, const Graph&>)
void save_training(const std::string& path, Step&& step, std::initializer_list<Input> inputs,
                   const TrainingOptions& options = {}, Loc loc = std::source_location::current()) {
  const auto function = [&](std::span<const Tensor> tensors) {
    return detail::call_with(step, tensors, loc, std::index_sequence<>{});
  };
  detail::save_training_function(path, function, {inputs.begin(), inputs.size()}, options, loc);
}

/// The same of a static graph whose outputs train (optimizer.minimize(loss), assign): its variables
/// that are written, and those that `options.state` names, are the state.
void save_training(const std::string& path, const Graph& graph, const TrainingOptions& options = {},
                   Loc loc = std::source_location::current());

}  // namespace dyad::onnx
