#include "dyad/ops/ctc_decode.h"

#include "dyad/ops/arithmetic.h"
#include "dyad/ops/attrs/ctc.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/cumulative.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/reduce.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/scatter.h"
#include "dyad/ops/views.h"

namespace dyad {
namespace ops {
namespace {

constexpr ArgInfo kDecodeInputs[] = {{"log_probs", kFloat}, {"input_lengths", kIndex}};
constexpr ArgInfo kOutputs[] = {
    {"labels", set_of(DType::i64)}, {"lengths", set_of(DType::i64)}, {"log_probs", kFloat}};

struct CtcBeamSearch {
  using Attrs = CtcBeamAttrs;
  static constexpr Schema schema{
      .name = "ctc_beam_search",
      .inputs = kDecodeInputs,
      .outputs = kOutputs,
      .doc = "The most probable label sequences, each with the sum over its alignments.",
      .samples = {.differentiable = false},
      .checks = kSecond};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    const Shape &x = in[0].shape(), &lengths = in[1].shape();
    if (x.rank() != 3) {
      fail_shape(in, "log_probs must be [steps, samples, classes] but has " +
                         std::to_string(x.rank()) + " axes");
    }
    if (lengths.rank() != 1 || !(lengths[0] == x[1])) {
      fail_shape(in, "input_lengths must be [" + to_string(x[1]) + "], one for each sample");
    }
    if (attrs.width < 1 || attrs.paths < 1 || attrs.paths > attrs.width) {
      fail_value(in, "width and paths must be at least 1, and paths at most width");
    }
    if (attrs.blank < 0 || (x[2].is_number() && attrs.blank >= x[2].number())) {
      fail_index(in, "blank = " + std::to_string(attrs.blank) + " is out of range for " +
                         to_string(x[2]) + " classes");
    }
    const Dim paths = attrs.paths;
    return {Type(DType::i64, {x[1], paths, x[0]}), Type(DType::i64, {x[1], paths}),
            Type(in[0].dtype(), {x[1], paths})};
  }
};

/// The number of steps of each sample: all of them when none are given.
Tensor lengths_of(const Tensor& log_probs, const Tensor& given) {
  if (given.defined() || log_probs.rank() != 3) return given;
  return expand(unsqueeze(size_tensor(log_probs.size(0)), 0), {log_probs.size(1)});
}

}  // namespace

std::span<const OpInfo* const> ctc_decode_rows() {
  static constexpr const OpInfo* kRows[] = {&op_info<CtcBeamSearch>};
  return kRows;
}

}  // namespace ops

CtcDecoded ctc_greedy_decode(const Tensor& log_probs, const Tensor& input_lengths,
                             std::int64_t blank, Loc loc) {
  const auto call = [&] {
    return "ctc_greedy_decode(log_probs: " + type_string(log_probs) + "): ";
  };
  if (log_probs.rank() != 3) {
    throw ShapeError(call() + "log_probs must be [steps, samples, classes]", loc.user());
  }
  const Dim classes = log_probs.size(2, loc);
  if (blank < 0 || ops::is_below(classes, blank + 1)) {
    throw IndexError(call() + "blank = " + std::to_string(blank) + " is out of range for " +
                         to_string(ops::size_now(classes)) + " classes",
                     loc.user());
  }
  const LocScope scope(loc);
  const Dim steps = log_probs.size(0), samples = log_probs.size(1);
  const Tensor lengths = ops::lengths_of(log_probs, input_lengths);
  const Tensor best = argmax(log_probs, 2, false, false, loc);
  const Tensor inside = unsqueeze(arange(steps), 1) < lengths;
  const Tensor previous = pad(best, {1, 0}, {-1, 0}, -1);
  const Tensor keep = logical_and(logical_and(best != blank, best != previous), inside);
  // What is not kept goes to a place of its own, behind the others.
  const Tensor place = where(keep, cumsum(to(keep, i64), 0) - 1, ops::size_arg(steps));
  const Tensor rows = scatter(full({steps + 1, samples}, -1, i64), 0, place, best);
  const Tensor labels = transpose(slice(rows, 0, 0, steps), 0, 1);
  const Tensor likely = where(inside, max(log_probs, {2}), 0);
  return {clone(labels), sum(keep, {0}), sum(likely, {0})};
}

CtcDecoded ctc_beam_search(const Tensor& log_probs, const Tensor& input_lengths,
                           const CtcBeamArgs& args, Loc loc) {
  const LocScope scope(loc);
  Tensor lengths = ops::lengths_of(log_probs, input_lengths);
  if (!lengths.defined()) lengths = full({0}, 0, i64);
  const ops::CtcBeamAttrs attrs{.blank = args.blank, .width = args.width, .paths = args.paths};
  const Tensor* refs[] = {&log_probs, &lengths};
  std::vector<Tensor> made = apply_multi<ops::CtcBeamSearch>(attrs, loc, refs, 3);
  return {std::move(made[0]), std::move(made[1]), std::move(made[2])};
}

}  // namespace dyad
