#pragma once

#include <cstdint>
#include <optional>

#include "dyad/ir/graph.h"

namespace dyad::passes {

/// The operators that are found written out.
enum class NormKind : std::uint8_t { softmax, log_softmax, layer_norm, rms_norm };

/// The call that some nodes of a graph are together.
struct WrittenNorm {
  NormKind kind = NormKind::softmax;
  Value x;
  Ints axes;          ///< of x: one for a softmax, the last ones otherwise
  double eps = 0;     ///< of layer_norm and rms_norm
  Value weight = {};  ///< none, or what broadcasts to last_sizes()
  Value bias = {};    ///< the same, of layer_norm

  /// Those of x along the axes of layer_norm and rms_norm, which their weights have.
  [[nodiscard]] Shape last_sizes() const;
};

/// What a node is the last operator of, in one of the ways that join_norms.h lists; its result has
/// the type of x. Others may read what lies between.
[[nodiscard]] std::optional<WrittenNorm> written_norm_at(const Node& node);

}  // namespace dyad::passes
