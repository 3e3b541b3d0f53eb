#pragma once

#include <cstdint>
#include <optional>

#include "dyad/core/dim.h"

namespace dyad {

/// How sizes of a graph compare that the graph alone does not tell: who recorded it knew, and
/// checks it before each run.
class SizeFacts {
 public:
  virtual ~SizeFacts() = default;
  /// Nothing where it is not known either.
  [[nodiscard]] virtual std::optional<bool> equal(Dim a, Dim b) const = 0;
  [[nodiscard]] virtual std::optional<bool> less(Dim a, Dim b) const = 0;
  [[nodiscard]] virtual std::optional<std::int64_t> value(Dim dim) const = 0;

  /// What graphs that are made in this thread may ask; null when there is nothing.
  [[nodiscard]] static const SizeFacts* current() noexcept;

  /// While it lives, `facts` are the current ones in this thread.
  class Scope {
   public:
    explicit Scope(const SizeFacts& facts) noexcept;
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    const SizeFacts* previous_;
  };

 protected:
  SizeFacts() = default;
  SizeFacts(const SizeFacts&) = default;
  SizeFacts& operator=(const SizeFacts&) = default;
};

}  // namespace dyad
