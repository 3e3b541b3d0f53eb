#include "dyad/ops/recurrent.h"

#include <array>
#include <utility>

#include "dyad/ops/attrs/recurrent.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/recurrent_onnx.h"
#include "dyad/ops/recurrent_parts.h"
#include "dyad/ops/registry.h"

namespace dyad {
namespace ops {
namespace {

constexpr std::size_t kInputCount = 9;
constexpr std::string_view kNames[kInputCount] = {
    "x", "weight_ih", "weight_hh", "bias_ih", "bias_hh", "lengths", "h0", "c0", "peephole"};
constexpr ArgInfo kRecurrentInputs[] = {{"x", kFloat},
                                        {"weight_ih", kFloat},
                                        {"weight_hh", kFloat},
                                        {"bias_ih", kFloat, /*optional=*/true},
                                        {"bias_hh", kFloat, /*optional=*/true},
                                        {"lengths", kIndex, /*optional=*/true},
                                        {"h0", kFloat, /*optional=*/true},
                                        {"c0", kFloat, /*optional=*/true},
                                        {"peephole", kFloat, /*optional=*/true}};
constexpr ArgInfo kRecurrentBackwardInputs[] = {{"grad", kFloat},
                                                {"grad_h", kFloat, /*optional=*/true},
                                                {"grad_c", kFloat, /*optional=*/true},
                                                {"x", kFloat},
                                                {"weight_ih", kFloat},
                                                {"weight_hh", kFloat},
                                                {"bias_ih", kFloat, /*optional=*/true},
                                                {"bias_hh", kFloat, /*optional=*/true},
                                                {"lengths", kIndex, /*optional=*/true},
                                                {"h0", kFloat, /*optional=*/true},
                                                {"c0", kFloat, /*optional=*/true},
                                                {"peephole", kFloat, /*optional=*/true},
                                                {"y", kFloat},
                                                {"gates", kFloat},
                                                {"cells", kFloat}};
constexpr ArgInfo kRecurrentForwardOutputs[] = {{"y"}, {"h"}, {"c"}, {"gates"}, {"cells"}};
constexpr ArgInfo kRecurrentBackwardOutputs[] = {
    {"x_grad"},       {"weight_ih_grad"}, {"weight_hh_grad"}, {"bias_ih_grad"},
    {"bias_hh_grad"}, {"h0_grad"},        {"c0_grad"},        {"peephole_grad"}};
constexpr ArgInfo kStateOutputs[] = {{"y"}, {"h"}};
constexpr ArgInfo kCellOutputs[] = {{"y"}, {"h"}, {"c"}};

struct RecurrentSizes {
  Dim steps, samples, width, hidden;
};

void require(const InferIn& in, std::size_t first, std::size_t i, const Shape& want,
             std::string_view axes) {
  if (!in.has(first + i)) return;
  const Shape& shape = in[first + i].shape();
  bool equal = shape.rank() == want.rank();
  for (std::size_t k = 0; equal && k < want.size(); ++k) equal = shape[k] == want[k];
  if (equal) return;
  fail_shape(in, std::string(kNames[i]) + " must be [" + std::string(axes) +
                     "] = " + to_string(want) + " but is " + to_string(shape));
}

/// Checks the inputs from x on.
RecurrentSizes check_recurrent(const InferIn& in, const RecurrentAttrs& attrs, std::size_t first) {
  const int gates = gates_of(attrs.cell);
  if (gates == 0) fail_value(in, "cell = \"" + attrs.cell + "\" must be rnn, lstm or gru");
  std::string problem;
  (void)parse_activations(attrs, problem);
  if (!problem.empty()) fail_value(in, problem);
  if (!(attrs.clip >= 0)) fail_value(in, "clip must not be negative; 0 is none");
  for (std::size_t i = 0; i < kInputCount; ++i) {
    if (i == 5 || !in.has(first + i) || in[first + i].dtype() == in[first].dtype()) continue;
    fail_dtype(in, "one dtype is needed, but x is " + std::string(name_of(in[first].dtype())) +
                       " and " + std::string(kNames[i]) + " is " +
                       std::string(name_of(in[first + i].dtype())) + "; convert one with to()");
  }
  const Shape &x = in[first].shape(), &weight = in[first + 2].shape();
  if (x.rank() != 3) {
    fail_shape(in,
               "x must be [steps, samples, width] but has " + std::to_string(x.rank()) + " axes");
  }
  if (weight.rank() != 2) fail_shape(in, "weight_hh must have 2 axes but is " + to_string(weight));
  const Dim hidden = weight[1], rows = hidden * gates;
  require(in, first, 1, {rows, x[2]}, "gates * hidden, width of x");
  require(in, first, 2, {rows, hidden}, "gates * hidden, hidden");
  require(in, first, 3, {rows}, "gates * hidden");
  require(in, first, 4, {rows}, "gates * hidden");
  require(in, first, 5, {x[1]}, "samples");
  require(in, first, 6, {x[1], hidden}, "samples, hidden");
  require(in, first, 7, {x[1], hidden}, "samples, hidden");
  require(in, first, 8, {hidden * 3}, "3 * hidden");
  if (attrs.cell != "lstm" && (in.has(first + 7) || in.has(first + 8))) {
    fail_value(in, "c0 and peephole belong to lstm, not " + attrs.cell);
  }
  return {x[0], x[1], x[2], hidden};
}

DType computed_dtype(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

struct RecurrentForward {
  using Attrs = RecurrentAttrs;
  static constexpr Schema schema{
      .name = "recurrent_forward",
      .inputs = kRecurrentInputs,
      .outputs = kRecurrentForwardOutputs,
      .doc = "One direction of a recurrent layer over a sequence, and what its gradient needs.",
      .saved_inputs = 511,
      .saved_outputs = kFirst | kFourth | 16,
      .checks = 1u << 5};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    const RecurrentSizes s = check_recurrent(in, attrs, 0);
    const DType dtype = in[0].dtype(), inner = computed_dtype(dtype);
    const bool lstm = attrs.cell == "lstm";
    const bool cells = lstm || (attrs.cell == "gru" && attrs.linear_before_reset);
    const Shape sequence{s.steps, s.samples, s.hidden}, state{s.samples, s.hidden}, none{0};
    return {Type(dtype, sequence), Type(dtype, state), Type(dtype, lstm ? state : none),
            Type(inner, {s.steps, s.samples, s.hidden * gates_of(attrs.cell)}),
            Type(inner, cells ? sequence : none)};
  }
  static std::vector<Tensor> parts(const Attrs& attrs, TensorRefs in, Loc loc) {
    return recurrent_parts(attrs, in, loc);
  }
  static void grad(Gradient& g, const Attrs& attrs);
};

struct RecurrentBackward {
  using Attrs = RecurrentAttrs;
  static constexpr Schema schema{.name = "recurrent_backward",
                                 .inputs = kRecurrentBackwardInputs,
                                 .outputs = kRecurrentBackwardOutputs,
                                 .doc = "The gradients of the inputs of recurrent_forward.",
                                 .saved_inputs = (1 << 15) - 1};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    (void)check_recurrent(in, attrs, 3);
    const Type none(in[3].dtype(), {0});
    const auto of = [&](std::size_t i) { return in.has(3 + i) ? in[3 + i] : none; };
    return {attrs.with_x ? in[3] : none, in[4], in[5], of(3), of(4), of(6), of(7), of(8)};
  }
  static std::vector<Tensor> parts(const Attrs& attrs, TensorRefs in, Loc loc) {
    std::vector<Tensor> inputs;
    std::vector<bool> wanted;
    for (std::size_t i = 0; i < kInputCount; ++i) {
      inputs.push_back(*in[3 + i]);
      wanted.push_back(inputs[i].defined() && i != 5 && (i > 0 || attrs.with_x));
    }
    const auto forward = [&](const std::vector<Tensor>& x) {
      const Tensor* refs[kInputCount];
      for (std::size_t i = 0; i < kInputCount; ++i) refs[i] = &x[i];
      std::vector<Tensor> out = recurrent_parts(attrs, refs, loc);
      out.resize(3);
      return out;
    };
    std::vector<Tensor> found =
        derivative(forward, std::move(inputs), wanted, {*in[0], *in[1], *in[2]}, loc);
    found.erase(found.begin() + 5);
    for (Tensor& grad : found) {
      if (!grad.defined()) grad = zeros({0}, in[3]->dtype());
    }
    return found;
  }
};

void RecurrentForward::grad(Gradient& g, const Attrs& attrs) {
  std::array<Tensor, 15> in;
  in[0] = g.grad(0);
  if (g.has_grad(1)) in[1] = g.grad(1);
  if (g.has_grad(2) && attrs.cell == "lstm") in[2] = g.grad(2);
  for (int i = 0; i < std::min<int>(kInputCount, g.input_count()); ++i) {
    in[static_cast<std::size_t>(i) + 3] = g.input(i);
  }
  in[12] = g.output(0);
  in[13] = g.output(3);
  in[14] = g.output(4);
  std::array<const Tensor*, 15> refs;
  for (std::size_t i = 0; i < in.size(); ++i) refs[i] = &in[i];
  Attrs backward = attrs;
  backward.with_x = g.needs(0);
  std::vector<Tensor> found = apply_with_parts<RecurrentBackward>(backward, {}, refs);
  found.insert(found.begin() + 5, Tensor());
  for (std::size_t i = 0; i < kInputCount; ++i) {
    if (i != 5 && in[3 + i].defined() && (i > 0 || backward.with_x)) {
      g.set(static_cast<int>(i), std::move(found[i]));
    }
  }
}

/// One composite for each cell: what is written as ONNX's node of that name.
template <class Cell>
struct RecurrentOp {
  using Attrs = RecurrentAttrs;
  static Attrs with_cell(Attrs attrs) {
    attrs.cell = Cell::kCell;
    return attrs;
  }
  static Types infer(const InferIn& in, const Attrs& attrs) {
    const RecurrentSizes s = check_recurrent(in, with_cell(attrs), 0);
    const Type state(in[0].dtype(), {s.samples, s.hidden});
    Types types{Type(in[0].dtype(), {s.steps, s.samples, s.hidden}), state};
    if (Cell::schema.outputs.size() > 2) types.push_back(state);
    return types;
  }
  static std::vector<Tensor> expand(const Attrs& attrs, TensorRefs in, Loc loc) {
    std::vector<Tensor> out = apply_with_parts<RecurrentForward>(with_cell(attrs), loc, in);
    out.resize(Cell::schema.outputs.size());
    return out;
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) { write_recurrent(e, with_cell(attrs)); }
};

struct Rnn : RecurrentOp<Rnn> {
  static constexpr const char* kCell = "rnn";
  static constexpr Schema schema{.name = "rnn",
                                 .inputs = {kRecurrentInputs, 7},
                                 .outputs = kStateOutputs,
                                 .doc = "A layer of Elman's recurrent network, one direction."};
};
struct Lstm : RecurrentOp<Lstm> {
  static constexpr const char* kCell = "lstm";
  static constexpr Schema schema{.name = "lstm",
                                 .inputs = kRecurrentInputs,
                                 .outputs = kCellOutputs,
                                 .doc = "A layer of long short-term memory, one direction."};
};
struct Gru : RecurrentOp<Gru> {
  static constexpr const char* kCell = "gru";
  static constexpr Schema schema{.name = "gru",
                                 .inputs = {kRecurrentInputs, 7},
                                 .outputs = kStateOutputs,
                                 .doc = "A layer of gated recurrent units, one direction."};
};

template <class Op>
RecurrentResult apply_recurrent(const Tensor& x, const Tensor& weight_ih, const Tensor& weight_hh,
                                const Tensor& bias_ih, const Tensor& bias_hh,
                                const RecurrentArgs& args, Loc loc) {
  constexpr std::size_t outputs = Op::schema.outputs.size();
  const RecurrentAttrs attrs{.cell = Op::kCell,
                             .activations = args.activations,
                             .clip = args.clip,
                             .reverse = args.reverse,
                             .linear_before_reset = args.linear_before_reset,
                             .input_forget = args.input_forget};
  if (outputs == 2 && (args.c0.defined() || args.peephole.defined())) {
    throw ValueError(std::string(Op::kCell) + ": c0 and peephole belong to lstm", loc.user());
  }
  const Tensor* refs[] = {&x,       &weight_ih, &weight_hh,    &bias_ih, &bias_hh, &args.lengths,
                          &args.h0, &args.c0,   &args.peephole};
  std::vector<Tensor> out =
      apply_multi<Op>(attrs, loc, TensorRefs(refs, Op::schema.inputs.size()), outputs);
  return {out[0], out[1], outputs > 2 ? out[outputs - 1] : Tensor()};
}

}  // namespace

std::span<const OpInfo* const> recurrent_rows() {
  static constexpr const OpInfo* kRows[] = {&op_info<Rnn>, &op_info<Lstm>, &op_info<Gru>,
                                            &op_info_with_parts<RecurrentForward>,
                                            &op_info_with_parts<RecurrentBackward>};
  return kRows;
}

}  // namespace ops

RecurrentResult rnn(const Tensor& x, const Tensor& weight_ih, const Tensor& weight_hh,
                    const Tensor& bias_ih, const Tensor& bias_hh, const RecurrentArgs& args,
                    Loc loc) {
  return ops::apply_recurrent<ops::Rnn>(x, weight_ih, weight_hh, bias_ih, bias_hh, args, loc);
}
RecurrentResult lstm(const Tensor& x, const Tensor& weight_ih, const Tensor& weight_hh,
                     const Tensor& bias_ih, const Tensor& bias_hh, const RecurrentArgs& args,
                     Loc loc) {
  return ops::apply_recurrent<ops::Lstm>(x, weight_ih, weight_hh, bias_ih, bias_hh, args, loc);
}
RecurrentResult gru(const Tensor& x, const Tensor& weight_ih, const Tensor& weight_hh,
                    const Tensor& bias_ih, const Tensor& bias_hh, const RecurrentArgs& args,
                    Loc loc) {
  return ops::apply_recurrent<ops::Gru>(x, weight_ih, weight_hh, bias_ih, bias_hh, args, loc);
}

}  // namespace dyad
