#pragma once

#include <vector>

#include "dyad/codegen/recipe.h"

namespace dyad::kernelgen {

/// What eager execution runs most: every pointwise and reduction row, in f32, f64, i64, i32 and
/// bool, with every value of attributes that are flags or dtypes and the defaults of the others.
/// Pointwise rows on contiguous operands and with some of them repeated, in f32 also with one of
/// any stride; reductions along rows and columns.
[[nodiscard]] std::vector<codegen::KernelRecipe> common_recipes();

}  // namespace dyad::kernelgen
