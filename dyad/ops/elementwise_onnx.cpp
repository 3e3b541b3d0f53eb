#include <algorithm>
#include <limits>

#include "dyad/ir/onnx_node.h"
#include "dyad/ops/activation.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/bits.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/division.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/views.h"

// What ONNX's operators mean that work element by element, by the version from which they mean it.
// Those that are one row without attributes need no rule: the row's ONNX name is one.

namespace dyad::ops {
namespace {

/// f over any number of inputs, from the left.
template <Tensor (*f)(const Arg&, const Arg&, Loc)>
void fold(OnnxNode& n) {
  Tensor result = n.input(0);
  for (int i = 1; i < n.input_count(); ++i) result = f(result, n.input(i), n.loc());
  n.output(0, n.input_count() == 1 ? result.clone(n.loc()) : result);
}

void mean_of_inputs(OnnxNode& n) {
  Tensor total = n.input(0);
  for (int i = 1; i < n.input_count(); ++i) total = add(total, n.input(i), n.loc());
  n.output(0, mul(total, 1.0 / n.input_count(), n.loc()));
}

/// Integers divide with truncation, where div() gives floats.
void divide(OnnxNode& n, const Tensor& a, const Tensor& b) {
  if (is_floating(a.dtype())) {
    n.output(0, div(a, b, n.loc()));
    return;
  }
  n.output(0, floor_divide(sub(a, fmod(a, b, n.loc()), n.loc()), b, n.loc()));
}

/// The exponent may be of another dtype; the result has that of the base.
void power(OnnxNode& n, const Tensor& base, const Tensor& exponent) {
  n.output(0, to(pow(base, exponent, n.loc()), base.dtype(), n.loc()));
}

void clip_by_attributes(OnnxNode& n) {
  constexpr double kMost = std::numeric_limits<float>::max();
  n.output(0, clamp(n.input(0), n.number("min", -kMost), n.number("max", kMost), n.loc()));
}

void clip_by_inputs(OnnxNode& n) {
  // As the standard says it: min(max(x, low), high), whatever the order of the bounds.
  Tensor x = n.input(0);
  if (n.has(1)) x = maximum(x, n.input(1), n.loc());
  if (n.has(2)) x = minimum(x, n.input(2), n.loc());
  n.output(0, n.has(1) || n.has(2) ? x : x.clone(n.loc()));
}

/// What floats beyond a small integer dtype become is not said; ONNX's own tests keep the low bits,
/// as of integers.
void convert_to(OnnxNode& n, DType dtype) {
  Tensor x = n.input(0);
  if (contains(kSmallInteger, dtype) && is_floating(x.dtype())) x = to(x, i32, n.loc());
  n.output(0, cast(x, dtype, n.flag("saturate", true), n.loc()));
}
void cast_of(OnnxNode& n) { convert_to(n, n.dtype("to", f32)); }
void cast_like(OnnxNode& n) { convert_to(n, n.input(1).dtype()); }

void gelu_of(OnnxNode& n) {
  n.output(0, gelu(n.input(0), n.text("approximate", "none") == "tanh", n.loc()));
}

/// With fmod the sign is that of the dividend, as in C, otherwise that of the divisor.
void modulo(OnnxNode& n) {
  n.output(0, n.flag("fmod") ? fmod(n.input(0), n.input(1), n.loc())
                             : remainder(n.input(0), n.input(1), n.loc()));
}

void shift_bits(OnnxNode& n) {
  const std::string direction = n.text("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") {
    n.fail("its direction is '" + direction + "'; it must be LEFT or RIGHT");
  }
  const Tensor x = n.input(0), count = n.input(1);
  n.output(0, direction == "LEFT" ? bitwise_left_shift(x, count, n.loc())
                                  : bitwise_right_shift(x, count, n.loc()));
}

/// What f is of, in versions before 7: b stands at `axis` of a, otherwise at its end.
template <void (*f)(OnnxNode&, const Tensor&, const Tensor&)>
void by_axis(OnnxNode& n) {
  const Tensor a = n.input(0);
  Tensor b = n.input(1);
  if (n.has_attribute("axis")) {
    const std::int64_t axis = n.axis_of(n.integer("axis", 0), a.rank());
    while (axis + b.rank() < a.rank()) b = unsqueeze(b, -1, n.loc());
  }
  f(n, a, b);
}
/// Of any operands, which broadcast as in NumPy.
template <void (*f)(OnnxNode&, const Tensor&, const Tensor&)>
void broadcast(OnnxNode& n) {
  f(n, n.input(0), n.input(1));
}
template <Tensor (*f)(const Arg&, const Arg&, Loc)>
void by_function(OnnxNode& n, const Tensor& a, const Tensor& b) {
  n.output(0, f(a, b, n.loc()));
}

void find_infinities(OnnxNode& n) {
  n.output(0, isinf(n.input(0), n.flag("detect_positive", true), n.flag("detect_negative", true),
                    n.loc()));
}

void choose(OnnxNode& n) { n.output(0, where(n.input(0), n.input(1), n.input(2), n.loc())); }

}  // namespace

std::span<const OnnxRule> elementwise_onnx_rules() {
  static constexpr OnnxRule kRules[] = {
      {"Add", 1, by_axis<by_function<add>>},
      {"Add", 7, onnx_binary<add>},
      {"Sub", 1, by_axis<by_function<sub>>},
      {"Sub", 7, onnx_binary<sub>},
      {"Mul", 1, by_axis<by_function<mul>>},
      {"Mul", 7, onnx_binary<mul>},
      {"Div", 1, by_axis<divide>},
      {"Div", 7, broadcast<divide>},
      {"Pow", 1, by_axis<power>},
      {"Pow", 7, broadcast<power>},
      {"Sum", 6, fold<add>},
      {"Max", 6, fold<maximum>},
      {"Min", 6, fold<minimum>},
      {"Mean", 6, mean_of_inputs},
      {"And", 1, by_axis<by_function<logical_and>>},
      {"And", 7, onnx_binary<logical_and>},
      {"Or", 1, by_axis<by_function<logical_or>>},
      {"Or", 7, onnx_binary<logical_or>},
      {"Xor", 1, by_axis<by_function<logical_xor>>},
      {"Xor", 7, onnx_binary<logical_xor>},
      {"Equal", 1, by_axis<by_function<eq>>},
      {"Equal", 7, onnx_binary<eq>},
      {"Greater", 1, by_axis<by_function<gt>>},
      {"Greater", 7, onnx_binary<gt>},
      {"Less", 1, by_axis<by_function<lt>>},
      {"Less", 7, onnx_binary<lt>},
      {"IsInf", 10, find_infinities},
      {"Reciprocal", 6, onnx_unary<reciprocal>},
      {"Not", 1, [](OnnxNode& n) { n.output(0, logical_not(n.input(0), n.loc())); }},
      {"Where", 9, choose},
      {"Clip", 6, clip_by_attributes},
      {"Clip", 11, clip_by_inputs},
      {"Cast", 6, cast_of},
      {"CastLike", 15, cast_like},
      {"BitCast", 26,
       [](OnnxNode& n) { n.output(0, bitcast(n.input(0), n.dtype("to", f32), n.loc())); }},
      {"Mod", 10, modulo},
      {"BitShift", 11, shift_bits},
      {"Floor", 6, onnx_unary<floor>},
      {"Ceil", 6, onnx_unary<ceil>},
      {"Round", 11, onnx_unary<round>},
      {"Gelu", 20, gelu_of},
  };
  return kRules;
}

}  // namespace dyad::ops
