#include "dyad/nn/embedding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "dyad/autograd/grad_mode.h"
#include "dyad/base/error.h"
#include "dyad/nn/checks.h"
#include "dyad/nn/init.h"
#include "dyad/ops/scatter.h"
#include "dyad/ops/series.h"
#include "dyad/ops/sort.h"

namespace dyad::nn {
namespace {

/// A table whose row at `padding_idx`, counted from the front from then on, is zeros.
Parameter make_table(std::string_view layer, std::int64_t count, std::int64_t width,
                     std::optional<std::int64_t>& padding_idx, DType dtype, Loc loc) {
  require_positive(layer, {{"count", count}, {"width", width}}, loc);
  Tensor table = init::normal({count, width}, 1, dtype, loc);
  if (padding_idx) {
    if (*padding_idx < -count || *padding_idx >= count) {
      throw IndexError(fmt::format("{}: padding_idx = {} is out of range for a table of {} rows",
                                   layer, *padding_idx, count),
                       loc.user());
    }
    if (*padding_idx < 0) *padding_idx += count;
    const auto bytes = static_cast<std::size_t>(width) * size_of(dtype);
    std::fill_n(static_cast<std::byte*>(table.raw_data(loc)) +
                    static_cast<std::size_t>(*padding_idx) * bytes,
                bytes, std::byte{0});
  }
  return Parameter(std::move(table), loc);
}

}  // namespace

Embedding::Embedding(std::int64_t count, std::int64_t width, const EmbeddingOptions& options,
                     Loc loc)
    : padding_idx(options.padding_idx),
      sparse(options.sparse),
      max_norm(options.max_norm),
      norm_type(options.norm_type) {
  weight = make_table("Embedding", count, width, padding_idx, options.dtype, loc);
}

Tensor Embedding::operator()(const Tensor& indices, Loc loc) const {
  const LocScope scope(loc);
  if (max_norm > 0) shorten_rows(indices, loc);
  if (sparse) return sparse_embedding(indices, weight, padding_idx.value_or(-1), loc);
  return padding_idx ? embedding(indices, weight, *padding_idx, loc)
                     : embedding(indices, weight, loc);
}

void Embedding::shorten_rows(const Tensor& indices, Loc loc) const {
  const NoGrad no_grad;
  const Tensor rows = unique(indices, true, {}, loc).values;
  const Tensor short_rows = renorm(embedding(rows, weight, loc), norm_type, 0, max_norm, loc);
  Tensor(weight).copy_(index_copy(weight, 0, rows, short_rows, loc), loc);
}

EmbeddingBag::EmbeddingBag(std::int64_t count, std::int64_t width,
                           const EmbeddingBagOptions& options, Loc loc)
    : mode(options.mode),
      include_last_offset(options.include_last_offset),
      padding_idx(options.padding_idx),
      sparse(options.sparse) {
  weight = make_table("EmbeddingBag", count, width, padding_idx, options.dtype, loc);
}

Tensor EmbeddingBag::operator()(const Tensor& indices, const Tensor& offsets,
                                const Tensor& per_sample_weights, Loc loc) const {
  const LocScope scope(loc);
  return embedding_bag(indices, weight, offsets,
                       {.mode = mode,
                        .per_sample_weights = per_sample_weights,
                        .include_last_offset = include_last_offset,
                        .padding_idx = padding_idx.value_or(-1),
                        .sparse = sparse},
                       loc);
}

}  // namespace dyad::nn
