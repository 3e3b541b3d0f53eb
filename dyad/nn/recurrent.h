#pragma once

#include <string>
#include <utility>

#include "dyad/nn/visitor.h"

namespace dyad::nn {

struct CellOptions {
  bool bias = true;
  DType dtype = f32;
};

struct RnnCellOptions {
  bool bias = true;
  std::string activation = "tanh";  ///< or "relu"
  DType dtype = f32;
};

// One step of the layers in rnn.h, for loops of a program's own. x is [n, in] and a state
// [n, hidden], or both without the axis n (one sample); a state that is undefined is zeros.

/// What a recurrent cell learns; all start evenly in +-1/sqrt(hidden), as in PyTorch.
struct CellParameters {
  CellParameters(std::string_view cell, std::int64_t gates, std::int64_t in, std::int64_t hidden,
                 const CellOptions& options, Loc loc);
  void visit(Visitor& v) {
    v("weight_ih", weight_ih);
    v("weight_hh", weight_hh);
    v("bias_ih", bias_ih);
    v("bias_hh", bias_hh);
  }

  Parameter weight_ih;         ///< [gates * hidden, in]
  Parameter weight_hh;         ///< [gates * hidden, hidden]
  Parameter bias_ih, bias_hh;  ///< [gates * hidden], or undefined
};

/// One step of Elman's network: h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu of that.
class RNNCell : public CellParameters {
 public:
  /// ValueError for an activation that is neither "tanh" nor "relu".
  RNNCell(std::int64_t in, std::int64_t hidden, const RnnCellOptions& options = {},
          Loc loc = std::source_location::current());
  /// x[n, in], h[n, hidden] -> the next h.
  Tensor operator()(const Tensor& x, const Tensor& h = {},
                    Loc loc = std::source_location::current()) const;

  bool is_relu;
};

/// One step of long short-term memory (Hochreiter and Schmidhuber, 1997): gates i, f, g, o in this
/// order; c' = sigmoid(f) * c + sigmoid(i) * tanh(g), h' = sigmoid(o) * tanh(c').
class LSTMCell : public CellParameters {
 public:
  LSTMCell(std::int64_t in, std::int64_t hidden, const CellOptions& options = {},
           Loc loc = std::source_location::current())
      : CellParameters("LSTMCell", 4, in, hidden, options, loc) {}
  /// x[n, in], h[n, hidden], c[n, hidden] -> the next h and c.
  std::pair<Tensor, Tensor> operator()(const Tensor& x, const Tensor& h = {}, const Tensor& c = {},
                                       Loc loc = std::source_location::current()) const;
};

/// One step of a gated recurrent unit (Cho et al., 2014): gates r, z, n in this order;
/// n = tanh(x part + sigmoid(r) * h part), h' = (1 - sigmoid(z)) * n + sigmoid(z) * h.
class GRUCell : public CellParameters {
 public:
  GRUCell(std::int64_t in, std::int64_t hidden, const CellOptions& options = {},
          Loc loc = std::source_location::current())
      : CellParameters("GRUCell", 3, in, hidden, options, loc) {}
  /// x[n, in], h[n, hidden] -> the next h.
  Tensor operator()(const Tensor& x, const Tensor& h = {},
                    Loc loc = std::source_location::current()) const;
};

}  // namespace dyad::nn
