#include <utility>
#include <vector>

#include "dyad/codegen/iteration.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/ops/attrs/linalg.h"
#include "dyad/runtime/cpu/cast.h"
#include "dyad/runtime/cpu/copy.h"
#include "dyad/runtime/cpu/gemm.h"
#include "dyad/runtime/cpu/kernels.h"
#include "dyad/runtime/cpu/onednn.h"
#include "dyad/runtime/layout.h"
#include "dyad/runtime/library_calls.h"

bool dyad::runtime::multiplies(DType dtype) noexcept {
#ifdef DYAD_PLAIN_LOOPS
  static_cast<void>(dtype);
  return true;
#else
  return !is_narrow(dtype) || cpu::onednn::takes(dtype);
#endif
}

namespace dyad::runtime::cpu {
namespace {

/// Batch axes that only make A and C longer, because B is shared and rows follow one another,
/// become rows.
void fold_batch(Gemm& g) {
  while (!g.batch.empty() && g.b_batch.back() == 0) {
    if (g.m == 1) {
      g.a_row = g.a_batch.back();
      g.c_row = g.c_batch.back();
    } else if (g.a_batch.back() != g.m * g.a_row || g.c_batch.back() != g.m * g.c_row) {
      return;
    }
    g.m *= g.batch.back();
    for (Ints* list : {&g.batch, &g.a_batch, &g.b_batch, &g.c_batch}) list->pop_back();
  }
}

/// The axes outside the matrices, as few as they can be.
void set_batch(Gemm& g, std::span<const std::int64_t> sizes, const Strides& a, const Strides& b,
               const Strides& c) {
  codegen::Iteration space(sizes);
  for (const Strides* strides : {&a, &b, &c}) space.add(*strides);
  space.collapse();
  g.batch = Ints(space.sizes());
  Ints* const batches[] = {&g.a_batch, &g.b_batch, &g.c_batch};
  for (int operand = 0; operand < 3; ++operand) {
    for (int axis = 0; axis < space.rank(); ++axis) {
      batches[operand]->push_back(space.stride(operand, axis));
    }
  }
  fold_batch(g);
}

/// Describes a product of the last two axes of a and b into a dense c.
Gemm describe(const TensorImpl& a, const TensorImpl& b, const TensorImpl& c, bool transpose_a,
              bool transpose_b) {
  const std::size_t ra = a.shape.size(), rb = b.shape.size(), rc = c.shape.size();
  Gemm g;
  g.dtype = c.dtype;
  g.m = c.shape[rc - 2].number();
  g.n = c.shape[rc - 1].number();
  g.k = a.shape[transpose_a ? ra - 2 : ra - 1].number();
  g.a_row = a.strides[ra - 2];
  g.a_column = a.strides[ra - 1];
  g.b_row = b.strides[rb - 2];
  g.b_column = b.strides[rb - 1];
  if (transpose_a) std::swap(g.a_row, g.a_column);
  if (transpose_b) std::swap(g.b_row, g.b_column);
  g.c_row = g.n;

  const auto sizes = c.shape.numbers().first(rc - 2);
  const auto batch_strides = [&](const TensorImpl& t) {
    const auto outer = t.shape.numbers().first(t.shape.size() - 2);
    return broadcast_strides(outer, std::span(t.strides.data(), outer.size()), sizes);
  };
  set_batch(g, sizes, batch_strides(a), batch_strides(b), batch_strides(c));
  return g;
}

// What the pass widen_calls makes of products that go through f32 is the same product of the same
// copies.

void matmul(const OpCall& call) {
  const auto& attrs = call.attrs_as<ops::MatmulAttrs>();
  const Tensor& out = call.outputs[0];
  if (out.impl()->numel() == 0) return;
  if (!multiplies(out.dtype())) {
    const Tensor a = widened_as_it_lies(call.inputs[0]), b = widened_as_it_lies(call.inputs[1]);
    const Tensor c = make_empty(DType::f32, out.impl()->shape);
    gemm(describe(*a.impl(), *b.impl(), *c.impl(), attrs.transpose_a, attrs.transpose_b),
         a.impl()->data, b.impl()->data, nullptr, c.impl()->data);
    narrow(c, out);
    return;
  }
  const TensorImpl &a = *call.inputs[0].impl(), &b = *call.inputs[1].impl();
  gemm(describe(a, b, *out.impl(), attrs.transpose_a, attrs.transpose_b), a.data, b.data, nullptr,
       out.impl()->data);
}

/// x[..., k] weight[n, k]^T + bias[n]: the axes of x before the last are rows.
void multiply_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& out) {
  const TensorImpl &w = *weight.impl(), &c = *out.impl(), &left = *x.impl();
  Gemm g;
  g.dtype = c.dtype;
  g.m = 1;
  g.n = w.shape[0].number();
  g.k = w.shape[1].number();
  g.a_column = left.strides.back();
  g.a_row = g.k;
  g.c_row = g.n;
  g.b_row = w.strides[1];
  g.b_column = w.strides[0];
  const std::size_t outer = left.shape.size() - 1;
  const auto sizes = left.shape.numbers().first(outer);
  set_batch(g, sizes, Strides(std::span(left.strides.data(), outer)), Strides(outer, 0),
            Strides(std::span(c.strides.data(), outer)));
  const Tensor dense_bias = bias.defined() ? contiguous_copy(bias) : Tensor();
  gemm(g, left.data, w.data, bias.defined() ? dense_bias.impl()->data : nullptr, c.data);
}

void linear(const OpCall& call) {
  const Tensor &out = call.outputs[0], &bias = call.inputs[2];
  if (out.impl()->numel() == 0) return;
  if (!multiplies(out.dtype())) {
    const Tensor c = make_empty(DType::f32, out.impl()->shape);
    multiply_linear(widened_as_it_lies(call.inputs[0]), widened_as_it_lies(call.inputs[1]),
                    bias.defined() ? widened_as_it_lies(bias) : Tensor(), c);
    narrow(c, out);
    return;
  }
  multiply_linear(call.inputs[0], call.inputs[1], bias, out);
}

}  // namespace

std::span<const NamedKernel> matmul_kernels() {
  static constexpr NamedKernel kernels[] = {{"matmul", {.run = matmul, .cannot_fail = true}},
                                            {"linear", {.run = linear, .cannot_fail = true}}};
  return kernels;
}

}  // namespace dyad::runtime::cpu
