#pragma once

#include "dyad/core/generator.h"

namespace dyad {

/// While it lives, `default_generator()` is `generator` in this thread, which is how operators that
/// are given none draw from a stream of their own. Scopes nest; the innermost holds.
class GeneratorScope {
 public:
  explicit GeneratorScope(Generator& generator) noexcept;
  ~GeneratorScope();
  GeneratorScope(const GeneratorScope&) = delete;
  GeneratorScope& operator=(const GeneratorScope&) = delete;

 private:
  Generator* previous_;
};

}  // namespace dyad
