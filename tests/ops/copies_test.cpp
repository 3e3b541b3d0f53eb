#include <gtest/gtest.h>

#include <cstdint>

#include "dyad/core/tensor_impl.h"
#include "dyad/ops/ops.h"

namespace dyad::testing {
namespace {

/// Matrices of whole tiles, of parts of them and of what is left over.
TEST(Copies, TransposeWhatHasAnySize) {
  for (const DType dtype : {u8, f16, f32, f64}) {
    for (const std::int64_t rows : {3, 16, 21, 64, 100}) {
      for (const std::int64_t columns : {4, 16, 33, 64, 147}) {
        const Tensor x =
            to(reshape(remainder(arange(rows * columns), 251), {rows, columns}), dtype);
        const Tensor turned = to(contiguous(transpose(x, 0, 1)), i64);
        const auto* found = reinterpret_cast<const std::int64_t*>(turned.impl()->data);
        std::int64_t wrong = 0;
        for (std::int64_t i = 0; i < columns; ++i) {
          for (std::int64_t j = 0; j < rows; ++j) {
            wrong += found[i * rows + j] != (j * columns + i) % 251 ? 1 : 0;
          }
        }
        EXPECT_EQ(wrong, 0) << name_of(dtype) << " " << rows << " " << columns;
      }
    }
  }
}

}  // namespace
}  // namespace dyad::testing
