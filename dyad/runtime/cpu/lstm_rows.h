#pragma once

#include <cstdint>

// A sample's step of an LSTM of the usual form (gates sigmoid, tanh elsewhere, no peepholes, not
// clipped, not coupled) in one pass over its row: the bits of the general form, whose operations
// read and write the row one by one.

namespace dyad::runtime::cpu {

/// What a step reads and writes: rows of n elements, `gates` of 4 n (i, f, g, o).
template <class T>
struct LstmRow {
  T* gates;  ///< their sums, then after their activations
  T* c;      ///< the cell before, then after the step
  T *h, *y, *cells;
};
void lstm_row(const LstmRow<float>& row, std::int64_t n);
void lstm_row(const LstmRow<double>& row, std::int64_t n);

/// What the gradient of a step reads and writes.
template <class T>
struct LstmGradients {
  const T *grad, *gates, *c;
  const T* before;  ///< c before the step; null for zeros
  T* sums;          ///< of the gates' sums; may be where the gates are
  T *dh, *dc;       ///< of h through later steps (then 0: the rest comes from `sums`), and of c
};
void lstm_row_gradients(const LstmGradients<float>& row, std::int64_t n);
void lstm_row_gradients(const LstmGradients<double>& row, std::int64_t n);

}  // namespace dyad::runtime::cpu
