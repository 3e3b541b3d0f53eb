#pragma once

#include "dyad/nn/visitor.h"
#include "dyad/ops/loss.h"

namespace dyad::nn {

// Losses as layers of a prediction and a target: they hold settings only. Formulas and shapes are
// those of the functions of ops/loss.h.

struct CrossEntropyLoss {
  Reduction reduction = Reduction::mean;
  std::int64_t ignore_index = -100;
  Tensor operator()(const Tensor& logits, const Tensor& target,
                    Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
struct NLLLoss {
  Reduction reduction = Reduction::mean;
  std::int64_t ignore_index = -100;
  Tensor operator()(const Tensor& log_probabilities, const Tensor& target,
                    Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
struct MSELoss {
  Reduction reduction = Reduction::mean;
  Tensor operator()(const Tensor& prediction, const Tensor& target,
                    Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};

}  // namespace dyad::nn
