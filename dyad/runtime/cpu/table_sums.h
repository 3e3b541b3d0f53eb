#pragma once

#include <cstdint>
#include <span>

namespace dyad::runtime::cpu {

/// Rows of a table that are added up.
template <class T>
struct TableRows {
  const T* table = nullptr;
  std::int64_t width = 0;
  std::span<const std::int64_t> index;
  const T* scale = nullptr;    ///< of each row; null: 1
  std::int64_t left_out = -1;  ///< an index that does not count
  std::int64_t known = 0;      ///< indices behind `index` whose rows are wanted next
};

/// sums[width] = the rows, added one by one in the order of `index`.
void sum_table_rows(const TableRows<float>& rows, float* sums);
void sum_table_rows(const TableRows<double>& rows, double* sums);

}  // namespace dyad::runtime::cpu
