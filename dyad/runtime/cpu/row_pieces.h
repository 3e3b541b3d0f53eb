#pragma once

#include <cstdint>

#include "dyad/core/dtype.h"
#include "dyad/runtime/cpu/lru.h"

namespace dyad::runtime::cpu {

/// Which of the library's products are put together from two pieces, some rows each, because making
/// a primitive for all of their rows takes longer: those whose numbers of rows keep changing, as
/// batches and sequences do. A row's bits are the same either way. Belongs to one thread.
class RowPieces {
 public:
  struct Product {
    DType dtype = DType::f32;
    std::int64_t rows = 0, n = 0, k = 0;
    int threads = 1;
  };

  /// Of how many rows the last piece is, or 0 where the product is to get a primitive of its own.
  /// `others` is what tells it from products that differ in more than rows; asked each time that
  /// there is no primitive.
  std::int64_t last_rows(const PlanKey& others, const Product& product);

  /// Calls run(first, count) for the rows of both pieces, of which the first has a multiple of the
  /// last's; the last shares rows with it unless they divide. Without pieces for all rows.
  template <class Run>
  static void each(std::int64_t rows, std::int64_t last, Run run) {
    if (last == 0) return run(0, rows);
    run(0, rows / last * last);
    run(rows - last, last);
  }

 private:
  Lru<int> times_{1024};           // that a product was put together
  Lru<int> numbers_of_rows_{256};  // of products that are the same otherwise
};

}  // namespace dyad::runtime::cpu
