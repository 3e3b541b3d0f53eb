#pragma once

#include <cstdint>
#include <string>

#include "dyad/core/dim.h"

namespace dyad::ops {

/// `embedding(weight[v, d], index[...])` -> [..., d]: the rows that index names. The row at
/// padding_idx (below 0: none) gets no gradient. sparse: backward() leaves the gradient as the rows
/// that were read.
struct EmbeddingAttrs {
  std::int64_t padding_idx = -1;
  bool sparse = false;
};

/// `embedding_backward(grad[..., d], index[...])` -> [rows, d]: grad[i] added at row index[i], in
/// row-major order of index; nothing is added at padding_idx. Indices from 0 to rows - 1.
struct EmbeddingBackwardAttrs {
  Dim rows;
  std::int64_t padding_idx = -1;
};

/// `embedding_bag(weight[v, d], index, offsets or absent, per_sample_weights or absent)` ->
/// [bags, d]: the rows of each bag combined by `mode` (sum, mean or max). index[bags, n] has a bag
/// in each row; index[n] with offsets[bags] has bag b from offsets[b] to offsets[b + 1] (or to the
/// end; with include_last_offset offsets has bags + 1 elements). Indices equal to padding_idx do
/// not count. Bags without elements give 0. sparse: as in EmbeddingAttrs.
/// `embedding_bag_backward(grad[bags, d], weight, index, offsets, per_sample_weights)` ->
/// gradients of weight and of per_sample_weights ([0] when absent).
struct EmbeddingBagAttrs {
  std::string mode = "mean";
  bool include_last_offset = false;
  std::int64_t padding_idx = -1;
  bool sparse = false;
};

}  // namespace dyad::ops
