#include "dyad/ir/onnx_node.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/norm.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/random.h"
#include "dyad/ops/registry.h"

// What ONNX's operators mean that draw random numbers. These come from the default generator
// (`manual_seed`), whatever seed a node names.

namespace dyad::ops {
namespace {

Tensor numbers_of(OnnxNode& n, bool is_normal, const Shape& shape, DType dtype) {
  return is_normal ? normal(shape, n.number("mean", 0), n.number("scale", 1), dtype, n.loc())
                   : uniform(shape, n.number("low", 0), n.number("high", 1), dtype, n.loc());
}

template <bool is_normal>
void of_shape(OnnxNode& n) {
  Shape shape;
  for (const std::int64_t size : n.integers("shape", {})) shape.push_back(size);
  n.output(0, numbers_of(n, is_normal, shape, n.dtype("dtype", f32)));
}

template <bool is_normal>
void like_input(OnnxNode& n) {
  const Tensor x = n.input(0);
  const DType dtype = n.dtype("dtype", x.dtype());
  n.output(0, numbers_of(n, is_normal, sizes_of(x, n.loc()), dtype));
}

/// The input holds logarithms of weights.
void draw_classes(OnnxNode& n) {
  const Tensor drawn = multinomial(softmax(n.input(0), 1, n.loc()), n.integer("sample_size", 1),
                                   /*replacement=*/true, n.loc());
  n.output(0, to(drawn, n.dtype("dtype", i32), n.loc()));
}

void draw_coins(OnnxNode& n) {
  const Tensor p = n.input(0);
  n.output(0, to(bernoulli(p, n.loc()), n.dtype("dtype", p.dtype()), n.loc()));
}

void inference_dropout(OnnxNode& n) {
  const Tensor x = n.input(0);
  n.output(0, x);
  if (!n.wants(1)) return;
  // Before version 10 the mask has the dtype of the input.
  n.output(1, full(sizes_of(x, n.loc()), 1, n.version() < 10 ? x.dtype() : boolean, n.loc()));
}

/// From version 12 on an input says whether the model trains.
void dropout_by_inputs(OnnxNode& n) {
  const bool training = n.constant_number(2, 0) != 0;
  const double ratio = n.constant_number(1, 0.5);
  if (!training || ratio == 0) {
    inference_dropout(n);
    return;
  }
  if (!(ratio > 0 && ratio < 1)) n.fail("its ratio must be at least 0 and less than 1");
  const Tensor x = n.input(0);
  const Tensor kept = ge(rand(sizes_of(x, n.loc()), f32, n.loc()), ratio, n.loc());
  n.output(0, where(kept, mul(x, 1 / (1 - ratio), n.loc()), 0, n.loc()));
  n.output(1, kept);
}

}  // namespace

std::span<const OnnxRule> random_onnx_rules() {
  static constexpr OnnxRule kRules[] = {
      {"RandomNormal", 1, of_shape<true>},   {"RandomNormalLike", 1, like_input<true>},
      {"RandomUniform", 1, of_shape<false>}, {"RandomUniformLike", 1, like_input<false>},
      {"Multinomial", 7, draw_classes},      {"Bernoulli", 15, draw_coins},
      {"Dropout", 1, inference_dropout},     {"Dropout", 12, dropout_by_inputs},
  };
  return kRules;
}

}  // namespace dyad::ops
