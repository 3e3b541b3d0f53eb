#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "dyad/exec/executable_plan.h"
#include "dyad/exec/memory_plan.h"
#include "dyad/ir/attrs.h"

namespace dyad::exec {

/// What planning needs to know of a tensor: a concrete one of that layout that has no memory.
[[nodiscard]] Tensor without_memory(DType dtype, const Shape& shape, const Strides& strides);
[[nodiscard]] Tensor without_memory(const Tensor& tensor);
/// Row-major ones for values whose sizes are numbers.
[[nodiscard]] std::vector<Tensor> without_memory(std::span<const Value> values);

/// How steps that work on the same rows are cut into blocks: along one axis of their spaces, for
/// each place of the axes before it. Where sums over rows are made part by part (RowSums), a place
/// is cut into stretches that end where a part does.
struct RowBlocks {
  Ints sizes;                       ///< of the axes up to that one, which is the last
  std::int64_t rows = 1;            ///< of a block, along it
  std::int64_t stretch = 1;         ///< rows along it that are cut into blocks by themselves
  std::int64_t part_stretches = 0;  ///< in each part that is summed up; 0: nothing is
  std::int64_t grain = 1;           ///< blocks that are worth a thread
  std::size_t scratch_bytes = 0;    ///< for what only the members read

  [[nodiscard]] std::size_t axis() const noexcept { return sizes.size() - 1; }
  [[nodiscard]] std::int64_t blocks_of_stretch() const noexcept {
    return (stretch + rows - 1) / rows;
  }
  [[nodiscard]] std::int64_t stretches_of_place() const noexcept {
    return (sizes.back() + stretch - 1) / stretch;
  }
  /// Of all places; some have no rows where the last stretch is shorter.
  [[nodiscard]] std::int64_t blocks() const noexcept {
    std::int64_t count = stretches_of_place() * blocks_of_stretch();
    for (std::size_t d = 0; d < axis(); ++d) count *= sizes[d];
    return count;
  }
};

/// A step while the plan is being made: what it reads and writes, not yet how.
struct DraftStep {
  enum class Kind : std::uint8_t {
    kernel,   ///< a generated kernel: pointwise, reduction or fused
    opaque,   ///< a kernel of the runtime
    copy,     ///< of elements, reads[0] to writes[0]
    control,  ///< graphs inside the node
    rows,     ///< its members, block by block
    save,     ///< keeps what the next step, `node`, will write over in reads[0], a variable
  };
  Kind kind = Kind::kernel;
  const Node* node = nullptr;
  Ref<Attrs> attrs;          ///< the node's, sizes as numbers
  std::vector<int> reads;    ///< slots; -1 for an absent input
  std::vector<int> writes;   ///< slots
  bool elementwise = false;  ///< of an input in its layout, output element i needs element i only
  int takes_over = -1;       ///< the read in whose memory writes[0] may lie although it is not
  int spoils = -1;           ///< the read in whose memory it works if nobody needs it any more
  std::vector<std::size_t> given_away;  ///< of a cond: the reads that nobody else needs
  std::vector<DraftStep> members;       ///< of rows
  int space_rank = 0;                   ///< of a member: axes of the space that it runs over
  bool past_caches = false;             ///< of a member: nothing reads its results soon
  RowBlocks blocks = {};                ///< of rows
};

/// Steps from number `first` to `last`, both included.
struct StepRange {
  std::size_t first = 0, last = 0;
};

/// `variable`, or a placeholder, gets the value of `slot` at the end of the run.
struct DraftWrite {
  int variable = -1;  ///< slot
  int value = -1;     ///< slot
  const Node* node = nullptr;
  int output = -1;  ///< of that number, which lies there only where nothing has to be copied
};

/// A plan in the making: values with their layouts, and steps in program order.
struct Draft {
  std::vector<Buffer> buffers;
  std::vector<Slot> slots;
  std::vector<DraftStep> steps;
  std::vector<DraftWrite> writes;
  std::vector<int> outputs;  ///< slots
  std::vector<const Node*> output_nodes;
  std::vector<bool> given_back;  ///< outputs that lie in the memory of a placeholder
  /// Of the graph's values, and of those of the graphs in `rows` nodes.
  std::unordered_map<Value, int, ValueHash> slot_of;
  int views = 0;
  std::size_t commit = 0;           ///< set by order_writes
  std::vector<StepRange> together;  ///< set by find_together
  std::vector<std::string> notes;   ///< how the members of `rows` nodes run

  [[nodiscard]] const TensorImpl& tensor(int slot) const {
    return *slots[static_cast<std::size_t>(slot)].tensor.impl();
  }
  [[nodiscard]] Buffer& buffer_of(int slot) {
    return buffers[static_cast<std::size_t>(slots[static_cast<std::size_t>(slot)].buffer)];
  }
  /// Nothing to compute: no element is written, and nothing else happens.
  [[nodiscard]] bool is_empty(const DraftStep& step) const;
  /// Whether element i of both lies at one place of their buffers, for all i.
  [[nodiscard]] bool same_layout(int a, int b) const;
  int add_buffer(Source source, Tensor base = {}, int index = 0);
  /// A value of that layout in a buffer, `offset` elements after its start.
  int add_slot(int buffer, DType dtype, const Shape& shape, const Strides& strides,
               std::int64_t offset);
  /// The step before which memory that is first needed in step `first` is taken. None is taken once
  /// variables are written, because that can fail.
  [[nodiscard]] int taken_before(int first) const {
    return std::min(first, std::max(static_cast<int>(commit) - 1, 0));
  }
  /// A value that fills a new buffer of an arena.
  int add_value(DType dtype, const Shape& shape, const Strides& strides);
};

/// The values and steps of a lowered graph at these sizes, layouts as eager execution has them.
[[nodiscard]] Draft lay_out(const GraphImpl& lowered, const SymbolMap& symbols,
                            std::span<const Tensor> placeholders);

/// Makes one step of the last steps from number `first` on, the members of `node` (a `rows` node)
/// whose results are the slots `results`, if they can be cut into blocks that fit the cache: their
/// other values then lie in scratch.
void join_rows(Draft& draft, std::size_t first, const Node& node, std::span<const int> results,
               const SymbolMap& symbols);

/// Lets members of `rows` steps store results past the caches that no later step reads, where the
/// step reads and writes more than the caches hold.
void send_past_caches(Draft& draft);

/// Lets steps write the parts of a concatenation where they belong in its result, if each lies
/// there as it does alone: then there is nothing to copy.
void join_parts_in_place(Draft& draft);

/// Gives conds the memory of what only they read, and offers outputs that of placeholders of their
/// types which are given away, each once.
void use_given_away(Draft& draft, const GraphImpl& lowered, PlaceholderUse use);

/// Gives outputs memory of their own, and puts the steps that write variables last: in place where
/// nobody needs the old value any more, otherwise as copies at the very end.
void order_writes(Draft& draft);

/// Whether a step surely succeeds, whatever its values.
[[nodiscard]] bool cannot_fail(const DraftStep& step);
/// Moves the steps that write variables to where what they read is known and their old values are
/// not needed any more, where that lowers the most memory of all steps: gradients that the program
/// drops then make way for one another. Behind the first of these steps none can fail.
void update_early(Draft& draft);

/// Whether the result of a step is its first input but for a part, as that of slice_scatter is.
[[nodiscard]] bool writes_part(const DraftStep& step);
/// Lets such steps write to the variable itself, in whose memory no other is, one after the other,
/// if who reads it before reads it earlier; false where that cannot be done. What they write over
/// is kept where a later step may fail.
bool write_parts_in_place(Draft& draft, const DraftWrite& write);

/// Finds how long each buffer is needed, lets element-wise kernels write over inputs that nobody
/// needs any more, and packs the rest into arenas.
[[nodiscard]] ArenasPlan place_memory(Draft& draft);

/// Finds pointwise kernels that follow one another and need nothing of one another, such as the
/// updates of parameters: the team is called once for all of them, with no `events` between.
void find_together(Draft& draft, std::span<const MemoryEvent> events);

}  // namespace dyad::exec
