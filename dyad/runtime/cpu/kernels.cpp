#include "dyad/runtime/cpu/kernels.h"

namespace dyad::runtime::cpu {

std::span<const KernelFamily> kernel_families() {
  static constexpr KernelFamily families[] = {indexing_kernels, creation_kernels, matmul_kernels,
                                              conv_kernels,     pool_kernels,     random_kernels};
  return families;
}

}  // namespace dyad::runtime::cpu
