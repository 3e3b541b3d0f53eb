#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "dyad/base/inline_vector.h"
#include "dyad/core/autocast_switch.h"
#include "dyad/core/evaluator.h"
#include "dyad/core/tensor_list.h"

namespace dyad {

/// While it lives, the operators of this thread that gain from it compute in short floats:
///
///     const Autocast scope(bf16);
///     Tensor loss = cross_entropy(model(x), y);
///
/// Products, convolutions, attention and recurrent layers take their floating inputs (f64 ones
/// aside) as `dtype` and give it; reductions, softmax, normalisations, losses, transforms and
/// decompositions take theirs as f32; all others compute in what they are given, mixed ones in the
/// wider dtype. The parameters stay as they are, and so are their gradients: the casts are
/// operators, each of a parameter made once for a scope. Backward passes compute in the dtypes of
/// the forward pass, inside the scope and after it. The same eagerly, in compiled functions (which
/// keep recordings apart by it) and in graphs that are defined inside. Scopes nest; `enabled =
/// false` switches off within another. DTypeError unless `dtype` is bf16 or f16.
class Autocast : public AutocastSwitch {
 public:
  explicit Autocast(DType dtype = DType::bf16, bool enabled = true,
                    Loc loc = std::source_location::current());
  ~Autocast();
};

namespace exec {

/// Counts the writes to the memory of a concrete tensor: a stamp for AutocastInputs.
[[nodiscard]] std::int64_t version_of(const Tensor& tensor);

/// The inputs of a call in the dtypes that the current autocast wants them in. While it lives,
/// autocast is off: what an operator consists of is not cast again.
class AutocastInputs {
 public:
  /// `stamp` tells values of one tensor apart, which change by writes in place; without it casts
  /// are not kept.
  AutocastInputs(const OpInfo& op, TensorRefs inputs, Loc loc,
                 const std::function<std::int64_t(const Tensor&)>& stamp = {});
  [[nodiscard]] TensorRefs inputs() const noexcept { return refs_; }

 private:
  std::optional<DType> dtype_ = autocast_dtype();
  AutocastSwitch off_{std::nullopt};
  InlineVector<const Tensor*, 4> refs_;
  TensorList casts_;
};

}  // namespace exec
}  // namespace dyad
