#include "dyad/nn/checks.h"

#include <fmt/format.h>

#include "dyad/base/error.h"

namespace dyad::nn {

void require_positive(std::string_view layer,
                      std::initializer_list<std::pair<std::string_view, std::int64_t>> arguments,
                      Loc loc) {
  for (const auto& [name, value] : arguments) {
    if (value < 1) {
      throw ValueError(fmt::format("{}: {} must be at least 1, found {}", layer, name, value),
                       loc.user());
    }
  }
}

}  // namespace dyad::nn
