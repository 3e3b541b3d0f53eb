#pragma once

#include <string>

#include "dyad/core/tensor.h"

namespace dyad {

/// x[n, c, h, w] (or [n, c, d, h, w]) at the positions grid[n, oh, ow, 2] (or [n, od, oh, ow, 3])
/// -> [n, c, oh, ow]. A position is (x, y) or (x, y, z), from -1 to 1: with align_corners these are
/// the middles of the outer elements, otherwise their outer edges. Mode "bilinear" (trilinear in
/// 3-D), "nearest" (half to even) or "bicubic" (2-D); what lies outside is 0 with padding "zeros",
/// the nearest element with "border", x mirrored with "reflection". Gradients of any order by x and
/// grid; that by a position is 0 where "border" holds it at the edge, and everywhere for "nearest".
/// A NaN in grid counts as -1. One floating dtype. ShapeError, ValueError.
[[nodiscard]] Tensor grid_sample(const Tensor& x, const Tensor& grid,
                                 const std::string& mode = "bilinear",
                                 const std::string& padding = "zeros", bool align_corners = false,
                                 Loc loc = std::source_location::current());

/// The grid for grid_sample that maps the positions of an image of `size` ([n, c, h, w] or
/// [n, c, d, h, w]) by theta[n, 2, 3] (or [n, 3, 4]): theta * (x, y, 1).
[[nodiscard]] Tensor affine_grid(const Tensor& theta, const Shape& size, bool align_corners = false,
                                 Loc loc = std::source_location::current());

}  // namespace dyad
