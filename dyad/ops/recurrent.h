#pragma once

#include <string>

#include "dyad/core/tensor.h"

namespace dyad {

// One direction of one recurrent layer over a whole sequence; nn::RNN, nn::LSTM and nn::GRU make
// deep and bidirectional ones of it. x is [t, n, in]; weights and biases have PyTorch's layout and
// order of gates: weight_ih[g h, in], weight_hh[g h, h], bias_ih and bias_hh [g h] or undefined.
// Floating, one dtype; f16 and bf16 are computed in f32. The step's product with x is one for all
// steps; the first gradient is a kernel too, higher ones go through other operators. ShapeError,
// DTypeError, ValueError.

struct RecurrentArgs {
  /// i64 or i32 [n]: how many steps each sample has, 0 to t; all t when undefined. Results beyond
  /// are 0.
  Tensor lengths = {};
  Tensor h0 = {};  ///< [n, h]; zeros when undefined
  Tensor c0 = {};  ///< lstm: [n, h]; zeros when undefined
  /// lstm: [3 h], weights of the cell in the gates i, o, f (Gers and Schmidhuber, 2000), or
  /// undefined.
  Tensor peephole = {};
  bool reverse = false;  ///< from each sample's last step to its first
  /// Names of ONNX's activations in small letters with their numbers, "sigmoid tanh
  /// scaled_tanh(1.5, 0.5)": rnn 1, gru 2 (r and z; n), lstm 3 (i, f and o; g; the cell's
  /// output). Empty: sigmoid for gates, tanh otherwise. relu, tanh, sigmoid, affine, leaky_relu,
  /// thresholded_relu, scaled_tanh, hard_sigmoid, elu, softsign, softplus.
  std::string activations = "";
  double clip = 0;                  ///< bound of what goes into the activations of gates; 0: none
  bool linear_before_reset = true;  ///< gru: r multiplies weight_hh h + bias_hh, not h
  bool input_forget = false;        ///< lstm: f is 1 - i
};

struct RecurrentResult {
  Tensor y;  ///< [t, n, h]: h of every step
  Tensor h;  ///< [n, h]: after each sample's last step
  Tensor c;  ///< lstm: the same of the cell
};

/// h' = f(weight_ih x + bias_ih + weight_hh h + bias_hh) (Elman, 1990).
[[nodiscard]] RecurrentResult rnn(const Tensor& x, const Tensor& weight_ih, const Tensor& weight_hh,
                                  const Tensor& bias_ih = {}, const Tensor& bias_hh = {},
                                  const RecurrentArgs& args = {},
                                  Loc loc = std::source_location::current());
/// Long short-term memory (Hochreiter and Schmidhuber, 1997), gates i, f, g, o:
/// c' = f c + i g, h' = o tanh(c').
[[nodiscard]] RecurrentResult lstm(const Tensor& x, const Tensor& weight_ih,
                                   const Tensor& weight_hh, const Tensor& bias_ih = {},
                                   const Tensor& bias_hh = {}, const RecurrentArgs& args = {},
                                   Loc loc = std::source_location::current());
/// Gated recurrent unit (Cho et al., 2014), gates r, z, n: h' = (1 - z) n + z h with
/// n = tanh(x part + r (weight_hh h + bias_hh)).
[[nodiscard]] RecurrentResult gru(const Tensor& x, const Tensor& weight_ih, const Tensor& weight_hh,
                                  const Tensor& bias_ih = {}, const Tensor& bias_hh = {},
                                  const RecurrentArgs& args = {},
                                  Loc loc = std::source_location::current());

}  // namespace dyad
