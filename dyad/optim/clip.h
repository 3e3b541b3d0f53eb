#pragma once

#include <initializer_list>
#include <span>

#include "dyad/core/tensor.h"

namespace dyad::optim {

/// Scales the gradients of `parameters` together so that the 2-norm of all of them is at most
/// `max_norm` (Pascanu et al., 2013), and returns the norm they had (f32[], or f64[] where one of
/// the parameters is f64; reading it is up to the caller). Parameters without a gradient are passed
/// over. ValueError unless max_norm is above 0.
Tensor clip_grad_norm(std::span<const Tensor> parameters, double max_norm,
                      Loc loc = std::source_location::current());
Tensor clip_grad_norm(std::initializer_list<Tensor> parameters, double max_norm,
                      Loc loc = std::source_location::current());

/// Moves each element of the gradients into [-limit, limit]; one of some rows (sparse_embedding)
/// becomes a dense one. ValueError unless limit is at least 0.
void clip_grad_value(std::span<const Tensor> parameters, double limit,
                     Loc loc = std::source_location::current());
void clip_grad_value(std::initializer_list<Tensor> parameters, double limit,
                     Loc loc = std::source_location::current());

}  // namespace dyad::optim
