#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dyad/nn/visitor.h"
#include "dyad/ops/recurrent.h"

namespace dyad::nn {

struct RnnOptions {
  std::int64_t layers = 1;
  bool bias = true;
  bool batch_first = false;  ///< x and y are [n, t, ...] instead of [t, n, ...]
  double dropout = 0;        ///< in training, of what goes from each layer to the next
  bool bidirectional = false;
  /// Of every layer, see RecurrentArgs; RNN: "tanh" (default) or "relu" are PyTorch's.
  std::string activations = "";
  DType dtype = f32;
};

struct RnnState {
  Tensor h;       ///< [layers * directions, n, hidden]; zeros when undefined
  Tensor c = {};  ///< LSTM: the same
  /// i64 or i32 [n]: how many steps each sample has, 0 to t; all when undefined. Results beyond are
  /// 0, as when PyTorch packs and pads a sequence.
  Tensor lengths = {};
};

struct RnnResult {
  Tensor y;  ///< [t, n, directions * hidden]
  Tensor h;  ///< [layers * directions, n, hidden]: after each sample's last step
  Tensor c;  ///< LSTM: the same of the cells
};

/// Recurrent layers one after the other, each in one or both directions. Parameters have PyTorch's
/// names and layout (weight_ih_l0, weight_hh_l0_reverse...) and start evenly in +-1/sqrt(hidden).
class RecurrentNetwork {
 public:
  /// x[t, n, in] (or [t, in]: one sample, whose state and results have no axis n). ShapeError for a
  /// state of another number of layers.
  RnnResult operator()(const Tensor& x, const RnnState& state = {},
                       Loc loc = std::source_location::current()) const;
  void visit(Visitor& v);

  RnnOptions options;
  Mode mode;

 protected:
  /// ValueError for sizes below 1 or a dropout outside 0 to 1.
  RecurrentNetwork(std::string_view cell, std::int64_t gates, std::int64_t in, std::int64_t hidden,
                   const RnnOptions& options, Loc loc);

 private:
  struct Direction {
    std::string suffix;  ///< l0, l0_reverse...
    Parameter weight_ih, weight_hh, bias_ih, bias_hh;
  };
  [[nodiscard]] std::size_t directions() const noexcept { return options.bidirectional ? 2 : 1; }
  void check_state(const Tensor& state, std::string_view name, bool one_sample, Loc loc) const;

  std::string cell_;
  std::vector<Direction> parts_;  // layer by layer
};

/// Elman's network: h' = tanh(W_ih x + b_ih + W_hh h + b_hh). See rnn().
class RNN : public RecurrentNetwork {
 public:
  RNN(std::int64_t in, std::int64_t hidden, const RnnOptions& options = {},
      Loc loc = std::source_location::current())
      : RecurrentNetwork("rnn", 1, in, hidden, options, loc) {}
};

/// Long short-term memory. See lstm().
class LSTM : public RecurrentNetwork {
 public:
  LSTM(std::int64_t in, std::int64_t hidden, const RnnOptions& options = {},
       Loc loc = std::source_location::current())
      : RecurrentNetwork("lstm", 4, in, hidden, options, loc) {}
};

/// Gated recurrent units. See gru().
class GRU : public RecurrentNetwork {
 public:
  GRU(std::int64_t in, std::int64_t hidden, const RnnOptions& options = {},
      Loc loc = std::source_location::current())
      : RecurrentNetwork("gru", 3, in, hidden, options, loc) {}
};

}  // namespace dyad::nn
