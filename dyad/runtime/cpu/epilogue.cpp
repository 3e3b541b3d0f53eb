#include "dyad/runtime/cpu/epilogue.h"

#include <algorithm>
#include <bit>

#include "dyad/ops/attrs/epilogue.h"
#include "dyad/runtime/cpu/vector_clones.h"
#include "dyad/runtime/cpu/vector_math.h"
#include "dyad/runtime/threads.h"

namespace dyad::runtime::cpu {
namespace {

template <class F>
[[gnu::always_inline]] inline void each(float* x, std::int64_t n, F f) {
  for (std::int64_t i = 0; i < n; ++i) x[i] = f(x[i]);
}

DYAD_VECTOR_CLONES void activate_all(Epilogue::Activation activation, float a, float b, float* x,
                                     std::int64_t n) {
  using Activation = Epilogue::Activation;
  switch (activation) {
    case Activation::none:
      return;
    case Activation::relu:
      return each(x, n, [](float v) { return v < 0 ? 0 : v; });
    case Activation::leaky_relu:
      return each(x, n, [=](float v) { return v > 0 ? v : a * v; });
    case Activation::clamp:
      return each(x, n, [=](float v) { return v < a ? a : v > b ? b : v; });
    case Activation::sigmoid:
      return each(x, n, [](float v) { return vector_math::sigmoid(v); });
    case Activation::silu:
      return each(x, n, [](float v) { return v * vector_math::sigmoid(v); });
    case Activation::hardswish:
      return each(x, n, [](float v) {
        const float inner = v * (v + 3) / 6;
        return v <= -3 ? 0 : v >= 3 ? v : inner;
      });
  }
}

}  // namespace

Epilogue epilogue_of(std::string_view activation, double alpha, double beta, bool adds) {
  Epilogue made{.adds = adds,
                .activation = Epilogue::Activation::none,
                .alpha = static_cast<float>(alpha),
                .beta = static_cast<float>(beta)};
  const auto* const found = std::ranges::find(ops::kEpilogueActivations, activation);
  if (found != std::ranges::end(ops::kEpilogueActivations)) {
    made.activation = static_cast<Epilogue::Activation>(
        found - std::ranges::begin(ops::kEpilogueActivations) + 1);
  }
  return made;
}

void Epilogue::add_to(PlanKey& key) const {
  key.push_back(adds);
  key.push_back(static_cast<std::int64_t>(activation));
  key.push_back(std::bit_cast<std::int32_t>(alpha));
  key.push_back(std::bit_cast<std::int32_t>(beta));
}

#ifndef DYAD_PLAIN_LOOPS

dnnl::post_ops Epilogue::post_ops() const {
  using dnnl::algorithm;
  dnnl::post_ops made;
  if (adds) made.append_sum(1.0f);
  const auto append = [&](algorithm function, float a, float b) {
    made.append_eltwise(1.0f, function, a, b);
  };
  switch (activation) {
    case Activation::none:
      break;
    case Activation::relu:
      append(algorithm::eltwise_relu, 0, 0);
      break;
    case Activation::leaky_relu:
      append(algorithm::eltwise_relu, alpha, 0);
      break;
    case Activation::clamp:
      append(algorithm::eltwise_clip, alpha, beta);
      break;
    case Activation::sigmoid:
      append(algorithm::eltwise_logistic, 0, 0);
      break;
    case Activation::silu:
      append(algorithm::eltwise_swish, 1, 0);
      break;
    case Activation::hardswish:
      append(algorithm::eltwise_hardswish, 0, 0);
      break;
  }
  return made;
}

#endif

void activate_in_place(const Epilogue& e, float* x, std::int64_t n) {
  activate_all(e.activation, e.alpha, e.beta, x, n);
}

void apply_epilogue(const Epilogue& e, const float* from, float* to, std::int64_t n) {
  parallel_for(0, n, grain_for({.bytes = 12, .flops = 10}, n),
               [&](std::int64_t lo, std::int64_t hi) {
                 for (std::int64_t i = lo; i < hi; ++i) to[i] = e.adds ? from[i] + to[i] : from[i];
                 activate_in_place(e, to + lo, hi - lo);
               });
}

}  // namespace dyad::runtime::cpu
