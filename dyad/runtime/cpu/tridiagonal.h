#pragma once

#include <cstdint>

namespace dyad::runtime::cpu {

/// The eigenvalues of a symmetric tridiagonal matrix in the place of its diagonal d[n], ascending;
/// e[n - 1] beside it is destroyed; and the eigenvectors z[n, n], by columns. By divide and conquer
/// (J. J. M. Cuppen, 1981), whose two halves run on threads of their own. 0, or not where they do
/// not converge.
template <class W>
int tridiagonal_eigenvectors(std::int64_t n, W* d, W* e, W* z);

}  // namespace dyad::runtime::cpu
