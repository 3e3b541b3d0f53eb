#include "dyad/runtime/cpu/packed_product.h"

#include <optional>

#include "dyad/runtime/cpu/gemm.h"
#include "dyad/runtime/cpu/onednn.h"
#include "dyad/runtime/cpu/panel_product.h"
#include "dyad/runtime/threads.h"

namespace dyad::runtime::cpu {

#ifdef DYAD_PLAIN_LOOPS

struct PackedProduct::Library {
  void run(const PackedProduct&, const void*, std::int64_t, const void*, void*, std::int64_t) {}
};

#else

namespace {

int threads_for(std::int64_t m, std::int64_t n, std::int64_t k) noexcept {
  const double flops =
      2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  return worth_a_team(flops) ? team_size() : 1;
}

}  // namespace

struct PackedProduct::Library {
  /// C = A B + bias, or C += A B where bias is null.
  void run(const PackedProduct& p, const void* a, std::int64_t a_row, const void* bias, void* c,
           std::int64_t c_row) {
    try {
      if (in_panels) return run_panels(p, factors(p, a, a_row), {}, bias, c, c_row);
      const LibraryTeam team(threads);
      Prepared& product = bias != nullptr ? sets_ : adds_;
      prepare(p, product, a_row, c_row);
      product.primitive->run({a, nullptr, c, bias}, {nullptr, packed_.get(), nullptr, nullptr});
    } catch (const dnnl::error& error) {
      onednn::fail(error);
    }
  }

  static void run_panels(const PackedProduct& p, const PanelProduct::Factors& factors,
                         const PanelProduct::Factors& more, const void* bias, void* c,
                         std::int64_t c_row) {
    panel_product({.m = p.m_,
                   .n = p.n_,
                   .factors = factors,
                   .more = more,
                   .bias = static_cast<const float*>(bias),
                   .c = static_cast<float*>(c),
                   .c_row = c_row,
                   .epilogue = {.adds = bias == nullptr}});
  }

  int threads = 1;
  bool in_panels = false;

  /// For products in panels.
  PanelProduct::Factors factors(const PackedProduct& p, const void* a, std::int64_t a_row) {
    if (!packed_) {
      const LibraryTeam team(team_size());
      pack(p, onednn::panel_layout(p.k_, p.n_, PanelProduct::kColumns));
    }
    return {.k = p.k_,
            .a = static_cast<const float*>(a),
            .a_row = a_row,
            .panels = static_cast<const float*>(packed_->get_data_handle())};
  }

 private:
  void pack(const PackedProduct& p, const dnnl::memory::desc& layout) {
    const auto from =
        onednn::f32_matrix(p.k_, p.n_, p.transposed_ ? 1 : p.b_row_, p.transposed_ ? p.b_row_ : 1);
    packed_ = p.is_constant_ ? onednn::packed_constant(p.b_, from, layout)
                             : onednn::packed_copy(p.b_, from, layout);
  }

  /// A primitive for some strides of A and C.
  struct Prepared {
    std::optional<onednn::Held> primitive;
    std::int64_t a_row = 0, c_row = 0;
  };

  /// Makes it for these strides, and packs B.
  void prepare(const PackedProduct& p, Prepared& product, std::int64_t a_row, std::int64_t c_row) {
    if (product.primitive && a_row == product.a_row && c_row == product.c_row) return;
    const auto left = onednn::f32_matrix(p.m_, p.k_, a_row, 1),
               out = onednn::f32_matrix(p.m_, p.n_, c_row, 1);
    const bool adds = &product == &adds_;
    const auto bias = onednn::f32_matrix(1, p.n_, p.n_, 1);
    dnnl::primitive_attr attributes = onednn::on_any_thread();
    if (adds) {
      dnnl::post_ops sum;
      sum.append_sum(1.0f);
      attributes.set_post_ops(sum);
    }
    const auto right = packed_ ? packed_->get_desc() : onednn::weight_layout(p.k_, p.n_);
    const auto wanted =
        adds ? dnnl::matmul::desc(left, right, out) : dnnl::matmul::desc(left, right, bias, out);
    const dnnl::matmul::primitive_desc chosen(wanted, attributes, onednn::engine());
    if (!packed_) pack(p, chosen.weights_desc());
    using Argument = onednn::Held::Argument;
    const Argument a{DNNL_ARG_SRC, left}, b{DNNL_ARG_WEIGHTS, chosen.weights_desc()},
        c{DNNL_ARG_DST, out};
    product.primitive.emplace(dnnl::matmul(chosen),
                              adds
                                  ? std::initializer_list<Argument>{a, b, c}
                                  : std::initializer_list<Argument>{a, b, c, {DNNL_ARG_BIAS, bias}},
                              chosen.scratchpad_desc());
    product.a_row = a_row;
    product.c_row = c_row;
  }

  std::shared_ptr<const dnnl::memory> packed_;
  Prepared adds_, sets_;
};

#endif

PackedProduct::PackedProduct(DType dtype, std::int64_t m, std::int64_t n, std::int64_t k,
                             const void* b, std::int64_t b_row, bool transposed, bool is_constant)
    : dtype_(dtype),
      m_(m),
      n_(n),
      k_(k),
      b_(b),
      b_row_(b_row),
      transposed_(transposed),
      is_constant_(is_constant) {
#ifndef DYAD_PLAIN_LOOPS
  if (dtype != DType::f32 || m == 0 || n == 0 || k == 0) return;
  library_ = std::make_unique<Library>();
  library_->threads = threads_for(m, n, k);
  library_->in_panels = takes_panels(m, n, k);
#endif
}

bool PackedProduct::fits(std::int64_t m) const noexcept {
#ifndef DYAD_PLAIN_LOOPS
  if (library_) {
    return m == m_ && (library_->in_panels || library_->threads == threads_for(m_, n_, k_));
  }
#endif
  return m == m_;
}

PackedProduct::~PackedProduct() = default;

void PackedProduct::add(const void* a, std::int64_t a_row, void* c, std::int64_t c_row) {
  if (library_) return library_->run(*this, a, a_row, nullptr, c, c_row);
  gemm_loops(plain(a_row, c_row), a, b_, nullptr, c, /*accumulate=*/true);
}

void PackedProduct::set(const void* a, std::int64_t a_row, const void* bias, void* c,
                        std::int64_t c_row) {
  if (library_) return library_->run(*this, a, a_row, bias, c, c_row);
  gemm_loops(plain(a_row, c_row), a, b_, bias, c);
}

void PackedProduct::set(const void* a, std::int64_t a_row, PackedProduct& other,
                        const void* other_a, std::int64_t other_row, const void* bias, void* c,
                        std::int64_t c_row) {
#ifndef DYAD_PLAIN_LOOPS
  if (library_ && library_->in_panels && other.library_ && other.library_->in_panels) {
    try {
      return Library::run_panels(*this, library_->factors(*this, a, a_row),
                                 other.library_->factors(other, other_a, other_row), bias, c,
                                 c_row);
    } catch (const dnnl::error& error) {
      onednn::fail(error);
    }
  }
#endif
  set(a, a_row, bias, c, c_row);
  other.add(other_a, other_row, c, c_row);
}

Gemm PackedProduct::plain(std::int64_t a_row, std::int64_t c_row) const {
  Gemm g;
  g.dtype = dtype_;
  g.m = m_;
  g.n = n_;
  g.k = k_;
  g.a_row = a_row;
  g.a_column = 1;
  g.b_row = transposed_ ? 1 : b_row_;
  g.b_column = transposed_ ? b_row_ : 1;
  g.c_row = c_row;
  return g;
}

}  // namespace dyad::runtime::cpu
