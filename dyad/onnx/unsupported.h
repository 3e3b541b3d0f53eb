#pragma once

#include "dyad/base/error.h"

namespace dyad::onnx {

/// A valid model that needs what Dyad does not have: operators, element types, forms of them.
class UnsupportedError : public OnnxError {
  using OnnxError::OnnxError;
};

}  // namespace dyad::onnx
