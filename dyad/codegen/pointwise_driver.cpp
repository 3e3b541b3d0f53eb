#include <algorithm>

#include "dyad/codegen/driver.h"

namespace dyad::codegen {

void PointwiseDriver::run(const CompiledKernel& kernel, const KernelArgs& args, std::int64_t lo,
                          std::int64_t hi) {
  if (lo >= hi) return;
  const int operands = kernel.operands_, rank = args.rank;
  char* data[kMaxOperands];
  std::int64_t inner[kMaxOperands];
  if (rank <= 1) {
    for (int i = 0; i < operands; ++i) {
      inner[i] = rank == 0 ? 0 : args.strides[i] * kernel.sizes_[i];
      data[i] = static_cast<char*>(args.data[i]) + lo * inner[i];
    }
    kernel.code_.row(kernel.contexts_[0], data, inner, hi - lo, args.slots, args.flags);
    return;
  }

  std::int64_t coordinates[kMaxRank], strides[kMaxRank][kMaxOperands];
  const std::int64_t width = args.sizes[rank - 1];
  std::int64_t column = lo % width, row = lo / width;
  for (int d = rank - 2; d >= 0; --d) {
    coordinates[d] = row % args.sizes[d];
    row /= args.sizes[d];
  }
  for (int i = 0; i < operands; ++i) {
    inner[i] = args.strides[i * rank + rank - 1] * kernel.sizes_[i];
    data[i] = static_cast<char*>(args.data[i]) + column * inner[i];
    for (int d = 0; d < rank - 1; ++d) {
      strides[d][i] = args.strides[i * rank + d] * kernel.sizes_[i];
      data[i] += coordinates[d] * strides[d][i];
    }
  }
  for (;;) {
    const std::int64_t n = std::min(width - column, hi - lo);
    kernel.code_.row(kernel.contexts_[0], data, inner, n, args.slots, args.flags);
    lo += n;
    if (lo >= hi) return;
    int d = rank - 2;
    while (coordinates[d] + 1 == args.sizes[d]) {
      for (int i = 0; i < operands; ++i) data[i] -= coordinates[d] * strides[d][i];
      coordinates[d--] = 0;
    }
    ++coordinates[d];
    for (int i = 0; i < operands; ++i) data[i] += strides[d][i] - column * inner[i];
    column = 0;
  }
}

}  // namespace dyad::codegen
