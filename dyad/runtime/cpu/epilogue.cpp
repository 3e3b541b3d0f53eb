#include "dyad/runtime/cpu/epilogue.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "dyad/ops/attrs/epilogue.h"
#include "dyad/runtime/threads.h"

namespace dyad::runtime::cpu {
namespace {

template <class F>
void each(bool adds, const float* from, float* to, std::int64_t n, F f) {
  if (adds) {
    for (std::int64_t i = 0; i < n; ++i) to[i] = f(from[i] + to[i]);
  } else {
    for (std::int64_t i = 0; i < n; ++i) to[i] = f(from[i]);
  }
}

void apply(const Epilogue& e, const float* from, float* to, std::int64_t n) {
  using Activation = Epilogue::Activation;
  const float a = e.alpha, b = e.beta;
  switch (e.activation) {
    case Activation::none:
      return each(e.adds, from, to, n, [](float x) { return x; });
    case Activation::relu:
      return each(e.adds, from, to, n, [](float x) { return x < 0 ? 0 : x; });
    case Activation::leaky_relu:
      return each(e.adds, from, to, n, [=](float x) { return x > 0 ? x : a * x; });
    case Activation::clamp:
      return each(e.adds, from, to, n, [=](float x) { return x < a ? a : x > b ? b : x; });
    case Activation::sigmoid:
      return each(e.adds, from, to, n, [](float x) { return 1 / (1 + std::exp(-x)); });
    case Activation::silu:
      return each(e.adds, from, to, n, [](float x) { return x / (1 + std::exp(-x)); });
    case Activation::hardswish:
      return each(e.adds, from, to, n, [](float x) {
        return x <= -3 ? 0 : x >= 3 ? x : x * (x + 3) / 6;
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

void apply_epilogue(const Epilogue& e, const float* from, float* to, std::int64_t n) {
  parallel_for(0, n, grain_for({.bytes = 12, .flops = 10}, n),
               [&](std::int64_t lo, std::int64_t hi) { apply(e, from + lo, to + lo, hi - lo); });
}

}  // namespace dyad::runtime::cpu
