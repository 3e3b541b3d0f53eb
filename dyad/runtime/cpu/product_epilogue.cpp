#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "dyad/core/tensor_impl.h"
#include "dyad/ops/attrs/epilogue.h"
#include "dyad/runtime/cpu/copy.h"
#include "dyad/runtime/cpu/epilogue.h"
#include "dyad/runtime/cpu/gemm.h"
#include "dyad/runtime/cpu/kernels.h"
#include "dyad/runtime/cpu/lru.h"
#include "dyad/runtime/cpu/onednn.h"
#include "dyad/runtime/cpu/panel_product.h"
#include "dyad/runtime/cpu/row_pieces.h"
#include "dyad/runtime/cpu/tensor_data.h"
#include "dyad/runtime/threads.h"

// Products with a weight, in f32. A constant one lies in the library's own layout, and what follows
// the product is done before its result is stored.

namespace dyad::runtime::cpu {
namespace {

/// The operands of a call: rows of x and of the result are dense.
struct Product {
  Tensor x, weight, bias, out;
  std::int64_t m, n, k, weight_row, weight_column;

  Product(const OpCall& call, bool transposed)
      : x(contiguous_copy(call.inputs[0])),
        weight(call.inputs[1]),
        bias(call.inputs[2].defined() ? contiguous_copy(call.inputs[2]) : Tensor()),
        out(call.outputs[0]) {
    const TensorImpl& w = *weight.impl();
    const std::size_t row = transposed ? 1 : 0;
    k = w.shape[row].number();
    n = w.shape[1 - row].number();
    m = n == 0 ? 0 : out.impl()->numel() / n;
    weight_row = w.strides[row];
    weight_column = w.strides[1 - row];
  }
  [[nodiscard]] const void* bias_data() const noexcept {
    return bias.defined() ? bias.impl()->data : nullptr;
  }
};

void run_plainly(const Product& p, const Epilogue& epilogue) {
  const Tensor sums = epilogue.is_none() ? p.out : make_empty(DType::f32, p.out.impl()->shape);
  gemm({.dtype = DType::f32,
        .m = p.m,
        .n = p.n,
        .k = p.k,
        .a_row = p.k,
        .a_column = 1,
        .b_row = p.weight_row,
        .b_column = p.weight_column,
        .c_row = p.n},
       p.x.impl()->data, p.weight.impl()->data, p.bias_data(), sums.impl()->data);
  if (epilogue.is_none()) return;
  apply_epilogue(epilogue, reinterpret_cast<const float*>(sums.impl()->data),
                 reinterpret_cast<float*>(p.out.impl()->data), p.m * p.n);
}

#ifndef DYAD_PLAIN_LOOPS

using dnnl::memory;

/// A product of the library, and the layout that it wants its weight in.
struct Planned {
  onednn::Held product;
  memory::desc packed;
};

/// What a step of a plan keeps: its weight in the layout that is wanted.
struct PackedWeight final : KernelMemo {
  std::shared_ptr<const memory> elements;

  [[nodiscard]] bool lies_in(const memory::desc& layout) const {
    return elements != nullptr && elements->get_desc() == layout;
  }
  void pack(const Product& p, const memory::desc& layout) {
    elements = onednn::packed_constant(
        p.weight, onednn::f32_matrix(p.k, p.n, p.weight_row, p.weight_column), layout);
  }
};

Planned plan_product(const Product& p, std::int64_t m, const Epilogue& epilogue) {
  const auto x = onednn::f32_matrix(m, p.k, p.k, 1), out = onednn::f32_matrix(m, p.n, p.n, 1),
             bias = onednn::f32_matrix(1, p.n, p.n, 1);
  const memory::desc weight = onednn::weight_layout(p.k, p.n);
  dnnl::primitive_attr attributes;
  attributes.set_post_ops(epilogue.post_ops());
  const auto wanted = p.bias.defined() ? dnnl::matmul::desc(x, weight, bias, out)
                                       : dnnl::matmul::desc(x, weight, out);
  const dnnl::matmul::primitive_desc pd(wanted, attributes, onednn::engine());
  // The bias is last, and left out where there is none.
  if (p.bias.defined()) {
    return {{dnnl::matmul(pd),
             {{DNNL_ARG_SRC, x},
              {DNNL_ARG_WEIGHTS, pd.weights_desc()},
              {DNNL_ARG_DST, out},
              {DNNL_ARG_BIAS, bias}}},
            pd.weights_desc()};
  }
  return {{dnnl::matmul(pd),
           {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, pd.weights_desc()}, {DNNL_ARG_DST, out}}},
          pd.weights_desc()};
}

void run_panels(const OpCall& call, const Product& p, const Epilogue& epilogue) {
  auto& weight = call.memo_as<PackedWeight>();
  const memory::desc layout = onednn::panel_layout(p.k, p.n, PanelProduct::kColumns);
  if (!weight.lies_in(layout)) {
    const LibraryTeam team(team_size());
    weight.pack(p, layout);
  }
  panel_product(
      {.m = p.m,
       .n = p.n,
       .factors = {.k = p.k,
                   .a = elements_of<const float>(p.x),
                   .a_row = p.k,
                   .panels = static_cast<const float*>(weight.elements->get_data_handle())},
       .bias = elements_of<const float>(p.bias),
       .c = elements_of<float>(p.out),
       .c_row = p.n,
       .epilogue = epilogue});
}

void run_library(const OpCall& call, const Product& p, const Epilogue& epilogue) {
  const double flops =
      2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
  const int threads = worth_a_team(flops) ? team_size() : 1;
  const LibraryTeam team(threads);
  const auto key_of = [&](std::int64_t rows) {
    PlanKey key{rows, p.n, p.k, threads, p.bias.defined()};
    epilogue.add_to(key);
    return key;
  };
  constexpr std::size_t kHeld = 256;
  thread_local Lru<Planned> plans(kHeld);
  thread_local RowPieces pieces;
  const std::int64_t last = plans.find(key_of(p.m)) != nullptr
                                ? 0
                                : pieces.last_rows(key_of(0), {DType::f32, p.m, p.n, p.k, threads});
  const auto *const x = elements_of<const float>(p.x), *const bias =
                                                           elements_of<const float>(p.bias);
  auto* const out = elements_of<float>(p.out);
  // What the first piece is added to the last one needs again.
  const std::int64_t shared = last > 0 && epilogue.adds ? p.m / last * last - (p.m - last) : 0;
  const std::vector<float> residual(out + (p.m - last) * p.n, out + (p.m - last + shared) * p.n);
  auto& weight = call.memo_as<PackedWeight>();
  RowPieces::each(p.m, last, [&](std::int64_t first, std::int64_t rows) {
    if (first > 0) std::ranges::copy(residual, out + first * p.n);
    Planned& planned = plans.get(key_of(rows), [&] { return plan_product(p, rows, epilogue); });
    if (!weight.lies_in(planned.packed)) weight.pack(p, planned.packed);
    planned.product.run({x + first * p.k, nullptr, out + first * p.n, bias},
                        {nullptr, weight.elements.get()});
  });
}

/// With a constant weight.
void run_packed(const OpCall& call, const Product& p, const Epilogue& epilogue) {
  try {
    (takes_panels(p.m, p.n, p.k) ? run_panels : run_library)(call, p, epilogue);
  } catch (const dnnl::error& error) {
    onednn::fail(error);
  }
}

#endif

void product_epilogue(const OpCall& call) {
  const auto& attrs = call.attrs_as<ops::ProductEpilogueAttrs>();
  const Tensor &residual = call.inputs[3], &out = call.outputs[0];
  if (out.impl()->numel() == 0) return;
  const Product product(call, attrs.transposed);
  const Epilogue epilogue =
      epilogue_of(attrs.activation, attrs.alpha, attrs.beta, residual.defined());
  if (residual.defined() && residual.impl()->data != out.impl()->data) copy_tensor(residual, out);
#ifndef DYAD_PLAIN_LOOPS
  if (call.is_constant(1) && product.k > 0) return run_packed(call, product, epilogue);
#endif
  run_plainly(product, epilogue);
}

}  // namespace

std::span<const NamedKernel> product_epilogue_kernels() {
  static constexpr NamedKernel kernels[] = {
      {"product_epilogue",
       {product_epilogue, nullptr, /*in_place=*/false, /*takes_over=*/3, /*packs=*/1}}};
  return kernels;
}

}  // namespace dyad::runtime::cpu
