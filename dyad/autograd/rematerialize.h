#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "dyad/core/tensor_impl.h"

namespace dyad::autograd {

class TapeNode;  // NOLINT(cppcoreguidelines-virtual-class-destructor): only its Ref destroys it
struct InputRecord;

/// Counts the writes to a memory, and has values computed before that are to be computed from what
/// it holds.
class TapeWatch final : public WriteWatch {
 public:
  void before_write() override;
  void after_write() noexcept override { ++writes_; }
  [[nodiscard]] std::uint32_t writes() const noexcept { return writes_; }

  // For those who hold the lock of what tapes share.
  void add(TapeNode& node, std::uint32_t output);
  void remove(const TapeNode& node, std::uint32_t output) noexcept;

 private:
  std::atomic<std::uint32_t> writes_{0};
  std::vector<std::pair<TapeNode*, std::uint32_t>> outputs_;
};

/// What an input that does not hold its value knows of it.
struct LeftOut {
  Ref<TapeWatch> watch;      ///< of the memory where the value lay
  std::uint32_t writes = 0;  ///< of which it had seen so many
  Ref<Recorded> recorded;
};

/// What a node knows of an output of its own that inputs of later nodes have left out.
struct MadeAgain {
  int readers = 0;  ///< such inputs
  Tensor value;     ///< computed again, for those that have yet to come
  /// While it is not: of the memory that it is computed from. Before that changes, it is.
  std::vector<Ref<TapeWatch>> sources;
};

/// Whether `input`, whose value the rule reads, need not hold it: then `left_out` is set.
[[nodiscard]] bool leave_out(InputRecord& input, const TensorImpl& value);
/// What an input has left out, with its place on the tape. MemoryError.
[[nodiscard]] Tensor make_again(InputRecord& input);
/// The version that the memory would have now where the value lay.
[[nodiscard]] std::uint32_t version_now(const InputRecord& input) noexcept;
/// The input needs its value no more, left out or not.
void let_go(InputRecord& input) noexcept;
/// What `node` holds is about to go: its inputs need nothing more, and what others have left out
/// and is computed from it is computed now. MemoryError.
void before_release(TapeNode& node);

}  // namespace dyad::autograd
