#pragma once

#include "dyad/nn/visitor.h"

namespace dyad::nn {

struct LinearOptions {
  bool bias = true;
  DType dtype = f32;
};

/// y = x @ weight^T + bias: x[..., in] -> [..., out]. Starts evenly in +-1/sqrt(in).
class Linear {
 public:
  /// ValueError for sizes below 1.
  Linear(std::int64_t in, std::int64_t out, const LinearOptions& options = {},
         Loc loc = std::source_location::current());
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor& v) {
    v("weight", weight);
    v("bias", bias);
  }

  Parameter weight;  ///< [out, in]
  Parameter bias;    ///< [out], or undefined
};

}  // namespace dyad::nn
