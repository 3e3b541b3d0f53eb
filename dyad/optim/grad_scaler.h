#pragma once

#include <cstdint>
#include <vector>

#include "dyad/nn/tensor_dict.h"
#include "dyad/optim/optimizer.h"

namespace dyad::optim {

struct GradScalerOptions {
  double init_scale = 65536;
  double growth_factor = 2;             ///< above 1
  double backoff_factor = 0.5;          ///< above 0, below 1
  std::int64_t growth_interval = 2000;  ///< steps in a row without infinities before it grows
  bool enabled = true;                  ///< false: the loss as it is, steps as they are
};

/// Scales a loss, so that small gradients of f16 do not vanish, and gradients back before the
/// optimizer sees them:
///
///     {
///       const Autocast scope(f16);
///       loss = cross_entropy(model(x), y);
///     }
///     scaler.scale(loss).backward();
///     scaler.step(optimizer);  // not when a gradient is infinite or no number
///     scaler.update();         // a smaller scale then, a larger one after growth_interval steps
///
/// The scale and the count are tensors that are written in place, so that a compiled step holds all
/// of it; whether a step is done is a branch of it (Micikevicius et al., 2018).
class GradScaler {
 public:
  /// ValueError for factors and intervals out of range.
  explicit GradScaler(const GradScalerOptions& options = {},
                      Loc loc = std::source_location::current());

  /// The loss times the scale, in f32 at least.
  [[nodiscard]] Tensor scale(const Tensor& loss, Loc loc = std::source_location::current()) const;
  /// Divides the gradients of the optimizer's parameters by the scale: before they are clipped,
  /// say. GradError when that was done since the last update().
  void unscale(const Optimizer& optimizer, Loc loc = std::source_location::current());
  /// Unscales unless that was done, and steps unless a gradient is infinite or no number: a host
  /// read. True when the optimizer stepped.
  bool step(Optimizer& optimizer, Loc loc = std::source_location::current());
  /// The scale for the next step. GradError when no step was tried since the last one.
  void update(Loc loc = std::source_location::current());

  /// The scale now, f32[]; shared.
  [[nodiscard]] const Tensor& current_scale() const noexcept { return scale_; }
  /// `scale` and `growth_tracker`; shares the tensors.
  [[nodiscard]] TensorDict state_dict() const;
  /// Overwrites them in place. ValueError listing what does not fit, before anything is written.
  void load_state_dict(const TensorDict& state, Loc loc = std::source_location::current());

 private:
  /// What was done to the gradients of an optimizer since the last update(). Tensors that are
  /// written in place: a call of a compiled function tells it, too.
  struct Unscaled {
    const Optimizer* optimizer;
    Tensor found;           ///< bool[]: a gradient is infinite or no number
    Tensor done;            ///< bool[]: they are unscaled
    bool recorded = false;  ///< the same in what is being recorded, where `done` is not to be read
  };
  [[nodiscard]] static bool is_done(const Unscaled& entry, Loc loc);
  static void set_done(Unscaled& entry, bool done, Loc loc);
  [[nodiscard]] Unscaled& entry_of(const Optimizer& optimizer, Loc loc);

  GradScalerOptions options_;
  Tensor scale_, tracker_;
  std::vector<Unscaled> unscaled_;
};

}  // namespace dyad::optim
