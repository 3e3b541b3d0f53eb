#include "dyad/nn/dropout.h"

#include <fmt/format.h>

#include "dyad/base/error.h"

namespace dyad::nn::detail {

void require_probability(std::string_view layer, double p, Loc loc, std::string_view name) {
  if (p >= 0 && p <= 1) return;
  throw ValueError(fmt::format("{}: {} must be from 0 to 1, found {}", layer, name, p), loc.user());
}

}  // namespace dyad::nn::detail
