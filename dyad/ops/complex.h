#pragma once

#include "dyad/core/tensor.h"

namespace dyad {

// Complex numbers. A c64 (c128) tensor holds pairs of f32 (f64), real part first. Data movers
// (reshape, permute, slices, concat, gather, pad, where...) take them as they are; + - * /, neg,
// abs, exp, log, sum, mean, matmul, == and != are written in operators on the parts, so that their
// gradients, graphs and kernels are those of real operators. The gradient of a real result by a
// complex tensor z is d/d re(z) + i d/d im(z), as in PyTorch. Other operators refuse complex
// tensors: take real(), imag() or abs() first.

/// The parts of complex numbers along a last axis of size 2, in the same memory.
[[nodiscard]] Tensor view_as_real(const Tensor& x, Loc loc = std::source_location::current());
/// An f32 or f64 tensor whose last axis has size 2 as complex numbers, in the same memory where it
/// lies pair by pair, otherwise copied.
[[nodiscard]] Tensor view_as_complex(const Tensor& x, Loc loc = std::source_location::current());

/// The numbers re + i im; shapes broadcast. f64 when one of them is (f16 and bf16 become f32).
[[nodiscard]] Tensor complex(const Tensor& re, const Tensor& im,
                             Loc loc = std::source_location::current());
/// abs * (cos(angle) + i sin(angle)); shapes broadcast.
[[nodiscard]] Tensor polar(const Tensor& abs, const Tensor& angle,
                           Loc loc = std::source_location::current());
/// The real part, a view; of a real tensor itself.
[[nodiscard]] Tensor real(const Tensor& x, Loc loc = std::source_location::current());
/// The imaginary part, a view; DTypeError for a real tensor.
[[nodiscard]] Tensor imag(const Tensor& x, Loc loc = std::source_location::current());
/// The angle of a complex number in (-pi, pi], atan2(im, re); of a real one 0 or pi (NaN stays).
[[nodiscard]] Tensor angle(const Tensor& x, Loc loc = std::source_location::current());
/// The conjugate; of a real tensor itself.
[[nodiscard]] Tensor conj(const Tensor& x, Loc loc = std::source_location::current());

}  // namespace dyad
