#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dyad/core/dim.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/ir/graph.h"
#include "dyad/runtime/cancel.h"

namespace dyad::exec {

/// Where the memory of a buffer comes from.
enum class Source : std::uint8_t {
  arena,        ///< the executable's own memory, for some steps of a run
  placeholder,  ///< the caller's tensor
  variable,     ///< a captured tensor
  constant,     ///< a literal of the graph
  output,       ///< fresh memory for each run, given to the caller
  control,      ///< what a control operator's graphs returned
  scratch,      ///< of each thread, for some rows at a time
};

/// A block of memory of a plan.
struct Buffer {
  Source source = Source::arena;
  int index = 0;  ///< of the placeholder
  /// The variable or constant; of a control step what it made, and before it ran the place where
  /// the caller wants that, if any.
  Tensor base;
  bool is_shared = false;  ///< something else that the control step made lies there
  std::size_t bytes = 0;   ///< of what a run makes: arena, output, control and scratch
  std::size_t offset = 0;  ///< arena and scratch
  int arena = 0;           ///< which
  int first_step = -1, last_step = -1;
};

/// Memory that the intermediate values of some steps lie in.
struct Arena {
  std::size_t bytes = 0;
  std::vector<int> buffers;
};

/// Memory that comes or goes just before a step.
struct MemoryEvent {
  enum class Kind : std::uint8_t { drop_arena, take_arena, take_output };
  std::size_t step = 0;
  Kind kind = Kind::take_arena;
  int index = 0;  ///< of the arena, or the output's buffer
};

/// A value of a plan: a tensor made in advance over part of a buffer; its data pointer is set when
/// the buffer's place is known.
struct Slot {
  Tensor tensor;
  int buffer = -1;
  std::size_t offset = 0;  ///< bytes from the start of the buffer
};

/// What a step may know of the run that it is part of.
struct RunContext {
  const SymbolMap& symbols;
  const CancelToken* cancel;
  Loc where;
};

class Plan;

/// One thing that a run does.
class Step {
 public:
  explicit Step(const Node* node) : node_(node) {}
  virtual ~Step() = default;
  virtual void run(Plan& plan, const RunContext& context) = 0;
  /// Whether a run counts the times of several nodes by itself.
  [[nodiscard]] virtual bool times_itself() const noexcept { return false; }
  /// Adds the nodes that it computes.
  virtual void add_nodes(std::vector<const Node*>& to) const { to.push_back(node_); }
  /// Takes back what the run of the steps behind it wrote to a variable, after one of them failed.
  virtual void undo() noexcept {}
  [[nodiscard]] const Node& node() const noexcept { return *node_; }

 private:
  const Node* node_;
};

/// What a run may do to the memory of its placeholders.
struct PlaceholderUse {
  bool writes_back = false;      ///< outputs that placeholders get lie there
  std::uint64_t given_away = 0;  ///< bit i: outputs may lie where placeholder i does
  bool may_spoil = false;        ///< what is given away nobody needs, even if the run fails
  [[nodiscard]] bool operator==(const PlaceholderUse&) const noexcept = default;
};

/// Everything about running a graph at given sizes that does not change from run to run: the steps,
/// their tensors and kernels, and where memory lies.
class Plan {
 public:
  explicit Plan(std::vector<Buffer> all_buffers)
      : buffers(std::move(all_buffers)),
        bound_(buffers.size(), nullptr),
        fresh_(buffers.size()),
        patches_(buffers.size()) {}

  /// Runs the steps; those from `commit` on write variables, cannot fail and are not cancelled.
  /// What is written to parts of variables before is taken back where a step fails.
  /// `places`: see Executable::run_region.
  std::vector<Tensor> run(std::span<const Tensor> placeholders, const CancelToken* cancel,
                          Loc where, std::span<const Tensor> places = {});

  /// Points everything that looks at a buffer to where it lies now.
  void set_base(int buffer, std::byte* data, const Ref<Storage>& storage);
  /// The same with the tensor that a control step's graph returned (row-major). `is_shared`:
  /// another one that it returned lies in the same memory.
  void set_result(int buffer, const Tensor& result, bool is_shared);

  std::vector<std::int64_t> key;  ///< sizes and strides of the placeholders
  std::vector<DType> dtypes;      ///< of the placeholders
  std::vector<int> ranks;
  PlaceholderUse use;
  bool is_hot = false;                  ///< of a graph with these sizes as numbers
  std::shared_ptr<const void> version;  ///< that graph, where nobody else keeps it
  int hot_versions = 0;  ///< of those there are, how many it was compared with: none outdoes it
  bool is_new = true;    ///< it was never put back
  std::int64_t runs = 0;
  SymbolMap outer;  ///< symbols given from outside
  SymbolMap symbols;
  std::vector<Buffer> buffers;
  std::vector<Slot> slots;
  std::vector<std::unique_ptr<Step>> steps;
  std::vector<Arena> arenas;
  /// By step: arenas and outputs are there from the first step that needs them on, arenas to their
  /// last ones. Outputs that no step writes are there from the start.
  std::vector<MemoryEvent> events;
  std::size_t commit = 0;       ///< the first step that writes a variable
  std::vector<int> outputs;     ///< slots
  std::vector<int> written;     ///< buffers of the variables that a run writes
  std::vector<int> taken;       ///< placeholders, by number, where outputs lie
  std::size_t arena_bytes = 0;  ///< of all arenas
  std::size_t live_peak = 0;
  int kernels = 0, views = 0;
  std::vector<std::string> notes;  ///< how the members of `rows` nodes run

  /// Keeps `*address` at the slot's first element, and the contents of a constant.
  void patch_address(int slot, void** address);
  /// Keeps the slot's tensor, its storage too, where its buffer is.
  void patch_tensor(int slot);
  /// The contents of a constant must not be away: they are read without a ContentsHold.
  void keep_contents(int slot) const;

 private:
  /// What to set when a buffer moves.
  struct Patch {
    std::size_t offset;
    void** address;    ///< of a kernel's operand
    TensorImpl* impl;  ///< or a tensor
  };
  void bind(std::span<const Tensor> placeholders);
  void place_outputs(std::span<const Tensor> places);
  void handle(const MemoryEvent& event);
  void take_arena(std::size_t number);
  void allocate_output(int buffer);
  [[nodiscard]] std::vector<Tensor> collect(std::span<const Tensor> placeholders);
  void let_go() noexcept;
  /// Step number `at` failed.
  void fail_at(std::size_t at) noexcept;

  /// By arena: its memory while a run has it, and where that was last, borrowed.
  struct ArenaMemory {
    Ref<Storage> held, borrowed;
  };
  std::vector<ArenaMemory> arena_memory_;
  std::vector<std::byte*> bound_;  // by buffer: the base set last, for variables
  /// Memory of an output: of its own, or where the caller wants it.
  struct Fresh {
    Ref<Storage> storage;
    std::byte* data = nullptr;
  };
  std::vector<Fresh> fresh_;                 // by buffer: of this run
  std::vector<std::vector<Patch>> patches_;  // by buffer
};

}  // namespace dyad::exec
