#include "dyad/ops/loss.h"

#include <algorithm>

#include "dyad/ops/arithmetic.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/creation.h"
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

constexpr ArgInfo kClassInputs[] = {
    {"logits", kFloat}, {"target", kIndex}, {"weight", kFloat, true}};
constexpr ArgInfo kNllInputs[] = {
    {"log_probabilities", kFloat}, {"target", kIndex}, {"weight", kFloat, true}};

int class_axis(int rank) { return rank == 1 ? 0 : 1; }

Types infer_class_loss(const InferIn& in, const ClassLossAttrs& attrs) {
  check_reduction(in, attrs.reduction);
  const Shape &x = in[0].shape(), &target = in[1].shape();
  const std::string name(in.op.inputs[0].name);
  if (x.rank() < 1) fail_shape(in, name + " needs an axis of classes");
  const auto axis = static_cast<std::size_t>(class_axis(x.rank()));
  Shape expected = x;
  expected.erase(axis);
  bool fits = expected.rank() == target.rank();
  for (std::size_t i = 0; fits && i < expected.size(); ++i) fits = expected[i] == target[i];
  if (!fits) {
    fail_shape(in, "target must be " + to_string(expected) + ", " + name +
                       " without its axis of classes (" + std::to_string(axis) + "), but is " +
                       to_string(target) +
                       (target.rank() == x.rank() ? "; class indices are wanted, argmax() gives "
                                                    "them from one-hot rows"
                                                  : ""));
  }
  if (in.has(2)) {
    if (in[2].dtype() != in[0].dtype()) {
      fail_dtype(in, "weight must be " + std::string(name_of(in[0].dtype())) + " as " + name +
                         ", but is " + std::string(name_of(in[2].dtype())));
    }
    const Shape& weight = in[2].shape();
    if (weight.rank() != 1 || !(weight[0] == x[axis])) {
      fail_shape(in, "weight must be [" + to_string(x[axis]) +
                         "], a number for each class, but is " + to_string(weight));
    }
  }
  return {Type(in[0].dtype(), attrs.reduction == "none" ? target : Shape())};
}

/// The weights of a call, undefined where it has none.
Tensor weight_of(TensorRefs in) { return in.size() > 2 ? *in[2] : Tensor(); }

/// Which targets count, the targets with 0 in the place of those that do not, and the weight of
/// each (undefined: 1). `loss` is the operator, for errors.
struct Targets {
  Targets(const Tensor& target, std::int64_t ignore_index, const Tensor& weight,
          std::string_view loss)
      : counted(target != ignore_index), index(where(counted, target, 0)) {
    if (weight.defined()) {
      weights = where(counted, index_select_from_front(weight, 0, index, loss), 0);
    }
  }
  /// How much all of them count in a mean.
  [[nodiscard]] Tensor total(DType dtype) const {
    return sum(weights.defined() ? weights : to(counted, dtype));
  }
  Tensor counted, index, weights;
};

/// `losses` of all targets, combined: sums are divided by the weights in the mean.
Tensor combined(const Tensor& losses, const std::string& reduction, const Targets& targets) {
  if (reduction == "none") return losses;
  if (reduction == "sum") return sum(losses);
  return sum(losses) / targets.total(losses.dtype());
}

/// -log_probabilities[target] times the weights, 0 for those that do not count.
Tensor losses_of(const Tensor& log_probabilities, const Targets& targets, std::string_view loss) {
  const int axis = class_axis(log_probabilities.rank());
  const Tensor index = unsqueeze(targets.index, axis);
  const Tensor taken = squeeze(gather_from_front(log_probabilities, axis, index, loss), axis);
  const Tensor losses = where(targets.counted, neg(taken), 0);
  return targets.weights.defined() ? losses * targets.weights : losses;
}

/// The class weights along the axis of classes, to broadcast to the logits.
Tensor along_classes(const Tensor& weight, int rank) {
  Shape shape(Ints(static_cast<std::size_t>(rank), 1));
  shape[static_cast<std::size_t>(class_axis(rank))] = weight.size(0);
  return reshape(weight, shape);
}

/// NegativeLogLikelihoodLoss or SoftmaxCrossEntropyLoss.
void write_class_loss(OnnxEmitter& e, std::string_view op, const std::string& reduction,
                      std::int64_t ignore_index) {
  // Of nothing runtimes refuse the reshapes that ONNX defines the one by, or differ in its mean.
  const auto is_empty = [](Dim size) { return size.same_as(0); };
  if (std::ranges::any_of(e.input_type(0).shape(), is_empty)) return e.parts();
  const DType own = e.input_type(0).dtype(), dtype = own == DType::bf16 ? DType::f32 : own;
  std::string x = e.cast(e.input(0), dtype), target = e.input(1);
  std::string weight = e.input_count() > 2 ? e.input(2) : "";
  if (!weight.empty()) weight = e.cast(weight, dtype);
  const OnnxAttrs options{{"reduction", reduction}, {"ignore_index", ignore_index}};
  const auto write = [&] {
    std::vector<std::string> inputs{x, target};
    if (!weight.empty()) inputs.push_back(weight);
    return e.node(op, std::move(inputs), options);
  };
  if (e.input_type(0).rank() > 1) return e.output(0, write());
  // ONNX's takes a batch: one of one sample.
  const std::int64_t first[] = {0};
  const std::string axes = e.constant_i64(first);
  x = e.node("Unsqueeze", {x, axes});
  target = e.node("Unsqueeze", {target, axes});
  const std::string loss = write();
  e.output(0, reduction == "none" ? e.node("Squeeze", {loss, axes}) : loss);
}

struct NllLoss {
  using Attrs = ClassLossAttrs;
  static constexpr Schema schema{
      .name = "nll_loss",
      .inputs = kNllInputs,
      .outputs = kOut,
      .doc =
          "-weight * log_probabilities[target], combined over the targets that are not "
          "ignore_index."};
  static Types infer(const InferIn& in, const Attrs& attrs) { return infer_class_loss(in, attrs); }
  static std::vector<Tensor> expand(const Attrs& attrs, TensorRefs given, Loc) {
    return inputs_in_f32(given, [&](TensorRefs in) -> std::vector<Tensor> {
      const Targets targets(*in[1], attrs.ignore_index, weight_of(in), schema.name);
      return {combined(losses_of(*in[0], targets, schema.name), attrs.reduction, targets)};
    });
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    write_class_loss(e, "NegativeLogLikelihoodLoss", attrs.reduction, attrs.ignore_index);
  }
};

struct CrossEntropy {
  using Attrs = ClassLossAttrs;
  static constexpr Schema schema{
      .name = "cross_entropy",
      .inputs = kClassInputs,
      .outputs = kOut,
      .doc =
          "-weight * log(softmax(logits))[target], combined over the targets that are not "
          "ignore_index.",
      .saved_inputs = kFirst | kSecond | kThird};
  static Types infer(const InferIn& in, const Attrs& attrs) { return infer_class_loss(in, attrs); }
  static std::vector<Tensor> expand(const Attrs& attrs, TensorRefs given, Loc) {
    return inputs_in_f32(given, [&](TensorRefs in) -> std::vector<Tensor> {
      return {loss(attrs, *in[0], *in[1], weight_of(in))};
    });
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    const Tensor x = widened(g.input(0));
    const Tensor weight = g.input_count() > 2 ? widened(g.input(2)) : Tensor();
    const int axis = class_axis(g.input_shape(0).rank());
    const Targets targets(g.input(1), attrs.ignore_index, weight, schema.name);
    const Tensor index = unsqueeze(targets.index, axis);
    // What each target's loss counts in the result.
    Tensor scale = widened(g.grad());
    if (attrs.reduction == "mean") scale = scale / targets.total(scale.dtype());
    scale = where(targets.counted, scale, 0);
    if (g.needs(0)) {  // softmax, less 1 at the target
      const Tensor pull =
          unsqueeze(targets.weights.defined() ? scale * targets.weights : scale, axis);
      g.set(0, scatter_add(softmax(x, axis) * pull, axis, index, neg(pull)));
    }
    if (weight.defined() && g.needs(2)) {
      const Tensor logs = log_softmax(x, axis);
      Tensor own = neg(squeeze(gather_from_front(logs, axis, index, schema.name), axis));
      // The weights are in the mean's divisor too.
      if (attrs.reduction == "mean") own = own - loss(attrs, x, g.input(1), weight);
      g.set(2, scatter_add(zeros_like(weight), 0, reshape(targets.index, {-1}),
                           reshape(own * scale, {-1})));
    }
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    write_class_loss(e, "SoftmaxCrossEntropyLoss", attrs.reduction, attrs.ignore_index);
  }

 private:
  static Tensor loss(const Attrs& attrs, const Tensor& x, const Tensor& target,
                     const Tensor& weight) {
    const Targets targets(target, attrs.ignore_index, weight, schema.name);
    const Tensor logs = log_softmax(x, class_axis(x.rank()));
    return combined(losses_of(logs, targets, schema.name), attrs.reduction, targets);
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
  static std::vector<Tensor> expand(const Attrs& attrs, TensorRefs given, Loc) {
    return inputs_in_f32(given, [&](TensorRefs in) -> std::vector<Tensor> {
      const Tensor squares = square(*in[0] - *in[1]);
      if (attrs.reduction == "none") return {squares};
      return {attrs.reduction == "sum" ? sum(squares) : mean(squares)};
    });
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

std::string cross_entropy_call(const Tensor& logits, const Tensor& target) {
  return "cross_entropy(logits: " + type_string(logits) + ", target: " + type_string(target) + ")";
}

/// cross_entropy for targets that are probabilities.
Tensor soft_cross_entropy(const Tensor& logits, const Tensor& target, Reduction reduction,
                          const Tensor& weight, double label_smoothing, Loc loc) {
  bool equal = logits.rank() == target.rank() && logits.rank() > 0;
  for (int axis = 0; equal && axis < logits.rank(); ++axis) {
    equal = logits.size(axis, loc) == target.size(axis, loc);
  }
  if (!equal) {
    throw ShapeError(cross_entropy_call(logits, target) +
                         ": probabilities have the shape of the logits; class indices are i64 or "
                         "i32",
                     loc.user());
  }
  return in_f32(
      [&](const Tensor& logits, const Tensor& target, const Tensor& weight) {
        const int axis = class_axis(logits.rank());
        Tensor wanted = target;
        if (label_smoothing != 0) {
          const Dim classes = logits.size(axis);
          const Arg share =
              classes.is_number()
                  ? Arg(label_smoothing / static_cast<double>(classes.number()))
                  : Arg(to(label_smoothing / to(size_tensor(classes), f64), target.dtype()));
          wanted = add(target * (1 - label_smoothing), share);
        }
        if (weight.defined()) wanted = wanted * along_classes(weight, logits.rank());
        Tensor losses = neg(sum(wanted * log_softmax(logits, axis), {axis}));
        if (reduction == Reduction::none) return losses;
        return reduction == Reduction::sum ? sum(losses) : mean(losses);
      },
      logits, target, weight);
}

/// cross_entropy for class indices with label smoothing.
Tensor smoothed_cross_entropy(const Tensor& logits, const Tensor& target,
                              const ClassLossAttrs& attrs, const Tensor& weight,
                              double label_smoothing) {
  return in_f32(
      [&](const Tensor& logits, const Tensor& weight) {
        const int axis = class_axis(logits.rank());
        const Tensor log_probabilities = log_softmax(logits, axis);
        const Targets targets(target, attrs.ignore_index, weight, "cross_entropy");
        const ClassLossAttrs each{.reduction = "none", .ignore_index = attrs.ignore_index};
        const Tensor own = weight.defined()
                               ? apply<NllLoss>(each, {}, log_probabilities, target, weight)
                               : apply<NllLoss>(each, {}, log_probabilities, target);
        const Tensor weighted = weight.defined()
                                    ? log_probabilities * along_classes(weight, logits.rank())
                                    : log_probabilities;
        const Tensor even = where(targets.counted, neg(mean(weighted, {axis})), 0);
        return combined(own * (1 - label_smoothing) + even * label_smoothing, attrs.reduction,
                        targets);
      },
      logits, weight);
}

}  // namespace

std::span<const OpInfo* const> loss_rows() {
  static constexpr const OpInfo* kRows[] = {&op_info<NllLoss>, &op_info<CrossEntropy>,
                                            &op_info<MseLoss>};
  return kRows;
}

void refuse_batchmean(std::string_view loss, Reduction reduction, Loc loc) {
  if (reduction != Reduction::batchmean) return;
  throw ValueError(
      std::string(loss) + ": the reduction batchmean is for kl_div() alone; use mean, sum or none",
      loc.user());
}

}  // namespace ops

Tensor cross_entropy(const Tensor& logits, const Tensor& target, const Tensor& weight,
                     Reduction reduction, std::int64_t ignore_index, double label_smoothing,
                     Loc loc) {
  if (!(label_smoothing >= 0 && label_smoothing <= 1)) {
    throw ValueError(
        ops::cross_entropy_call(logits, target) + ": label_smoothing must be from 0 to 1",
        loc.user());
  }
  ops::refuse_batchmean("cross_entropy", reduction, loc);
  const LocScope scope(loc);
  if (target.defined() && is_floating(target.dtype())) {
    return ops::soft_cross_entropy(logits, target, reduction, weight, label_smoothing, loc);
  }
  const ops::ClassLossAttrs attrs{.reduction = ops::reduction_name(reduction),
                                  .ignore_index = ignore_index};
  if (label_smoothing != 0) {
    return ops::smoothed_cross_entropy(logits, target, attrs, weight, label_smoothing);
  }
  if (!weight.defined()) return apply<ops::CrossEntropy>(attrs, loc, logits, target);
  return apply<ops::CrossEntropy>(attrs, loc, logits, target, weight);
}
Tensor nll_loss(const Tensor& log_probabilities, const Tensor& target, const Tensor& weight,
                Reduction reduction, std::int64_t ignore_index, Loc loc) {
  ops::refuse_batchmean("nll_loss", reduction, loc);
  const ops::ClassLossAttrs attrs{.reduction = ops::reduction_name(reduction),
                                  .ignore_index = ignore_index};
  if (!weight.defined()) return apply<ops::NllLoss>(attrs, loc, log_probabilities, target);
  return apply<ops::NllLoss>(attrs, loc, log_probabilities, target, weight);
}
Tensor mse_loss(const Tensor& prediction, const Tensor& target, Reduction reduction, Loc loc) {
  ops::refuse_batchmean("mse_loss", reduction, loc);
  // The operator looks at sizes when it is recorded; its parts would broadcast others later.
  const bool may_vary = prediction.defined() && target.defined() && prediction.is_concrete() &&
                        prediction.rank() == target.rank();
  for (int axis = 0; may_vary && axis < target.rank(); ++axis) {
    static_cast<void>(prediction.size(axis, loc) == target.size(axis, loc));
  }
  return apply<ops::MseLoss>({.reduction = ops::reduction_name(reduction)}, loc, prediction,
                             target);
}

}  // namespace dyad
