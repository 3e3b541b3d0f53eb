#pragma once

#include <cstdint>
#include <memory>

#include "dyad/core/tensor.h"
#include "dyad/runtime/cpu/gemm.h"

namespace dyad::runtime::cpu {

/// Products of one B[k, n] with many A[m, k], all rows dense, f32 or f64: B is brought once into
/// the layout that they are quickest in. Any thread may use it, one at a time.
class PackedProduct {
 public:
  /// `b` holds k rows of n, or its transpose. A constant's copy is shared by all that want it.
  PackedProduct(DType dtype, std::int64_t m, std::int64_t n, std::int64_t k, const void* b,
                std::int64_t b_row, bool transposed, bool is_constant = false);
  ~PackedProduct();
  PackedProduct(const PackedProduct&) = delete;
  PackedProduct& operator=(const PackedProduct&) = delete;

  /// C += A B.
  void add(const void* a, std::int64_t a_row, void* c, std::int64_t c_row);
  /// C = A B + bias[n].
  void set(const void* a, std::int64_t a_row, const void* bias, void* c, std::int64_t c_row);
  /// C = A B + A' B' + bias[n] for another product of as many rows and columns.
  void set(const void* a, std::int64_t a_row, PackedProduct& other, const void* other_a,
           std::int64_t other_row, const void* bias, void* c, std::int64_t c_row);

  /// Whether a product made now would be the same: B aside, and as many threads.
  [[nodiscard]] bool fits(std::int64_t m) const noexcept;

 private:
  struct Library;
  [[nodiscard]] Gemm plain(std::int64_t a_row, std::int64_t c_row) const;
  DType dtype_;
  std::int64_t m_, n_, k_;
  const void* b_;
  std::int64_t b_row_;
  bool transposed_;
  [[maybe_unused]] bool is_constant_;  // a build without the library packs nothing
  std::unique_ptr<Library> library_;
};

}  // namespace dyad::runtime::cpu
