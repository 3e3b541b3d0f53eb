#pragma once

#include <optional>
#include <span>

#include "dyad/ir/graph_evaluator.h"

namespace dyad::exec {

/// The static graph that a call goes into: the one being defined, or the one whose values it is
/// given; none when it runs on data.
class GraphOfCall {
 public:
  explicit GraphOfCall(std::span<const Tensor> inputs)
      : evaluator_(dynamic_cast<GraphEvaluator*>(&Evaluator::current())) {
    for (const Tensor& input : inputs) {
      if (evaluator_) break;
      if (const GraphValue* handle = input.defined() ? graph_value(input) : nullptr) {
        own_.emplace(handle->graph);
        evaluator_ = &*own_;
      }
    }
  }
  GraphOfCall(const GraphOfCall&) = delete;
  GraphOfCall& operator=(const GraphOfCall&) = delete;
  [[nodiscard]] GraphEvaluator* evaluator() const noexcept { return evaluator_; }

 private:
  GraphEvaluator* evaluator_;
  std::optional<GraphEvaluator> own_;
};

}  // namespace dyad::exec
