#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dyad::ops {

/// One direction of one recurrent layer. Inputs: x[t, n, in], weight_ih[g h, in],
/// weight_hh[g h, h], bias_ih[g h], bias_hh[g h], lengths[n], h0[n, h], c0[n, h], peephole[3 h];
/// the last six may be absent. Gates, g of them, in PyTorch's order: rnn 1; lstm i, f, g, o; gru r,
/// z, n. Sample j takes steps 0 to lengths[j] - 1 (all t without lengths), backwards when reverse;
/// its results beyond are 0.
/// `recurrent_forward` -> y[t, n, h], the last h[n, h] and c[n, h] ([0] unless lstm), and what the
/// gradient needs: gates[t, n, g h] after their activations, and cells[t, n, h] (lstm: c; gru with
/// linear_before_reset: weight_hh h + bias_hh of the gate n; else [0]).
/// `recurrent_backward(grad y, grad h, grad c, the inputs, y, gates, cells)` -> the gradients of x
/// ([0] unless with_x), weight_ih, weight_hh, bias_ih, bias_hh, h0, c0, peephole ([0] where
/// absent).
struct RecurrentAttrs {
  std::string cell = "lstm";  ///< rnn, lstm or gru
  /// Names with their numbers, "sigmoid tanh scaled_tanh(1.5, 0.5)": rnn 1, gru 2 (r and z; n),
  /// lstm 3 (i, f and o; g; the cell's output). Empty: sigmoid for gates, tanh otherwise.
  std::string activations = "";
  double clip = 0;  ///< bound of what goes into the activations of gates; 0: none
  bool reverse = false;
  bool linear_before_reset = true;  ///< gru: r multiplies weight_hh h + bias_hh, not h
  bool input_forget = false;        ///< lstm: f is 1 - i
  bool with_x = true;
};

/// Gates of a cell of that name; 0 for another name.
[[nodiscard]] int gates_of(std::string_view cell) noexcept;

/// ONNX's activation functions of recurrent layers.
struct Activation {
  enum class Kind {
    relu,
    tanh,
    sigmoid,
    affine,            ///< alpha x + beta
    leaky_relu,        ///< alpha x below 0
    thresholded_relu,  ///< 0 up to alpha
    scaled_tanh,       ///< alpha tanh(beta x)
    hard_sigmoid,      ///< alpha x + beta between 0 and 1
    elu,               ///< alpha (e^x - 1) below 0
    softsign,          ///< x / (1 + |x|)
    softplus,          ///< log(1 + e^x)
  };
  Kind kind = Kind::tanh;
  double alpha = 0, beta = 0;
};

/// The activations of a cell; `problem` says what is wrong with the text, if anything is.
[[nodiscard]] std::vector<Activation> parse_activations(const RecurrentAttrs& attrs,
                                                        std::string& problem);

}  // namespace dyad::ops
