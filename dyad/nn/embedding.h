#pragma once

#include <optional>

#include "dyad/nn/visitor.h"
#include "dyad/ops/embedding.h"

namespace dyad::nn {

struct EmbeddingOptions {
  /// A row that starts as zeros and gets no gradient; negative from the end.
  std::optional<std::int64_t> padding_idx = {};
  /// The gradient holds the rows that were read alone: see sparse_embedding().
  bool sparse = false;
  DType dtype = f32;
  /// Above 0: rows that are read are first scaled down, in place, to at most this length in the
  /// norm of norm_type.
  double max_norm = 0;
  double norm_type = 2;
};

/// The rows of a table that indices name: i64 or i32 [...] -> [..., width]. Starts normally
/// distributed.
class Embedding {
 public:
  /// ValueError for sizes below 1, IndexError for a padding_idx beyond the table.
  Embedding(std::int64_t count, std::int64_t width, const EmbeddingOptions& options = {},
            Loc loc = std::source_location::current());
  Tensor operator()(const Tensor& indices, Loc loc = std::source_location::current()) const;
  void visit(Visitor& v) { v("weight", weight); }

  Parameter weight;  ///< [count, width]
  std::optional<std::int64_t> padding_idx;
  bool sparse;
  double max_norm, norm_type;

 private:
  void shorten_rows(const Tensor& indices, Loc loc) const;
};

struct EmbeddingBagOptions {
  BagMode mode = BagMode::mean;
  bool include_last_offset = false;
  /// An index that does not count, whose row starts as zeros; negative from the end.
  std::optional<std::int64_t> padding_idx = {};
  /// The gradient holds the rows that were read alone: see sparse_embedding().
  bool sparse = false;
  DType dtype = f32;
};

/// The rows of a table that each bag of indices names, combined: see embedding_bag().
class EmbeddingBag {
 public:
  /// ValueError for sizes below 1, IndexError for a padding_idx beyond the table.
  EmbeddingBag(std::int64_t count, std::int64_t width, const EmbeddingBagOptions& options = {},
               Loc loc = std::source_location::current());
  /// indices [bags, n], or [n] with offsets [bags] -> [bags, width].
  Tensor operator()(const Tensor& indices, const Tensor& offsets = {},
                    const Tensor& per_sample_weights = {},
                    Loc loc = std::source_location::current()) const;
  void visit(Visitor& v) { v("weight", weight); }

  Parameter weight;  ///< [count, width]
  BagMode mode;
  bool include_last_offset;
  std::optional<std::int64_t> padding_idx;
  bool sparse;
};

}  // namespace dyad::nn
