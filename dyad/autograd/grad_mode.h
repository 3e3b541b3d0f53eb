#pragma once

#include <cstddef>
#include <utility>

#include "dyad/core/tape_switch.h"

namespace dyad {

/// Switches the tape on or off in this thread while it lives.
class GradMode {
 public:
  explicit GradMode(bool enabled) noexcept;
  ~GradMode();
  GradMode(const GradMode&) = delete;
  GradMode& operator=(const GradMode&) = delete;

 private:
  bool previous_;
};

/// Nothing computed while it lives is put on the tape: evaluation, and updates of parameters in
/// place.
class NoGrad : public GradMode {
 public:
  NoGrad() noexcept : GradMode(false) {}
};

/// Runs `fn` without the tape and returns what it returns.
template <class F>
decltype(auto) no_grad(F&& fn) {
  const NoGrad scope;
  return std::forward<F>(fn)();
}

/// Values of so many bytes or more are not kept for the backward pass while this lives, in this
/// thread, where cheap operators (activations, normalisations of rows, casts, copies:
/// OpInfo::cheap) give them from what is kept anyway: backward computes them again, to the same
/// bits (rematerialization). Outside such a scope the limit is 1 MB; the largest std::size_t keeps
/// all.
class RematerializeFrom {
 public:
  explicit RematerializeFrom(std::size_t bytes) noexcept;
  ~RematerializeFrom();
  RematerializeFrom(const RematerializeFrom&) = delete;
  RematerializeFrom& operator=(const RematerializeFrom&) = delete;
  /// The limit of this thread now.
  [[nodiscard]] static std::size_t current() noexcept;

 private:
  std::size_t previous_;
};

/// While it lives, the first operator of this thread that makes a NaN or an infinity, forward or
/// backward, throws AnomalyError with the operator, the element and the line that made it: eagerly,
/// in compiled functions (which run eagerly meanwhile) and in Session::run.
class DetectAnomaly {
 public:
  explicit DetectAnomaly(bool enabled = true) noexcept;
  ~DetectAnomaly();
  DetectAnomaly(const DetectAnomaly&) = delete;
  DetectAnomaly& operator=(const DetectAnomaly&) = delete;
  [[nodiscard]] static bool active() noexcept;

 private:
  bool previous_;
};

}  // namespace dyad
