#pragma once

#include "dyad/base/loc.h"
#include "dyad/runtime/cancel.h"

namespace dyad::exec {

/// While it lives, operators that run eagerly in this thread look at `token` before they begin, and
/// at those of the scopes around it. Without a token nothing is looked at: what writes its results
/// must not stop halfway.
class CancelScope {
 public:
  explicit CancelScope(const CancelToken* token) noexcept : token_(token), outer_(innermost_) {
    innermost_ = this;
  }
  ~CancelScope() { innermost_ = outer_; }
  CancelScope(const CancelScope&) = delete;
  CancelScope& operator=(const CancelScope&) = delete;

  /// CancelledError if one of the tokens was cancelled; `where` is the operator that would have run
  /// next.
  static void check(Loc where) {
    for (const CancelScope* scope = innermost_; scope && scope->token_; scope = scope->outer_)
      scope->token_->check(where.user());
  }

 private:
  const CancelToken* token_;
  const CancelScope* outer_;
  static inline constinit thread_local const CancelScope* innermost_ = nullptr;
};

}  // namespace dyad::exec
