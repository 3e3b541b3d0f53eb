#pragma once

#include <cstdint>

#include "dyad/ops/attrs/recurrent.h"

namespace dyad::runtime::cpu {

/// z[i] = f(clip(z[i])), in place; clip 0: none.
void activate(const ops::Activation& f, double clip, float* z, std::int64_t n);
void activate(const ops::Activation& f, double clip, double* z, std::int64_t n);

/// grad[i] *= f'(z) where y[i] = f(clip(z)): 0 where z was clipped.
void through_activation(const ops::Activation& f, double clip, const float* y, float* grad,
                        std::int64_t n);
void through_activation(const ops::Activation& f, double clip, const double* y, double* grad,
                        std::int64_t n);

}  // namespace dyad::runtime::cpu
