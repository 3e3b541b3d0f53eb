#include "dyad/nn/dropout.h"

#include <fmt/format.h>

#include "dyad/base/error.h"

namespace dyad::nn::detail {

void require_probability(std::string_view layer, double p, Loc loc) {
  if (p >= 0 && p <= 1) return;
  throw ValueError(fmt::format("{}: p must be from 0 to 1, found {}", layer, p), loc.user());
}

}  // namespace dyad::nn::detail
