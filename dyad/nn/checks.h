#pragma once

#include <initializer_list>
#include <string_view>
#include <utility>

#include "dyad/base/loc.h"

namespace dyad::nn {

/// ValueError naming the layer, the argument and its value unless each value is at least 1.
void require_positive(std::string_view layer,
                      std::initializer_list<std::pair<std::string_view, std::int64_t>> arguments,
                      Loc loc);

}  // namespace dyad::nn
