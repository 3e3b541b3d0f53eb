#include "dyad/ops/registry.h"

namespace dyad::ops {

void register_builtin_ops() {
  static const bool done = [] {
    for (const auto rows :
         {arithmetic_rows(), compare_rows(), elementary_rows(), activation_rows(), reduce_rows(),
          extremes_rows(), views_rows(), slices_rows(), creation_rows(), indexing_rows(),
          linalg_rows(), conv_rows(), norm_rows(), loss_rows(), random_rows()}) {
      register_ops(rows);
    }
    return true;
  }();
  (void)done;
}

}  // namespace dyad::ops
