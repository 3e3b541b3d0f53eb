#pragma once

#include "dyad/ir/graph.h"

namespace dyad {
class Gradient;
}

// Random numbers in the graphs of control operators: what was drawn once for a gradient to use
// again.
namespace dyad::exec {

/// The node itself, if it draws from the generator or sets it, or one that does in the graphs that
/// it holds, and those inside of these; null where there is none.
[[nodiscard]] const Node* find_drawing(const Node& node);

/// The gradient of a control node with functions that draw: that of one that does the same with the
/// keys that this one drew, which become results of it. False where nothing inside draws. GradError
/// where they cannot be results: those of a while_loop's condition, and of a while_loop in the body
/// of another loop.
bool drawing_grad(Gradient& g);

}  // namespace dyad::exec
