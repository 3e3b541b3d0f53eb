#pragma once

#include "dyad/ir/onnx_emitter.h"
#include "dyad/ir/onnx_node.h"
#include "dyad/ops/attrs/recurrent.h"

namespace dyad::ops {

/// Writes a recurrent layer as ONNX's RNN, LSTM or GRU.
void write_recurrent(OnnxEmitter& e, const RecurrentAttrs& attrs);

/// What an LSTM node means, with x [t, n, in] or as its layout says, W [directions, 4 h, in] and R
/// [directions, 4 h, h] from elsewhere than its first inputs.
void read_lstm(OnnxNode& n, const Tensor& x, const Tensor& weight, const Tensor& recurrence);

}  // namespace dyad::ops
