#pragma once

namespace dyad {
class Gradient;
}

// Gradient rules of the operators that hold graphs, as graphs again.
namespace dyad::exec {

void cond_grad(Gradient& g);
void scan_grad(Gradient& g);
void while_grad(Gradient& g);
void while_states_grad(Gradient& g);

}  // namespace dyad::exec
