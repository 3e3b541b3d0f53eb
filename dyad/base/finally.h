#pragma once

#include <utility>

namespace dyad {

/// Calls a function at the end of its scope.
template <class F>
class Finally {
 public:
  explicit Finally(F function) : function_(std::move(function)) {}
  ~Finally() { function_(); }
  Finally(const Finally&) = delete;
  Finally& operator=(const Finally&) = delete;

 private:
  F function_;
};

}  // namespace dyad
