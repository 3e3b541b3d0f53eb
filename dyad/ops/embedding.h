#pragma once

#include "dyad/core/tensor.h"

namespace dyad {

/// The rows of `weight`[v, d] that `indices` (i64 or i32) name: [...] -> [..., d]. Negative indices
/// are an IndexError too: they are mistakes more often than rows from the end. The gradient is
/// dense.
[[nodiscard]] Tensor embedding(const Tensor& indices, const Tensor& weight,
                               Loc loc = std::source_location::current());
/// The same where row `padding_idx` (negative from the end) gets no gradient. IndexError when it is
/// out of range.
[[nodiscard]] Tensor embedding(const Tensor& indices, const Tensor& weight,
                               std::int64_t padding_idx, Loc loc = std::source_location::current());

/// embedding() for large tables: backward() accumulates the rows of the gradient that were read,
/// and no gradient of the whole table is made (see sparse_grad). padding_idx below 0: none.
/// Optimizers update these rows alone; those that cannot refuse it. grad() and second derivatives
/// get a dense one, as does a table that is not a leaf.
[[nodiscard]] Tensor sparse_embedding(const Tensor& indices, const Tensor& weight,
                                      std::int64_t padding_idx = -1,
                                      Loc loc = std::source_location::current());
/// Each row replaced by the sum of all rows whose index[n] (i64 or i32) is equal, in order: what an
/// optimizer of few rows updates with. rows[n, ...], floating.
[[nodiscard]] Tensor row_sums(const Tensor& rows, const Tensor& index,
                              Loc loc = std::source_location::current());
/// x[v, ...] with rows[n, ...] in the places that index[n] names; of equal indices the last counts.
/// Indices out of range are passed over.
[[nodiscard]] Tensor put_rows(const Tensor& x, const Tensor& index, const Tensor& rows,
                              Loc loc = std::source_location::current());

/// How the rows of a bag are combined.
enum class BagMode { sum, mean, max };

struct EmbeddingBagArgs {
  BagMode mode = BagMode::mean;
  /// Of the shape of indices and the dtype of weight: each row is multiplied by it; mode sum only.
  Tensor per_sample_weights = {};
  bool include_last_offset = false;  ///< offsets end with the number of indices
  std::int64_t padding_idx = -1;     ///< indices that do not count; below 0: none
  /// The gradient of weight holds the rows that were read alone: see sparse_embedding().
  bool sparse = false;
};

/// The rows of `weight`[v, d] that each bag of indices names, combined: -> [bags, d]. indices is
/// [bags, n] (offsets undefined), or [n] with offsets[bags], where each bag begins. Bags without
/// elements give 0. The maximum's gradient goes to the first of equal elements. ValueError for
/// offsets that decrease or exceed n, IndexError for an index out of range. As in PyTorch.
[[nodiscard]] Tensor embedding_bag(const Tensor& indices, const Tensor& weight,
                                   const Tensor& offsets = {}, const EmbeddingBagArgs& args = {},
                                   Loc loc = std::source_location::current());

}  // namespace dyad
