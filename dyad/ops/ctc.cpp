#include "dyad/ops/ctc.h"

#include <limits>

#include "dyad/ops/arithmetic.h"
#include "dyad/ops/attrs/ctc.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/reduce.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/views.h"

namespace dyad {
namespace ops {
namespace {

constexpr double kNever = -1e30;  // log of a probability of 0 that can be differentiated
constexpr ArgInfo kCtcInputs[] = {{"log_probs", kFloat},
                                  {"targets", kIndex},
                                  {"input_lengths", kIndex},
                                  {"target_lengths", kIndex}};
constexpr ArgInfo kCtcBackwardInputs[] = {{"grad", kFloat},           {"log_probs", kFloat},
                                          {"targets", kIndex},        {"input_lengths", kIndex},
                                          {"target_lengths", kIndex}, {"nll", kFloat}};

void check_ctc(const InferIn& in, const CtcAttrs& attrs, std::size_t first) {
  const Shape &x = in[first].shape(), &targets = in[first + 1].shape();
  if (x.rank() != 3) {
    fail_shape(in, "log_probs must be [steps, samples, classes] but has " +
                       std::to_string(x.rank()) + " axes");
  }
  if (targets.rank() != 1 && targets.rank() != 2) {
    fail_shape(in, "targets must be [samples, length], or one list of all, but has " +
                       std::to_string(targets.rank()) + " axes");
  }
  if (targets.rank() == 2 && !(targets[0] == x[1])) {
    fail_shape(in, "targets has " + to_string(targets[0]) + " rows but log_probs " +
                       to_string(x[1]) + " samples (axis 1)");
  }
  for (std::size_t i = first + 2; i < first + 4; ++i) {
    const Shape& lengths = in[i].shape();
    if (lengths.rank() == 1 && lengths[0] == x[1]) continue;
    fail_shape(in, std::string(in.op.inputs[i].name) + " must be [" + to_string(x[1]) +
                       "], one for each sample, but is " + to_string(lengths));
  }
  const Dim classes = x[2];
  if (attrs.blank < 0 || (classes.is_number() && attrs.blank >= classes.number())) {
    fail_index(in, "blank = " + std::to_string(attrs.blank) + " is out of range for " +
                       to_string(classes) + " classes");
  }
}

/// Targets as rows [n, s], whatever they come as.
Tensor target_rows(const Tensor& targets, const Tensor& lengths) {
  if (targets.rank() == 2) return to(targets, i64);
  const Dim samples = lengths.size(0), most = targets.size(0);
  const Tensor counts = to(lengths, i64), each = arange(samples);
  const Tensor earlier = where(unsqueeze(each, 1) > each, unsqueeze(counts, 0), 0);
  const Tensor at = sum(earlier, {1}, true) + arange(most);
  const Tensor index = minimum(at, size_arg(most - 1));
  return index_select(to(targets, i64), 0, index);
}

/// log(e^a + e^b + e^c).
Tensor log_sum(const Tensor& a, const Tensor& b, const Tensor& c) {
  const Tensor top = detach(maximum(maximum(a, b), c));
  return top + log(exp(a - top) + exp(b - top) + exp(c - top));
}

struct CtcNll {
  using Attrs = CtcAttrs;
  static constexpr Schema schema{
      .name = "ctc_nll",
      .inputs = kCtcInputs,
      .outputs = kOut,
      .doc = "-log of the probability of the targets, summed over their alignments.",
      .saved_inputs = kFirst | kSecond | kThird | kFourth,
      .saved_outputs = kFirst,
      .checks = kSecond | kThird | kFourth};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    check_ctc(in, attrs, 0);
    return {Type(in[0].dtype(), {in[0].shape()[1]})};
  }
  static void grad(Gradient& g, const Attrs& attrs);
  /// The forward variable step by step.
  static std::vector<Tensor> parts(const Attrs& attrs, TensorRefs in, Loc loc) {
    const DType outer = in[0]->dtype(), dtype = outer == f64 ? f64 : f32;
    const Tensor x = to(*in[0], dtype), input_lengths = to(*in[2], i64);
    const Tensor target_lengths = unsqueeze(to(*in[3], i64), 1);
    const Tensor rows = target_rows(*in[1], *in[3]);
    const Dim samples = rows.size(0, loc), most = rows.size(1, loc), places = most * 2 + 1;
    // Labels with blanks around them; padding is a blank, so that any number may stand there.
    const Tensor counted = arange(most) < target_lengths;
    const Tensor blanks = full({samples, most}, static_cast<double>(attrs.blank), i64);
    const Tensor pairs = stack({blanks, where(counted, rows, blanks)}, -1);
    const Tensor labels =
        pad(reshape(pairs, {samples, most * 2}), {0, 0}, {0, 1}, static_cast<double>(attrs.blank));
    const Tensor two_before = pad(labels, {0, 2}, {0, -2}, -1);
    const Tensor may_skip =
        logical_and(logical_and(labels != attrs.blank, labels != two_before), arange(places) >= 2);
    const auto before = [](const Tensor& a, std::int64_t by) {
      return pad(a, {0, by}, {0, -by}, kNever);
    };
    Tensor a = expand_rows(where(arange(places) == 0, full({}, 0, dtype), kNever), samples, places);
    const std::int64_t steps = x.size(0, loc).value(loc);
    for (std::int64_t t = 0; t < steps; ++t) {
      const Tensor skipped = where(may_skip, before(a, 2), kNever);
      const Tensor next =
          maximum(log_sum(a, before(a, 1), skipped) + gather(select(x, 0, t), 1, labels), kNever);
      a = where(unsqueeze(input_lengths > t, 1), next, a);
    }
    const Tensor last = gather(a, 1, target_lengths * 2);
    const Tensor but_one =
        where(target_lengths > 0, gather(a, 1, maximum(target_lengths * 2 - 1, 0)), kNever);
    const Tensor nll = neg(log_sum(last, but_one, full_like(last, kNever)));
    return {to(squeeze(where(nll > -kNever / 2, kInfinity, nll), 1), outer)};
  }

 private:
  static Tensor expand_rows(const Tensor& row, Dim samples, Dim places) {
    return dyad::expand(unsqueeze(row, 0), {samples, places});
  }
};

struct CtcNllBackward {
  using Attrs = CtcAttrs;
  static constexpr Schema schema{
      .name = "ctc_nll_backward",
      .inputs = kCtcBackwardInputs,
      .outputs = kOut,
      .doc = "The gradient of log_probs of ctc_nll; 0 where the loss is infinite.",
      .saved_inputs = 63};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    check_ctc(in, attrs, 1);
    return {in[1]};
  }
  static std::vector<Tensor> parts(const Attrs& attrs, TensorRefs in, Loc loc) {
    const auto forward = [&](const std::vector<Tensor>& x) {
      const Tensor* refs[] = {x.data(), &x[1], &x[2], &x[3]};
      return CtcNll::parts(attrs, refs, loc);
    };
    return {derivative(forward, {*in[1], *in[2], *in[3], *in[4]}, {true, false, false, false},
                       {*in[0]}, loc)[0]};
  }
};

void CtcNll::grad(Gradient& g, const Attrs& attrs) {
  const Tensor* refs[] = {&g.grad(),   &g.input(0), &g.input(1),
                          &g.input(2), &g.input(3), &g.output()};
  g.set(0, apply_with_parts<CtcNllBackward>(attrs, {}, refs)[0]);
}

}  // namespace

std::span<const OpInfo* const> ctc_rows() {
  static constexpr const OpInfo* kRows[] = {&op_info_with_parts<CtcNll>,
                                            &op_info_with_parts<CtcNllBackward>};
  return kRows;
}

}  // namespace ops

Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, const CtcArgs& args, Loc loc) {
  ops::refuse_batchmean("ctc_loss", args.reduction, loc);
  const LocScope scope(loc);
  Tensor x = log_probs, labels = targets, steps = input_lengths, counts = target_lengths;
  const bool one_sample = x.defined() && x.rank() == 2;
  if (one_sample) {
    x = unsqueeze(x, 1, loc);
    if (labels.rank() == 1) labels = unsqueeze(labels, 0, loc);
    steps = reshape(steps, {1}, loc);
    counts = reshape(counts, {1}, loc);
  }
  const ops::CtcAttrs attrs{.blank = args.blank};
  const Tensor* refs[] = {&x, &labels, &steps, &counts};
  Tensor losses = ops::apply_with_parts<ops::CtcNll>(attrs, loc, refs)[0];
  if (args.zero_infinity) losses = where(isfinite(losses), losses, 0);
  if (args.reduction == Reduction::none) return one_sample ? squeeze(losses, 0, loc) : losses;
  if (args.reduction == Reduction::sum) return sum(losses, {}, false, loc);
  return mean(losses / to(maximum(counts, 1), losses.dtype()), {}, false, loc);
}

}  // namespace dyad
