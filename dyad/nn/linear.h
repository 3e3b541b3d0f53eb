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

struct EmbeddingOptions {
  DType dtype = f32;
};

/// The rows of a table that indices name: i64 or i32 [...] -> [..., width]. Starts normally
/// distributed.
class Embedding {
 public:
  /// ValueError for sizes below 1.
  Embedding(std::int64_t count, std::int64_t width, const EmbeddingOptions& options = {},
            Loc loc = std::source_location::current());
  Tensor operator()(const Tensor& indices, Loc loc = std::source_location::current()) const;
  void visit(Visitor& v) { v("weight", weight); }

  Parameter weight;  ///< [count, width]
};

}  // namespace dyad::nn
