#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "dyad/core/tensor.h"
#include "dyad/exec/flatten.h"
#include "dyad/exec/graph.h"
#include "dyad/nn/module.h"

namespace dyad::onnx {

/// An input of an exported model; sizes given by name stay open.
struct Input {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
};

/// How a model is written.
struct SaveOptions {
  int opset = 21;  ///< 17 to 23
  std::vector<std::string> outputs =
      {};                      ///< names of the results: output0, output1... unless given
  std::string name = "model";  ///< of the graph
  bool external_data = false;  ///< weights in a second file, PATH.data, beside the model
  std::size_t external_threshold = 1024;  ///< in bytes: smaller weights stay in the model
  TensorDict weights = {};  ///< names for tensors that a function captures: nn::state_dict(model)
};

/// Writes a static graph: its placeholders are the inputs, what `define` returned are the results,
/// variables are the weights. Only what the results need is written. OnnxError lists every operator
/// that ONNX cannot express, with its line; IoError when a file cannot be written (old ones then
/// stay as they are).
void save(const std::string& path, const Graph& graph, const SaveOptions& options = {},
          Loc loc = std::source_location::current());
/// The bytes of the model that `save` writes, with its weights inside.
[[nodiscard]] std::string to_bytes(const Graph& graph, const SaveOptions& options = {},
                                   Loc loc = std::source_location::current());

namespace detail {

using Function = std::function<std::vector<Tensor>(std::span<const Tensor>)>;

void save_function(const std::string& path, const Function& function, std::span<const Input> inputs,
                   const SaveOptions& options, Loc loc);

[[noreturn]] void fail_arity(std::size_t inputs, Loc loc);

/// `model(tensors...)`, or `model.forward(tensors...)` for a model that is not called itself.
template <class Model, std::size_t... I>
concept TakesTensors = requires(Model& model, std::array<Tensor, sizeof...(I)> t) {
  model(std::get<I>(t)...);
} || requires(Model& model, std::array<Tensor, sizeof...(I)> t) {
  model.forward(std::get<I>(t)...);
};

template <class Model, std::size_t... I>
std::vector<Tensor> call(Model& model, std::span<const Tensor> t, std::index_sequence<I...>) {
  if constexpr (requires { model(t[I]...); }) {
    return exec::pack::flatten(model(t[I]...));
  } else {
    return exec::pack::flatten(model.forward(t[I]...));
  }
}

/// Calls a model with as many tensors as there are inputs, at most twelve.
template <class Model, std::size_t... I>
std::vector<Tensor> call_with(Model& model, std::span<const Tensor> inputs, Loc loc,
                              std::index_sequence<I...> indices) {
  if constexpr (TakesTensors<Model, I...>) {
    if (inputs.size() == sizeof...(I)) return call(model, inputs, indices);
  }
  if constexpr (sizeof...(I) < 12) {
    return call_with(model, inputs, loc, std::make_index_sequence<sizeof...(I) + 1>{});
  } else {
    fail_arity(inputs.size(), loc);
  }
}

}  // namespace detail

/// Runs `model` (a model, or a function of tensors) once on symbolic inputs and writes what it did:
/// `onnx::save("model.onnx", model, {{"image", f32, {"batch", 1, 28, 28}}});`. A `bool` that the
/// host reads on the way becomes an If. The weights of an nn model have the names of its members.
/// The model must be in eval mode: what draws random numbers or writes to its tensors is an
/// OnnxError.
template <class Model>
  requires(!std::is_convertible_v<Model&, const Graph&>)
void save(const std::string& path, Model&& model, std::initializer_list<Input> inputs,
          SaveOptions options = {}, Loc loc = std::source_location::current()) {
  using Plain = std::remove_cvref_t<Model>;
  if constexpr (nn::Module<Plain>) {
    options.weights.add_all("", nn::state_dict(model));
  }
  const auto function = [&](std::span<const Tensor> tensors) {
    return detail::call_with(model, tensors, loc, std::index_sequence<>{});
  };
  detail::save_function(path, function, {inputs.begin(), inputs.size()}, options, loc);
}

}  // namespace dyad::onnx
