#pragma once

#include <span>
#include <string_view>

#include "dyad/runtime/op_kernel.h"

namespace dyad::runtime::cpu {

/// A kernel and the operator that it runs.
struct NamedKernel {
  std::string_view op;
  OpKernel kernel;
};
using KernelFamily = std::span<const NamedKernel> (*)();

/// The CPU kernels of Dyad's opaque operators, by family: each function is in the file of its name.
std::span<const NamedKernel> indexing_kernels();
std::span<const NamedKernel> scatter_kernels();
std::span<const NamedKernel> cumulative_kernels();
std::span<const NamedKernel> sort_kernels();
std::span<const NamedKernel> search_kernels();
std::span<const NamedKernel> creation_kernels();
std::span<const NamedKernel> matmul_kernels();
std::span<const NamedKernel> product_epilogue_kernels();
std::span<const NamedKernel> solve_kernels();
std::span<const NamedKernel> decompositions_kernels();
std::span<const NamedKernel> conv_kernels();
std::span<const NamedKernel> conv_blocks_kernels();
std::span<const NamedKernel> norm_kernels();
std::span<const NamedKernel> batch_norm_kernels();
std::span<const NamedKernel> softmax_kernels();
std::span<const NamedKernel> pool_kernels();
std::span<const NamedKernel> grid_sample_kernels();
std::span<const NamedKernel> resample_kernels();
std::span<const NamedKernel> roi_kernels();
std::span<const NamedKernel> im2col_kernels();
std::span<const NamedKernel> random_kernels();
std::span<const NamedKernel> poisson_kernels();
std::span<const NamedKernel> variates_kernels();
std::span<const NamedKernel> checked_kernels();
std::span<const NamedKernel> embedding_kernels();
std::span<const NamedKernel> table_rows_kernels();
std::span<const NamedKernel> attention_kernels();
std::span<const NamedKernel> recurrent_kernels();
std::span<const NamedKernel> cache_kernels();
std::span<const NamedKernel> ctc_kernels();
std::span<const NamedKernel> ctc_beam_kernels();
std::span<const NamedKernel> whole_numbers_kernels();
std::span<const NamedKernel> fft_kernels();
std::span<const NamedKernel> integer_products_kernels();

[[nodiscard]] std::span<const KernelFamily> kernel_families();

}  // namespace dyad::runtime::cpu
