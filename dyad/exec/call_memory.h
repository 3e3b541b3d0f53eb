#pragma once

#include <span>
#include <utility>
#include <vector>

#include "dyad/base/flat_map.h"
#include "dyad/exec/segment.h"

namespace dyad::exec {

/// The tensor of a recorded value in a replayed call.
[[nodiscard]] Tensor look_up(const Path& path, Value value, std::span<const Tensor> arguments,
                             const Environment& env);

/// What a replayed call leaves to its caller, results and gradients of leaves: they share memory
/// where they do eagerly, and nowhere else. Equal values that were computed once are apart.
class CallMemory {
 public:
  CallMemory(const Path& path, std::span<const Tensor> arguments, const Environment& env)
      : path_(path), arguments_(arguments), env_(env) {}

  /// The tensor of `value`, which lies at `place`.
  [[nodiscard]] Tensor tensor_at(const Place& place, Value value);

 private:
  [[nodiscard]] Tensor own(Value lies_in, Value value);
  [[nodiscard]] Tensor view(Value made, const Tensor& of) const;

  const Path& path_;
  std::span<const Tensor> arguments_;
  const Environment& env_;
  std::vector<std::pair<Value, Tensor>> shared_;  ///< what several tensors show
  FlatMap<const Storage*, Value> owners_;         ///< of memory that is given away
  using Copy = std::pair<std::pair<Value, Value>, Tensor>;
  std::vector<Copy> copies_;  ///< of what lies in one memory and is one value
};

}  // namespace dyad::exec
