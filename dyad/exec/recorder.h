#pragma once

#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "dyad/core/evaluator.h"
#include "dyad/core/recording_notes.h"
#include "dyad/exec/before_call.h"
#include "dyad/exec/guarded_sizes.h"
#include "dyad/exec/path.h"
#include "dyad/exec/roll_loop.h"
#include "dyad/exec/taped_loop.h"
#include "dyad/ir/graph_evaluator.h"
#include "dyad/ir/recorded.h"

namespace dyad::exec {

class RecordedBranch;
class RecordedLoop;

/// Executes every operator as eager mode does and writes down what it did. Tensors made on the way
/// carry their value in the graph; others that operators meet are captures, read anew at each run.
class Recorder final : public Evaluator, public RecordingNotes {
 public:
  /// `shapes` are those of the arguments, with symbols where a size may vary; `hints` their values
  /// now.
  Recorder(std::span<const Shape> shapes, std::span<const Tensor> arguments, SymbolMap hints,
           Loc loc);
  ~Recorder() override;

  /// The arguments to call the function with: the caller's memory, known to this recording.
  [[nodiscard]] std::span<const Tensor> arguments() const noexcept { return arguments_; }

  /// Assumes what these say, without a check of its own: they are the first guards of the path, and
  /// what they decide needs no other.
  void assume(std::vector<DimGuard> known);

  /// From here on `before`, which must outlive it, gets what is there before the call changes it.
  void keep_before(BeforeCall& before) noexcept { before_ = &before; }

  /// Notes that a backward pass inside the function has reached what an argument was computed from.
  void refuse_pass_through_argument(Loc loc);

  /// Another tensor for the same elements, whose first size the recording knows as `first` from
  /// here on; it is on the tape where x is.
  /// The number of the pass that goes on, or of the last one.
  [[nodiscard]] int pass() const noexcept { return passes_; }
  [[nodiscard]] Tensor with_length(const Tensor& x, Dim first, const LengthAttrs& attrs, Loc loc);

  /// update() of dyad/exec/update.h where the targets lie; false where that cannot be done, and
  /// nothing has been.
  bool update(const OpInfo& op, TensorRefs inputs, const void* attrs,
              std::span<const Tensor> targets, Loc loc);

  /// Ends the recording with the function's results.
  [[nodiscard]] Path finish(std::span<const Tensor> results, Loc loc);

  void apply(const OpInfo& op, TensorRefs inputs, const void* attrs, std::span<Tensor> outputs,
             Loc loc) override;
  bool apply_over(const OpInfo& op, TensorRefs inputs, const void* attrs, Loc loc) override;
  const Shape& shape(const Tensor& tensor) override { return shape_of(tensor); }
  void note_asked(Dim size, Loc loc) override;
  [[nodiscard]] Dim peek(Dim size) const override;
  std::int64_t dim_value(Dim dim, Loc loc) override;
  bool dim_equal(Dim a, Dim b, Loc loc) override;
  bool dim_less(Dim a, Dim b, Loc loc) override;
  void host_access(const Tensor& tensor, Loc loc) override;
  double read_double(const Tensor& tensor, Loc loc) override;
  std::int64_t read_int(const Tensor& tensor, Loc loc) override;
  bool read_bool(const Tensor& tensor, Loc loc) override;
  void write(const Tensor& target, const Tensor& value, Loc loc) override;
  std::vector<Tensor> backward(std::span<const Tensor> outputs, std::span<const Tensor> grads,
                               std::span<const Tensor> inputs, bool retain_graph, bool create_graph,
                               Loc loc) override;
  void note_literal(const Tensor& tensor) override;
  void note_grad(const Tensor& leaf, bool overwrites) override;
  void note_strides() override { path_.strides_matter = true; }
  void note_detached(const Tensor& of, const Tensor& made) override;
  void note_hook(const Tensor& of, Loc loc) override;
  bool keeps_order(const Tensor& made) override { return shape_of(made).is_concrete(); }
  void begin_pass() override;
  void visit(std::uint64_t sequence) override;
  void end_pass() override;
  void open_rule(std::span<const Tensor> came) override;
  void close_rule(std::span<const Tensor> made, std::span<const int> looked_for) override;
  void note_host_state(const Ref<HostState>& state) override;
  void set_random_state(const RandomKey& state, Loc loc) override;

 private:
  friend class RecordedBranch;
  friend class RecordedLoop;

  /// What writes and views mean in the recorded graph; sizes are compared as the recording does.
  class Tracer;

  /// A tensor from outside the function that it used.
  struct Capture {
    Tensor tensor;
    Ref<GraphValue> handle;
  };
  /// What was reshaped, where strides may leave only a copy, and the memory before and after.
  struct Reshaped {
    Shape shape;
    Value from, to;
  };
  /// A gradient of what may have been repeated `count` times, and the sum, in the memory named:
  /// of one that is eagerly the gradient itself.
  struct Repeated {
    Dim count;
    Value from, to;
    Loc loc;
  };

  /// The operator at which the tape of a recording begins: between an argument that was computed
  /// outside and what the function does with it.
  [[nodiscard]] static const OpInfo& argument_op() noexcept;
  /// From here on `other` is where `tensor` is on the tape, or is not on it either.
  static void share_place_on_tape(const TensorImpl& tensor, TensorImpl& other);
  [[nodiscard]] bool is_ours(const Tensor& tensor) const noexcept;
  /// Whether the host filled it during this call.
  [[nodiscard]] bool is_literal(const Tensor& tensor) const noexcept;
  /// Whether it is a tensor of this call, that the next one will not have; arguments are such, too.
  [[nodiscard]] bool is_made_here(const Tensor& tensor) const noexcept;
  /// The argument, as given, or the captured tensor whose memory it is; undefined for other memory.
  [[nodiscard]] Tensor variable_of(Value memory) const;
  /// Tells `before_` that memory is about to be written, if it is from outside.
  void keep_before(Value memory, const Tensor& target);
  /// How many tensors of that memory only the recording holds.
  [[nodiscard]] int handles_of(const Storage* storage) const;
  /// Puts hooks of arguments where the caller's tensors are on the tape.
  void pass_on_hooks();
  /// The value that the tensor has now.
  Value value_of(const Tensor& tensor, Loc loc);
  /// What stands for the tensor, renewed after writes.
  Ref<GraphValue> handle_of(const Tensor& tensor, Loc loc);
  Ref<GraphValue> capture(const Tensor& tensor, Loc loc);
  [[nodiscard]] Ref<GraphValue> make_handle(Value value) const;
  Ref<GraphValue> set_value(const Tensor& tensor, Value value);
  /// Notes that eagerly the two are one tensor: contiguous() made one of the other.
  void note_same(const Tensor& made, const Tensor& given);
  /// Forgets those of which the program holds only one any more.
  void forget_lone_pairs();
  /// The other tensors that eagerly are this one.
  [[nodiscard]] std::vector<Tensor> same_as(const Tensor& tensor) const;
  /// Guards those of a tensor whose layout matters: sizes below 2 hide it. Symbols are named in
  /// the path, because a call where one is that small is compared with the recording.
  void guard_small_sizes(const Shape& shape, Loc loc);
  /// Guards that more than one element was added up where one memory in the place of two shows.
  void guard_repeats();
  /// Whether only a pass that comes from outside, later, tells the value.
  [[nodiscard]] bool is_of_outer_pass(Value value) const;
  /// The same of all that a value was computed from: what an operator makes lies as its operands
  /// do.
  void guard_sizes_behind(Value value, Loc loc);
  /// Whether something was written in place to that memory.
  [[nodiscard]] bool is_overwritten(Value memory) const;
  bool keeps_layout(const Tensor& target, Value written, const TensorImpl& value, Loc loc);
  void find_writes();
  /// Makes the caller's arguments leaves that require gradients, or none any more, where the
  /// function did so.
  void switch_arguments();
  [[nodiscard]] bool grad_is_written(const GradNote& note) const;
  void refuse_writes_to_shared_memory();
  /// How an operator computes may depend on how its operands lie: those of memory with gaps that
  /// was written lie otherwise when replayed.
  void refuse_written_gaps(const OpInfo& op, TensorRefs inputs, Loc loc);
  /// The slices that a taped loop gives have memory of their own in the graph.
  void refuse_sliced(const GraphValue& target, Loc loc);
  void decide(const Tensor& tensor, std::int64_t outcome, Decision::Kind kind, Loc loc);
  [[nodiscard]] GradLeaf grad_leaf(const Tensor& leaf) const;
  /// The position of an argument's alias, or -1.
  [[nodiscard]] int argument_index(const Tensor& tensor) const noexcept;
  /// Whether no argument before it is the same tensor.
  [[nodiscard]] bool is_first_of_its_kind(std::size_t argument) const noexcept;
  void apply_as_given(const OpInfo& op, TensorRefs inputs, const void* attrs,
                      std::span<Tensor> outputs, Loc loc);
  /// Where a tensor lies that is left to the caller, and has that value.
  Place place_of(const Tensor& tensor, Value value, Loc loc);
  /// Puts loops in the place of the steps of those on the tape.
  void roll_taped();
  /// Says what new gradients leaves have after the call.
  void find_grad_writes(Loc loc);
  /// What is left to the caller in the call's own memory is taken from that where others show it
  /// too.
  void join_places(Loc loc);
  /// Whether only data tell where one of the views lies.
  [[nodiscard]] bool is_placed_by_data(const std::vector<Value>& views) const;
  /// Records the gradients of the results by what they were computed from, for a backward() after
  /// the call.
  void record_backward(std::span<const Tensor> results, Loc loc);
  /// Records as path_.backward how to differentiate what `part` names, given the results and seeds
  /// for them; false where the tape cannot.
  bool record_backward_of(BackwardPart part, std::span<const Tensor> results,
                          std::span<const Tensor> seeds, Loc loc);
  /// Notes that the tape of these results is of no use any more.
  void note_spent(std::span<const Tensor> results, const std::vector<int>& outputs);
  void refuse(std::string reason, Loc loc);
  void check_types(const Node& node, std::span<const Tensor> outputs);
  /// Notes that the recording depends on sizes; refuses those that only the data of a call tell.
  void guard(const DimGuard& made);
  /// Whether what is assumed tells the answer.
  [[nodiscard]] bool is_assumed(const DimGuard& made) const;
  [[nodiscard]] bool is_told_by_data(Dim size) const;

  Ref<GraphImpl> graph_;
  std::unique_ptr<Tracer> tracer_;
  std::vector<Tensor> given_;      ///< the caller's arguments
  std::vector<Tensor> arguments_;  ///< the same memory, known to this recording
  std::unordered_map<const TensorImpl*, Capture> captures_;
  std::vector<const TensorImpl*> capture_order_;  ///< those with a variable of their own
  std::unordered_multimap<const Storage*, const TensorImpl*> captures_by_storage_;
  std::vector<Ref<GraphValue>> grad_handles_;  ///< of path_.grad_captures
  std::vector<std::pair<Dim, Loc>> asked_;     ///< sizes, and where the program asked last
  std::vector<DimGuard> assumed_;
  std::optional<GuardedSizes> of_assumed_;  ///< what follows from these; none without
  std::vector<Dim> open_sizes_;           ///< symbols of sizes that only the data of this call told
  std::vector<Tensor> literals_;          ///< filled by the host during this call
  std::vector<Tensor> detached_;          ///< made during this call of memory from outside
  RecordedLoop* slicing_loop_ = nullptr;  ///< open, and its slices have a length of their own
  struct SlicedMemory {
    Value of, content;  ///< see GraphValue
    Value slices;
    std::int64_t loop = 0;
    bool is_open = true;
  };
  std::vector<SlicedMemory> sliced_;               ///< of taped loops
  std::unordered_set<const Node*> sizes_guarded_;  ///< with the sizes of their operands
  std::vector<Value> written_;                     ///< arguments and captured tensors, as memory
  std::vector<std::pair<Tensor, Tensor>> same_;    ///< eagerly the first is the second, which is
                                                   ///< the first of no other pair
  std::vector<Reshaped> reshaped_;
  std::vector<Repeated> repeated_;
  std::vector<BackwardPart::Rule> rules_;  // of the backward pass of the results, in its order
  bool notes_rules_ = false;               // while that goes through several results
  int rule_begin_ = 0;                     // nodes before the last rule
  int outer_pass_ = -1;  // where the backward pass of the results begins, while that is recorded
  bool reshape_copied_ = false;
  int loops_ = 0;                              ///< RecordedLoops so far
  int open_loops_ = 0;                         ///< those that are not over
  std::vector<Ref<GraphValue>> loop_handles_;  ///< made in the steps of open loops
  std::vector<TracedPart> loop_parts_;         ///< of conds in their steps
  std::vector<TapedLoop> taped_loops_;
  std::vector<Ref<GraphValue>> taped_handles_;  ///< made in their steps, and after the first one
  std::vector<TapeVisit> visits_;               ///< of passes since then
  int passes_ = 0, open_passes_ = 0;
  std::int64_t taped_ = 0, writes_ = 0;  ///< how often it did so
  BeforeCall* before_ = nullptr;         ///< none: nobody asks
  Path path_;
};

}  // namespace dyad::exec
