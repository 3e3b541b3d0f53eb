#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "dyad/autograd/tape.h"
#include "dyad/core/tensor.h"
#include "dyad/exec/backward_trace.h"
#include "dyad/exec/loop_reach.h"
#include "dyad/exec/recorder.h"
#include "dyad/exec/roll_loop.h"

namespace dyad::exec {

/// A `while_loop` or `scan` that runs on data. Where a function is being recorded, and every step
/// did the same with what it was given, the recording gets one node for all of them: it then serves
/// any number of steps, and is replayed without a list of them. Whether a while_loop does any step
/// stays something that the host reads. Everywhere else it does nothing.
///
/// Steps may differ in the ways that they go through a `cond` (RecordedBranch), which becomes one
/// of the node's graph. Those that differ otherwise, write in place, touch gradients or hand
/// tensors to the program around them stay in the recording one by one, as do loops of fewer than
/// two steps (inside of others, where they may be on the tape, four), which show nothing that
/// repeats, and those whose conditions draw random numbers. A
/// loop on the tape becomes a TapedLoop.
class RecordedLoop {
 public:
  /// `xs`: what a scan slices along its first axes, of that `length`.
  RecordedLoop(const OpInfo& op, std::span<const Tensor> xs, Dim length, Loc loc);
  ~RecordedLoop();
  RecordedLoop(const RecordedLoop&) = delete;
  RecordedLoop& operator=(const RecordedLoop&) = delete;

  /// The number of a scan's steps; a recording of single steps depends on it.
  [[nodiscard]] std::int64_t steps() const;
  /// What a scan has to slice in the place of `xs`, recorded or not. Called after its states have
  /// begun: backwards the gradients of slices come before theirs, as in a graph.
  [[nodiscard]] std::vector<Tensor> to_slice(std::span<const Tensor> xs);

  /// A pass begins in one of its steps: these stay in the recording one by one.
  void begin_pass();

  /// A step begins, with a while_loop's condition or a scan's slicing.
  void begin_step(std::span<const Tensor> states);
  void end_condition(const Tensor& go_on);
  void end_slicing(std::span<const Tensor> slices);
  /// `made`: what a scan's body gave beside the states.
  void end_body(std::span<const Tensor> made = {});
  /// The loop is over. `results`: the states after it, then a scan's stacked slices, which may
  /// become other tensors for the same elements. `last`: the slices of the last step, which nobody
  /// else may hold any more but who called the body.
  void end(std::span<Tensor> results, std::span<const Tensor> last = {});

 private:
  /// What the recording held when the loop began.
  struct Marks {
    std::size_t decisions = 0, grads = 0, grad_captures = 0, literals = 0, detached = 0,
                open_sizes = 0;
    std::int64_t taped = 0, writes = 0;
    [[nodiscard]] bool operator==(const Marks&) const noexcept = default;
  };
  [[nodiscard]] Marks marks() const;
  /// Whether its steps did nothing but compute and draw random numbers.
  [[nodiscard]] bool only_computes(bool on_tape) const;
  void begin_body(LoopTrace::Step& step) const;
  /// Whether it is one of those that a way through a cond asked for.
  [[nodiscard]] bool is_of_branch(std::size_t guard) const;
  /// What the host has read of a while_loop is computed once more, so it must draw nothing.
  [[nodiscard]] bool conditions_draw() const;
  /// What they read is not one number a step then.
  [[nodiscard]] bool conditions_have_parts() const;
  /// Whether what later steps asked of sizes the first one asked, too.
  [[nodiscard]] bool asks_as_first() const;
  /// Whether nobody outside the loop can see what its steps made, but for the results.
  [[nodiscard]] bool is_closed(std::span<const Tensor> results, std::span<const Tensor> last) const;
  /// Whether nobody but the recording holds the handles that `is_one` of what was made since the
  /// loop began; those that are `known` may be held once.
  template <class F>
  [[nodiscard]] bool are_ours(const F& is_one,
                              const std::unordered_set<const Recorded*>& known) const;
  /// Whether nobody else has kept what the states begin with.
  [[nodiscard]] bool knows_first_states() const;
  [[nodiscard]] bool is_of_steps(Value value) const;
  /// What tensors from outside became when a step used them first belongs to all steps.
  void keep_outside();
  /// So does what the first step computed from that alone and later ones go on using, such as a
  /// weight that autocast has cast.
  void keep_invariant();
  [[nodiscard]] std::vector<Value> values_of(std::span<const Tensor> tensors);
  /// Whether these can be the results of a node, where states that are `constant` are none.
  [[nodiscard]] bool may_be_results(std::span<const Tensor> results,
                                    const std::vector<bool>& constant);
  /// The steps as one, if they are alike and `results` can be its results.
  [[nodiscard]] std::optional<RolledLoop> rolled(std::span<const Tensor> results);
  /// Whether there are loops on the tape in its steps.
  [[nodiscard]] bool has_taped_loops() const;
  bool roll(std::span<const Tensor> results, std::span<const Tensor> last);
  /// Whether there are too few steps to tell what they do on the tape.
  [[nodiscard]] bool is_too_short() const;
  /// Which steps' results the rows of a stacked one are, on the tape.
  void note_stacking(const Tensor& result, TapedLoop& loop) const;
  /// Leaves it to the end of the recording.
  bool postpone(std::span<Tensor> results);
  void note_tracked(std::span<const Tensor> states);
  /// Whether no step ended the tape of a state. Ways may, and which ones that were the data tell:
  /// what a pass does before them is not there then.
  [[nodiscard]] bool stays_tracked() const;
  /// How many steps there must be at least for states and results to be tracked as they are now:
  /// it takes some until a state that begins untracked is, and so is one that is made of it.
  /// Nothing where more steps could do otherwise.
  [[nodiscard]] std::optional<int> fewest_tracked() const;
  /// The same for what a pass that comes back through the loop finds gradients of.
  [[nodiscard]] std::optional<int> settled_steps(std::span<const Tensor> results) const;
  /// What follows takes the stacked results for those of any number of steps.
  void open_length(std::span<Tensor> stacks) const;
  /// Tells the loop around it what it did. `rolled`: as one node, the last one.
  void note_part(bool rolled, std::span<const Tensor> results);
  /// What the program still holds of the steps.
  void keep_handles();
  /// Of the guards that the steps asked for those of the first one are left, but for slicing.
  void forget_guards();
  /// What steps left behind that goes on being used.
  void put_in_order(int begin, std::span<const Value> captures) const;
  void replace(const RolledLoop& rolled, std::span<const Tensor> results,
               std::span<const Tensor> last);

  Recorder* recorder_ = nullptr;  // none: nothing is recorded
  Dim length_;
  LoopTrace trace_;
  Marks begin_;
  std::size_t first_handle_ = 0, first_part_ = 0, first_taped_ = 0;
  std::int64_t number_ = 0;  // among the recording's loops
  bool may_be_taped_ = false;
  RecordedLoop* around_ = nullptr;  // the recorder's slicing loop before this one
  std::vector<std::vector<TapePlace>>
      places_;                              // of the states before each step, and after the last
  std::vector<std::vector<bool>> tracked_;  // of the states before each step, and after the last
  std::vector<std::vector<bool>> made_tracked_;  // of what each step gave beside them
  std::vector<std::uint64_t> tape_;              // its numbers before each step
  std::uint64_t tape_end_ = 0;
  bool is_over_ = false;
  bool is_plain_ = true;          // all states and results are tensors that lie row by row
  std::size_t bodies_asked_ = 0;  // guards of the last body end here
  std::vector<std::pair<std::size_t, std::size_t>> slicing_;  // guards that slices asked for
};

}  // namespace dyad::exec
