#pragma once

#include "dyad/ir/onnx_emitter.h"
#include "dyad/ops/attrs/recurrent.h"

namespace dyad::ops {

/// Writes a recurrent layer as ONNX's RNN, LSTM or GRU.
void write_recurrent(OnnxEmitter& e, const RecurrentAttrs& attrs);

}  // namespace dyad::ops
