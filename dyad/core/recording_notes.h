#pragma once

#include <cstdint>
#include <span>

#include "dyad/core/tensor.h"

namespace dyad {

/// What an Evaluator also is that records a function for later calls: it is told what calls of
/// operators do not show. Whoever does such a thing asks with dynamic_cast.
class RecordingNotes {
 public:
  virtual ~RecordingNotes() = default;
  /// The program made another tensor of the memory of `of`, without a place on the tape.
  virtual void note_detached(const Tensor& of, const Tensor& made) = 0;
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
  /// These gradients come to the rule, or the hooks, of a node of the tape.
  virtual void open_rule(std::span<const Tensor> came) = 0;
  /// That made these; undefined ones among them count for nothing. `looked_for`: positions among
  /// those that came of which it asked whether they did; it has zeros for others that do not come.
  virtual void close_rule(std::span<const Tensor> made, std::span<const int> looked_for) = 0;
};

}  // namespace dyad
