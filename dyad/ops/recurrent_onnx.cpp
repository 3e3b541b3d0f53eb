#include "dyad/ops/recurrent_onnx.h"

namespace dyad::ops {
namespace {

const char* onnx_name(Activation::Kind kind) {
  constexpr const char* names[] = {
      "Relu",       "Tanh",        "Sigmoid", "Affine",   "LeakyRelu", "ThresholdedRelu",
      "ScaledTanh", "HardSigmoid", "Elu",     "Softsign", "Softplus"};
  return names[static_cast<int>(kind)];
}

/// Our order of gates as ONNX's: lstm i, o, f, c; gru z, r, h.
std::vector<int> onnx_order(const RecurrentAttrs& attrs) {
  if (attrs.cell == "lstm") return {0, 3, 1, 2};
  if (attrs.cell == "gru") return {1, 0, 2};
  return {0};
}

class RecurrentWriter {
 public:
  /// ONNX has the number of hidden units as an attribute: GraphError for a symbol.
  RecurrentWriter(OnnxEmitter& e, const RecurrentAttrs& attrs)
      : e_(e), attrs_(attrs), hidden_(e.input_type(2).shape()[1].value()) {}

  void write() {
    std::vector<std::string> inputs{in(0), with_direction(in_order(in(1))),
                                    with_direction(in_order(in(2))), biases()};
    inputs.push_back(has(5) ? e_.cast(e_.input(5), DType::i32) : "");
    inputs.push_back(has(6) ? with_direction(in(6)) : "");
    if (attrs_.cell == "lstm") {
      inputs.push_back(has(7) ? with_direction(in(7)) : "");
      inputs.push_back(has(8) ? with_direction(in(8)) : "");
    }
    while (inputs.back().empty()) inputs.pop_back();
    const int outputs = attrs_.cell == "lstm" ? 3 : 2;
    const char* const op = attrs_.cell == "lstm" ? "LSTM" : attrs_.cell == "gru" ? "GRU" : "RNN";
    const std::vector<std::string> made = e_.node_multi(op, inputs, options(), outputs);
    for (int i = 0; i < outputs; ++i) {
      const std::int64_t axis[] = {i == 0 ? 1 : 0};
      std::string result =
          e_.node("Squeeze", {made[static_cast<std::size_t>(i)], e_.constant_i64(axis)});
      constexpr std::int64_t kOnnxBf16 = 16;
      if (e_.output_type(i).dtype() == DType::bf16) {
        result = e_.node("Cast", {result}, {{"to", kOnnxBf16}});
      }
      e_.output(i, result);
    }
  }

 private:
  /// ONNX has no bf16 here before opset 22.
  std::string in(int i) { return e_.input_as(i, kFloat & ~set_of(DType::bf16)); }
  [[nodiscard]] bool has(int i) const { return i < e_.input_count() && !e_.input(i).empty(); }
  std::string with_direction(const std::string& x) {
    const std::int64_t axis[] = {0};
    return e_.node("Unsqueeze", {x, e_.constant_i64(axis)});
  }
  /// Gates along axis 0 in ONNX's order.
  std::string in_order(const std::string& x) {
    const std::vector<int> order = onnx_order(attrs_);
    if (order.size() == 1) return x;
    const std::vector<std::int64_t> sizes(order.size(), hidden_);
    const std::vector<std::string> gates =
        e_.node_multi("Split", {x, e_.constant_i64(sizes)}, {{"axis", std::int64_t{0}}},
                      static_cast<int>(order.size()));
    std::vector<std::string> turned;
    for (const int gate : order) turned.push_back(gates[static_cast<std::size_t>(gate)]);
    return e_.node("Concat", turned, {{"axis", std::int64_t{0}}});
  }
  std::string biases() {
    if (!has(3) && !has(4)) return "";
    const Dim rows = hidden_ * gates_of(attrs_.cell);
    const DType from = e_.input_type(0).dtype(), dtype = from == DType::bf16 ? DType::f32 : from;
    const auto one = [&](int i) {
      if (has(i)) return in_order(in(i));
      return e_.node("Expand", {e_.scalar(0, dtype), e_.shape({rows})});
    };
    const std::string from_x = one(3), from_h = one(4);
    return with_direction(e_.node("Concat", {from_x, from_h}, {{"axis", std::int64_t{0}}}));
  }
  OnnxAttrs options() {
    OnnxAttrs made{{"hidden_size", hidden_}};
    if (attrs_.reverse) made.emplace_back("direction", std::string("reverse"));
    if (attrs_.clip > 0) made.emplace_back("clip", static_cast<float>(attrs_.clip));
    if (attrs_.cell == "gru") {
      made.emplace_back("linear_before_reset", std::int64_t{attrs_.linear_before_reset});
    }
    if (attrs_.cell == "lstm" && attrs_.input_forget) {
      made.emplace_back("input_forget", std::int64_t{1});
    }
    if (attrs_.activations.empty()) return made;
    std::string problem;
    std::vector<std::string> names;
    std::vector<float> alpha, beta;
    for (const Activation& f : parse_activations(attrs_, problem)) {
      using Kind = Activation::Kind;
      names.emplace_back(onnx_name(f.kind));
      const bool pair =
          f.kind == Kind::affine || f.kind == Kind::scaled_tanh || f.kind == Kind::hard_sigmoid;
      const bool single =
          f.kind == Kind::leaky_relu || f.kind == Kind::thresholded_relu || f.kind == Kind::elu;
      // Lists hold the numbers of those functions that take them, in order.
      if (pair || single) alpha.push_back(static_cast<float>(f.alpha));
      if (pair) beta.push_back(static_cast<float>(f.beta));
    }
    made.emplace_back("activations", names);
    if (!alpha.empty()) made.emplace_back("activation_alpha", alpha);
    if (!beta.empty()) made.emplace_back("activation_beta", beta);
    return made;
  }

  OnnxEmitter& e_;
  const RecurrentAttrs& attrs_;
  std::int64_t hidden_;
};

}  // namespace

void write_recurrent(OnnxEmitter& e, const RecurrentAttrs& attrs) {
  RecurrentWriter(e, attrs).write();
}

}  // namespace dyad::ops
