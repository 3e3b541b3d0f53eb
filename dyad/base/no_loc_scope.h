#pragma once

#include "dyad/base/loc.h"

namespace dyad {

/// While it lives, the LocScopes around it have no effect on this thread. For what is made of the
/// program's operators later, inside of some other call: that has their lines.
class NoLocScope {
 public:
  NoLocScope() noexcept;
  ~NoLocScope();
  NoLocScope(const NoLocScope&) = delete;
  NoLocScope& operator=(const NoLocScope&) = delete;

 private:
  Loc loc_;
  const char* function_;
};

}  // namespace dyad
