#pragma once

#include "dyad/ir/graph.h"

namespace dyad::autograd {

/// What contiguous() was given, where eagerly that is what it gives: its gradients add up in one
/// sum. No value stays none.
[[nodiscard]] inline Value itself(Value value) {
  while (value && value.node->is("contiguous")) value = value.node->inputs()[0];
  return value;
}

}  // namespace dyad::autograd
