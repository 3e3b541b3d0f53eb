#pragma once

#include <cstdint>
#include <string_view>

#include "dyad/core/evaluator.h"
#include "dyad/ops/attrs/indexing.h"
#include "dyad/ops/op_support.h"

namespace dyad::ops {

/// target = Op(target, index, source), one of the operators that put elements at places of a copy
/// of their first input: at its places alone where nothing asks for a copy.
template <Operator Op>
Tensor& put_in_place(Tensor& target, std::int64_t axis, const Tensor& index, const Tensor& source,
                     std::string_view name, Loc loc) {
  const LocScope scope(loc);
  const IndexAttrs attrs{.axis = axis};
  const Tensor* inputs[] = {&target, &index, &source};
  if (Evaluator::current().try_in_place(op_info<Op>, inputs, &attrs, target)) return target;
  return overwrite(target, apply<Op>(attrs, loc, target, index, source), name, loc);
}

/// target = scatter_add(target, axis, index, source), for a target with axes.
Tensor& scatter_add_in_place(Tensor& target, std::int64_t axis, const Tensor& index,
                             const Tensor& source, std::string_view name, Loc loc);

}  // namespace dyad::ops
