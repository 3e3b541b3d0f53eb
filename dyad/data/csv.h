#pragma once

#include <string>
#include <vector>

#include "dyad/core/tensor.h"

namespace dyad::data {

struct CsvOptions {
  char delimiter = ',';
  bool header = false;  ///< the first line names the columns
  DType dtype = f32;    ///< f32, f64 or i64
  bool missing_as_nan =
      false;  ///< an empty field is NaN (floating dtypes only) instead of an error
};

/// A table of numbers.
struct CsvTable {
  std::vector<std::string> columns;  ///< names, when the file has a header
  Tensor values;                     ///< [rows, columns]
};

/// The numbers in a CSV file, plain or gzip. Fields may be quoted and surrounded by blanks; lines
/// end in LF or CRLF, blank ones are skipped. IoError naming the file, line, column and field that
/// is no number, or the line whose number of fields differs from the first's; DTypeError for
/// another dtype.
[[nodiscard]] CsvTable load_csv(const std::string& path, const CsvOptions& options = {},
                                Loc loc = std::source_location::current());

}  // namespace dyad::data
