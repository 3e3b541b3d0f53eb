#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dyad/nn/module.h"
#include "dyad/onnx/load.h"

namespace dyad::onnx {

/// An imported model as a layer: `nn::freeze(body)`, optimizers, state_dict, `onnx::save` and so on
/// take it, alone or as a member of a model. Its floating weights are parameters with their names
/// in the file; the mean and variance of a BatchNormalization and single numbers are buffers.
/// Called in eager mode it runs node by node; compile() what calls it for speed.
///
/// It does the same in training as in evaluation: what the file says. A BatchNormalization of an
/// exported model normalises by its stored statistics and does not change them, Dropout lets
/// everything pass.
class Network {
 public:
  /// Shares the weights of the model. GraphError for a model that value_inputs() decide about.
  explicit Network(const Model& model, Loc loc = std::source_location::current());

  /// The result of a model with one, for its inputs in their order.
  template <class... Inputs>
    requires(std::convertible_to<const Inputs&, Tensor> && ...)
  Tensor operator()(const Inputs&... inputs) const {
    return single({Tensor(inputs)...});
  }
  /// All results.
  [[nodiscard]] std::vector<Tensor> run(std::span<const Tensor> inputs,
                                        Loc loc = std::source_location::current()) const;

  void visit(nn::Visitor& visitor);

 private:
  [[nodiscard]] Tensor single(const std::vector<Tensor>& inputs) const;

  /// A variable of the graph: one of the two is defined.
  struct Weight {
    std::string name;
    nn::Parameter parameter;
    nn::Buffer buffer;
  };
  Graph graph_;
  std::vector<Weight> weights_;
};

}  // namespace dyad::onnx
