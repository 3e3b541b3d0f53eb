#pragma once

#include <cstdint>
#include <memory>

#include "dyad/core/tensor.h"

namespace dyad::runtime::cpu {

/// C += A B for one B[k, n] and many A[m, k], all rows dense, f32 or f64: B is brought into the
/// library's own layout once.
class PackedProduct {
 public:
  /// `b` holds k rows of n, or its transpose.
  PackedProduct(DType dtype, std::int64_t m, std::int64_t n, std::int64_t k, const void* b,
                std::int64_t b_row, bool transposed);
  ~PackedProduct();
  PackedProduct(const PackedProduct&) = delete;
  PackedProduct& operator=(const PackedProduct&) = delete;

  void add(const void* a, std::int64_t a_row, void* c, std::int64_t c_row);

 private:
  struct Library;
  DType dtype_;
  std::int64_t m_, n_, k_;
  const void* b_;
  std::int64_t b_row_;
  bool transposed_;
  std::unique_ptr<Library> library_;
};

}  // namespace dyad::runtime::cpu
