#include "dyad/ops/loss.h"

#include "dyad/ops/arithmetic.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/norm.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/reduce.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/views.h"

namespace dyad {
namespace ops {
namespace {

struct LossAttrs {
  std::string reduction = "mean";
};
struct ClassLossAttrs {
  std::string reduction = "mean";
  std::int64_t ignore_index = -100;
};

std::string reduction_name(Reduction reduction) {
  return reduction == Reduction::mean ? "mean" : reduction == Reduction::sum ? "sum" : "none";
}
void check_reduction(const InferIn& in, const std::string& reduction) {
  if (reduction == "mean" || reduction == "sum" || reduction == "none") return;
  fail_value(in, "reduction must be mean, sum or none, not " + reduction);
}

// --- classes -----------------------------------------------------------------------------------

constexpr ArgInfo kClassInputs[] = {{"logits", kFloat}, {"target", kIndex}};
constexpr ArgInfo kNllInputs[] = {{"log_probabilities", kFloat}, {"target", kIndex}};

int class_axis(int rank) { return rank == 1 ? 0 : 1; }

Types infer_class_loss(const InferIn& in, const ClassLossAttrs& attrs) {
  check_reduction(in, attrs.reduction);
  const Shape &x = in[0].shape(), &target = in[1].shape();
  const std::string name(in.op.inputs[0].name);
  if (x.rank() < 1) fail_shape(in, name + " needs an axis of classes");
  Shape expected = x;
  expected.erase(static_cast<std::size_t>(class_axis(x.rank())));
  bool fits = expected.rank() == target.rank();
  for (std::size_t i = 0; fits && i < expected.size(); ++i) fits = expected[i] == target[i];
  if (!fits) {
    fail_shape(in, "target must be " + to_string(expected) + ", " + name +
                       " without its axis of classes (" + std::to_string(class_axis(x.rank())) +
                       "), but is " + to_string(target) +
                       (target.rank() == x.rank() ? "; class indices are wanted, argmax() gives "
                                                    "them from one-hot rows"
                                                  : ""));
  }
  return {Type(in[0].dtype(), attrs.reduction == "none" ? target : Shape())};
}

/// Which targets count, and the targets with 0 in the place of those that do not.
struct Targets {
  Targets(const Tensor& target, const ClassLossAttrs& attrs)
      : counted(target != attrs.ignore_index), index(where(counted, target, 0)) {}
  Tensor counted, index;
};

struct NllLoss {
  using Attrs = ClassLossAttrs;
  static constexpr Schema schema{
      .name = "nll_loss",
      .inputs = kNllInputs,
      .outputs = kOut,
      .doc = "-log_probabilities[target], combined over the targets that are not ignore_index."};
  static Types infer(const InferIn& in, const Attrs& attrs) { return infer_class_loss(in, attrs); }
  static std::vector<Tensor> expand(const Attrs& attrs, TensorRefs in, Loc) {
    const Tensor& x = *in[0];
    const int axis = class_axis(x.rank());
    const Targets targets(*in[1], attrs);
    const Tensor taken = squeeze(gather_from_front(x, axis, unsqueeze(targets.index, axis)), axis);
    const Tensor losses = where(targets.counted, neg(taken), 0);
    if (attrs.reduction == "none") return {losses};
    if (attrs.reduction == "sum") return {sum(losses)};
    return {sum(losses) / sum(to(targets.counted, x.dtype()))};
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    write_onnx(e, "NegativeLogLikelihoodLoss", attrs);
  }
  static void write_onnx(OnnxEmitter& e, std::string_view op, const Attrs& attrs) {
    std::string x = e.input_as(0, kFloat & ~set_of(DType::bf16)), target = e.input(1);
    const OnnxAttrs options{{"reduction", attrs.reduction}, {"ignore_index", attrs.ignore_index}};
    if (e.input_type(0).rank() > 1) return e.output(0, e.node(op, {x, target}, options));
    // ONNX's takes a batch: one of one sample.
    const std::int64_t first[] = {0};
    const std::string axes = e.constant_i64(first);
    x = e.node("Unsqueeze", {x, axes});
    target = e.node("Unsqueeze", {target, axes});
    const std::string loss = e.node(op, {x, target}, options);
    e.output(0, attrs.reduction == "none" ? e.node("Squeeze", {loss, axes}) : loss);
  }
};

struct CrossEntropy {
  using Attrs = ClassLossAttrs;
  static constexpr Schema schema{
      .name = "cross_entropy",
      .inputs = kClassInputs,
      .outputs = kOut,
      .doc = "-log(softmax(logits))[target], combined over the targets that are not ignore_index.",
      .saved_inputs = kFirst | kSecond};
  static Types infer(const InferIn& in, const Attrs& attrs) { return infer_class_loss(in, attrs); }
  static std::vector<Tensor> expand(const Attrs& attrs, TensorRefs in, Loc loc) {
    const Tensor log_probabilities = log_softmax(*in[0], class_axis(in[0]->rank()));
    return {apply<NllLoss>(attrs, loc, log_probabilities, *in[1])};
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    // (softmax - 1 at the target) times the weight of each target.
    const Tensor x = g.input(0);
    const int axis = class_axis(g.input_shape(0).rank());
    const Targets targets(g.input(1), attrs);
    Tensor scale = g.grad();
    if (attrs.reduction == "mean") scale = scale / sum(to(targets.counted, scale.dtype()));
    const Tensor weight = unsqueeze(where(targets.counted, scale, 0), axis);
    g.set(0, scatter_add(softmax(x, axis) * weight, axis, unsqueeze(targets.index, axis),
                         neg(weight)));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    NllLoss::write_onnx(e, "SoftmaxCrossEntropyLoss", attrs);
  }
};

// --- distances ---------------------------------------------------------------------------------

constexpr ArgInfo kPairInputs[] = {{"prediction", kFloat}, {"target", kFloat}};

struct MseLoss {
  using Attrs = LossAttrs;
  static constexpr Schema schema{.name = "mse_loss",
                                 .inputs = kPairInputs,
                                 .outputs = kOut,
                                 .doc = "(prediction - target)^2, combined."};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    check_reduction(in, attrs.reduction);
    require_one_dtype(in);
    const Shape &a = in[0].shape(), &b = in[1].shape();
    bool equal = a.rank() == b.rank();
    for (std::size_t i = 0; equal && i < a.size(); ++i) equal = a[i] == b[i];
    if (!equal) {
      fail_shape(in, "prediction is " + to_string(a) + " but target is " + to_string(b) +
                         "; reshape() one, or expand() it if the broadcast is meant");
    }
    return {Type(in[0].dtype(), attrs.reduction == "none" ? a : Shape())};
  }
  static std::vector<Tensor> expand(const Attrs& attrs, TensorRefs in, Loc) {
    const Tensor squares = square(*in[0] - *in[1]);
    if (attrs.reduction == "none") return {squares};
    return {attrs.reduction == "sum" ? sum(squares) : mean(squares)};
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    const std::string difference = e.node("Sub", {e.input(0), e.input(1)});
    const std::string squares = e.node("Mul", {difference, difference});
    if (attrs.reduction == "none") {
      e.output(0, squares);
    } else {
      e.output(0, e.node(attrs.reduction == "sum" ? "ReduceSum" : "ReduceMean", {squares},
                         {{"keepdims", std::int64_t{0}}}));
    }
  }
};

constexpr const OpInfo* kRows[] = {&op_info<NllLoss>, &op_info<CrossEntropy>, &op_info<MseLoss>};

}  // namespace

std::span<const OpInfo* const> loss_rows() { return kRows; }

}  // namespace ops

Tensor cross_entropy(const Tensor& logits, const Tensor& target, Reduction reduction,
                     std::int64_t ignore_index, Loc loc) {
  return apply<ops::CrossEntropy>(
      {.reduction = ops::reduction_name(reduction), .ignore_index = ignore_index}, loc, logits,
      target);
}
Tensor nll_loss(const Tensor& log_probabilities, const Tensor& target, Reduction reduction,
                std::int64_t ignore_index, Loc loc) {
  return apply<ops::NllLoss>(
      {.reduction = ops::reduction_name(reduction), .ignore_index = ignore_index}, loc,
      log_probabilities, target);
}
Tensor mse_loss(const Tensor& prediction, const Tensor& target, Reduction reduction, Loc loc) {
  return apply<ops::MseLoss>({.reduction = ops::reduction_name(reduction)}, loc, prediction,
                             target);
}

}  // namespace dyad
