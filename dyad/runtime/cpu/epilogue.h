#pragma once

#include <cstdint>
#include <string_view>

#include "dyad/runtime/cpu/lru.h"
#include "dyad/runtime/cpu/onednn.h"

namespace dyad::runtime::cpu {

/// What happens to each element of a result before it is stored: what was stored there before is
/// added, then the activation is taken.
struct Epilogue {
  /// By their names in ops/attrs/epilogue.h.
  enum class Activation : std::int64_t {
    none,
    relu,
    leaky_relu,
    clamp,
    sigmoid,
    silu,
    hardswish,
  };
  bool adds = false;
  Activation activation = Activation::none;
  float alpha = 0, beta = 0;
  bool adds_last = true;  ///< to the whole sum, which otherwise may begin with it

  [[nodiscard]] bool is_none() const noexcept { return !adds && activation == Activation::none; }
  /// Appends what tells it from others.
  void add_to(PlanKey& key) const;
#ifndef DYAD_PLAIN_LOOPS
  /// The same for the library.
  [[nodiscard]] dnnl::post_ops post_ops() const;
#endif
};

/// The epilogue that attributes name.
[[nodiscard]] Epilogue epilogue_of(std::string_view activation, double alpha, double beta,
                                   bool adds);

/// x[i] = activation(x[i]), on this thread.
void activate_in_place(const Epilogue& epilogue, float* x, std::int64_t n);

/// The same in a pass of its own: to[i] = activation(from[i] + to[i]), or activation(from[i]).
void apply_epilogue(const Epilogue& epilogue, const float* from, float* to, std::int64_t n);

}  // namespace dyad::runtime::cpu
