#include "dyad/runtime/cpu/kernels.h"

namespace dyad::runtime::cpu {

std::span<const KernelFamily> kernel_families() {
  // clang-format off: one a line
  static constexpr KernelFamily families[] = {
      indexing_kernels,
      scatter_kernels,
      cumulative_kernels,
      sort_kernels,
      search_kernels,
      creation_kernels,
      matmul_kernels,
      product_epilogue_kernels,
      solve_kernels,
      decompositions_kernels,
      conv_kernels,
      conv_blocks_kernels,
      norm_kernels,
      batch_norm_kernels,
      softmax_kernels,
      pool_kernels,
      grid_sample_kernels,
      resample_kernels,
      roi_kernels,
      im2col_kernels,
      random_kernels,
      poisson_kernels,
      variates_kernels,
      checked_kernels,
      embedding_kernels,
      table_rows_kernels,
      attention_kernels,
      recurrent_kernels,
      cache_kernels,
      ctc_kernels,
      ctc_beam_kernels,
      whole_numbers_kernels,
      fft_kernels,
      integer_products_kernels,
  };
  // clang-format on
  return families;
}

}  // namespace dyad::runtime::cpu
