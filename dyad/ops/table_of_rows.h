#pragma once

#include "dyad/core/tensor.h"

namespace dyad::ops {

/// The gradient of a table of `count` rows, as embedding() has it, of which sparse_embedding() gave
/// rows[n, width], to be added at index[n].
[[nodiscard]] Tensor table_of_rows(const Tensor& index, const Tensor& rows, Dim count, Loc loc);

}  // namespace dyad::ops
