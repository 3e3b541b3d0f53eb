#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "dyad/core/tensor_impl.h"
#include "dyad/ir/graph_evaluator.h"
#include "dyad/ir/graph_ops.h"

namespace dyad::testing {

/// A few operators of every kind that graphs tell apart, with rules for types only. They are in the
/// registry under their names while the test program runs.
struct SumAttrs {
  Ints axes;
  bool keepdim = false;
};
struct TransposeAttrs {
  std::int64_t a = 0;
  std::int64_t b = 1;
};
/// One attribute of each type.
struct EveryAttrs {
  bool flag = false;
  std::int64_t count = 0;
  double rate = 0;
  std::string note;
  DType dtype = DType::f32;
  Dim size;
  Ints axes;
  Shape shape;
  Tensor value;
};
struct ReshapeAttrs {
  Shape shape;
};

const OpInfo& op(std::string_view name);

template <class A = NoAttrs>
Tensor call(std::string_view name, std::initializer_list<Tensor> inputs, const A& attrs = {},
            Loc loc = std::source_location::current()) {
  std::vector<const Tensor*> refs;
  for (const Tensor& t : inputs) refs.push_back(&t);
  Tensor out;
  Evaluator::current().apply(op(name), refs, &attrs, std::span<Tensor>(&out, 1), loc);
  return out;
}

/// A concrete tensor of these elements.
Tensor values(std::vector<float> elements, Shape shape);
inline Tensor number(double x) { return Arg(x).tensor(); }

}  // namespace dyad::testing
