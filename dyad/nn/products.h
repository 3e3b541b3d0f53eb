#pragma once

#include "dyad/nn/visitor.h"

namespace dyad::nn {

struct BilinearOptions {
  bool bias = true;
  DType dtype = f32;
};

/// a^T weight[o] b + bias[o] for each o: a[..., in1], b[..., in2] -> [..., out], see bilinear().
/// Starts evenly in +-1/sqrt(in1).
class Bilinear {
 public:
  /// ValueError for sizes below 1.
  Bilinear(std::int64_t in1, std::int64_t in2, std::int64_t out,
           const BilinearOptions& options = {}, Loc loc = std::source_location::current());
  Tensor operator()(const Tensor& a, const Tensor& b,
                    Loc loc = std::source_location::current()) const;
  void visit(Visitor& v) {
    v("weight", weight);
    v("bias", bias);
  }

  Parameter weight;  ///< [out, in1, in2]
  Parameter bias;    ///< [out], or undefined
};

/// cosine_similarity(a, b, axis, eps)
struct CosineSimilarity {
  std::int64_t axis = 1;
  double eps = 1e-8;
  Tensor operator()(const Tensor& a, const Tensor& b,
                    Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
/// pairwise_distance(a, b, p, eps, keepdim)
struct PairwiseDistance {
  double p = 2;
  double eps = 1e-6;
  bool keepdim = false;
  Tensor operator()(const Tensor& a, const Tensor& b,
                    Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};

}  // namespace dyad::nn
