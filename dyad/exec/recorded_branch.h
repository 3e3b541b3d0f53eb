#pragma once

#include <cstddef>
#include <span>

#include "dyad/core/tensor.h"
#include "dyad/exec/recorder.h"

namespace dyad::exec {

/// A `cond` that runs on data. Where a loop around it is being recorded, the way that it went is
/// noted for the RecordedLoop. Everywhere else it does nothing.
class RecordedBranch {
 public:
  /// Before the host reads `pred`.
  RecordedBranch(const Tensor& pred, Loc loc);
  ~RecordedBranch();
  RecordedBranch(const RecordedBranch&) = delete;
  RecordedBranch& operator=(const RecordedBranch&) = delete;

  /// `then`: what the host has read.
  void begin(bool then);
  void end(std::span<const Tensor> results);

 private:
  Recorder* recorder_ = nullptr;  // none: nothing is recorded
  std::size_t number_ = 0, decisions_ = 0;
  bool is_over_ = false;
};

}  // namespace dyad::exec
