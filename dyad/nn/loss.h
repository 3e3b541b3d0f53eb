#pragma once

#include "dyad/nn/visitor.h"
#include "dyad/ops/ctc.h"
#include "dyad/ops/loss.h"

namespace dyad::nn {

// Losses as layers of a prediction and a target: they hold settings only. Formulas and shapes are
// those of the functions of ops/loss.h. A weight, when there is one, is kept with the model.

struct CrossEntropyLoss {
  Reduction reduction = Reduction::mean;
  std::int64_t ignore_index = -100;
  double label_smoothing = 0;
  Buffer weight = {};  ///< [classes], or undefined
  Tensor operator()(const Tensor& logits, const Tensor& target,
                    Loc loc = std::source_location::current()) const;
  void visit(Visitor& v) { v("weight", weight); }
};
struct NLLLoss {
  Reduction reduction = Reduction::mean;
  std::int64_t ignore_index = -100;
  Buffer weight = {};  ///< [classes], or undefined
  Tensor operator()(const Tensor& log_probabilities, const Tensor& target,
                    Loc loc = std::source_location::current()) const;
  void visit(Visitor& v) { v("weight", weight); }
};
struct MSELoss {
  Reduction reduction = Reduction::mean;
  Tensor operator()(const Tensor& prediction, const Tensor& target,
                    Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
struct L1Loss {
  Reduction reduction = Reduction::mean;
  Tensor operator()(const Tensor& prediction, const Tensor& target,
                    Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
struct SmoothL1Loss {
  double beta = 1;
  Reduction reduction = Reduction::mean;
  Tensor operator()(const Tensor& prediction, const Tensor& target,
                    Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
struct HuberLoss {
  double delta = 1;
  Reduction reduction = Reduction::mean;
  Tensor operator()(const Tensor& prediction, const Tensor& target,
                    Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
struct BCELoss {
  Reduction reduction = Reduction::mean;
  Buffer weight = {};  ///< broadcasts to the prediction, or undefined
  Tensor operator()(const Tensor& prediction, const Tensor& target,
                    Loc loc = std::source_location::current()) const;
  void visit(Visitor& v) { v("weight", weight); }
};
struct BCEWithLogitsLoss {
  Reduction reduction = Reduction::mean;
  Buffer weight = {};      ///< broadcasts to the logits, or undefined
  Buffer pos_weight = {};  ///< scales the losses of the target 1, or undefined
  Tensor operator()(const Tensor& logits, const Tensor& target,
                    Loc loc = std::source_location::current()) const;
  void visit(Visitor& v) {
    v("weight", weight);
    v("pos_weight", pos_weight);
  }
};
struct KLDivLoss {
  bool log_target = false;
  Reduction reduction = Reduction::mean;
  Tensor operator()(const Tensor& log_probabilities, const Tensor& target,
                    Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
struct PoissonNLLLoss {
  bool log_input = true;
  bool full = false;
  double eps = 1e-8;
  Reduction reduction = Reduction::mean;
  Tensor operator()(const Tensor& x, const Tensor& target,
                    Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
struct GaussianNLLLoss {
  bool full = false;
  double eps = 1e-6;
  Reduction reduction = Reduction::mean;
  Tensor operator()(const Tensor& x, const Tensor& target, const Tensor& var,
                    Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
struct HingeEmbeddingLoss {
  double margin = 1;
  Reduction reduction = Reduction::mean;
  Tensor operator()(const Tensor& x, const Tensor& target,
                    Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
struct SoftMarginLoss {
  Reduction reduction = Reduction::mean;
  Tensor operator()(const Tensor& x, const Tensor& target,
                    Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
struct MarginRankingLoss {
  double margin = 0;
  Reduction reduction = Reduction::mean;
  Tensor operator()(const Tensor& a, const Tensor& b, const Tensor& target,
                    Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
struct MultiMarginLoss {
  int p = 1;
  double margin = 1;
  Reduction reduction = Reduction::mean;
  Buffer weight = {};  ///< [classes], or undefined
  Tensor operator()(const Tensor& x, const Tensor& target,
                    Loc loc = std::source_location::current()) const;
  void visit(Visitor& v) { v("weight", weight); }
};
struct TripletMarginLoss {
  double margin = 1;
  double p = 2;
  double eps = 1e-6;
  bool swap = false;
  Reduction reduction = Reduction::mean;
  Tensor operator()(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                    Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
struct CosineEmbeddingLoss {
  double margin = 0;
  Reduction reduction = Reduction::mean;
  Tensor operator()(const Tensor& a, const Tensor& b, const Tensor& target,
                    Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
struct HingeLoss {
  double margin = 1;
  Reduction reduction = Reduction::mean;
  Tensor operator()(const Tensor& x, const Tensor& target,
                    Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
struct MultiLabelMarginLoss {
  Reduction reduction = Reduction::mean;
  Tensor operator()(const Tensor& x, const Tensor& target,
                    Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
struct MultiLabelSoftMarginLoss {
  Reduction reduction = Reduction::mean;
  Buffer weight = {};  ///< broadcasts to x, or undefined
  Tensor operator()(const Tensor& x, const Tensor& target,
                    Loc loc = std::source_location::current()) const;
  void visit(Visitor& v) { v("weight", weight); }
};
struct TripletMarginWithDistanceLoss {
  Distance distance = {};
  double margin = 1;
  bool swap = false;
  Reduction reduction = Reduction::mean;
  Tensor operator()(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                    Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
/// ctc_loss(log_probs, targets, input_lengths, target_lengths, args)
struct CTCLoss {
  CtcArgs args = {};
  Tensor operator()(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                    const Tensor& target_lengths, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};

}  // namespace dyad::nn
