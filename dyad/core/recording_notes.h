#pragma once

#include <cstdint>

#include "dyad/core/tensor.h"

namespace dyad {

/// What an Evaluator also is that records a function for later calls: it is told what calls of
/// operators do not show. Whoever does such a thing asks with dynamic_cast.
class RecordingNotes {
 public:
  virtual ~RecordingNotes() = default;
  /// The program made another tensor of the same memory, without a place on the tape.
  virtual void note_detached(const Tensor& made) = 0;
  /// The program registers a hook of a tensor.
  virtual void note_hook(const Tensor& of, Loc loc) = 0;
  /// Whether the tensor's elements lie in the same order in later calls: of sizes that vary, some
  /// hide it.
  virtual bool keeps_order(const Tensor& made) = 0;
  /// A backward pass begins, comes to the node of the tape with that number, and ends. Rules may
  /// run others meanwhile.
  virtual void begin_pass() = 0;
  virtual void visit(std::uint64_t sequence) = 0;
  virtual void end_pass() = 0;
};

}  // namespace dyad
