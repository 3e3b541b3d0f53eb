#include <algorithm>
#include <limits>
#include <unordered_map>
#include <unordered_set>

#include "dyad/exec/executable_draft.h"
#include "dyad/passes/fused_op.h"

namespace dyad::exec {
namespace {

bool is_callers(Source source) {
  return source == Source::placeholder || source == Source::variable || source == Source::constant;
}

/// Puts the steps that write variables last.
class WriteOrder {
 public:
  explicit WriteOrder(Draft& draft) : draft_(draft) {}

  void run() {
    give_outputs_memory();
    save_old_values();
    const std::vector<bool> late = find_late_steps();
    std::vector<DraftStep> ordered;
    for (std::size_t i = 0; i < draft_.steps.size(); ++i) {
      if (!late[i]) ordered.push_back(draft_.steps[i]);
    }
    draft_.commit = ordered.size();
    for (std::size_t i = 0; i < draft_.steps.size(); ++i) {
      if (late[i]) ordered.push_back(draft_.steps[i]);
    }
    draft_.steps = std::move(ordered);
    find_late_uses();
    const bool any_part = std::ranges::any_of(draft_.steps, writes_part);
    std::erase_if(draft_.writes, [&](const DraftWrite& write) {
      if (write.output < 0 || write_in_place(write)) return false;
      draft_.buffer_of(write.value).source = Source::output;
      return true;
    });
    for (const DraftWrite& write : draft_.writes) {
      if (write.output >= 0) continue;
      const bool alone = lies_alone(write.variable);
      if (alone && any_part && write_parts_in_place(draft_, write)) {
        find_late_uses();
      } else if (!alone || !write_in_place(write)) {
        add_copy_step(write.value, write.variable, write.node);
      }
    }
  }

 private:
  [[nodiscard]] int buffer(int slot) const {
    return slot < 0 ? -1 : draft_.slots[static_cast<std::size_t>(slot)].buffer;
  }

  void add_copy_step(int from, int to, const Node* node) {
    DraftStep& step = draft_.steps.emplace_back();
    step.kind = DraftStep::Kind::copy;
    step.node = node;
    step.reads = {from};
    step.writes = {to};
  }

  /// A new value with the elements of `slot`, copied before anything is written.
  int copied(int slot, Source source, const Node* node) {
    const Tensor from = draft_.slots[static_cast<std::size_t>(slot)].tensor;
    const int to = draft_.add_value(from.dtype(), from.shape(), contiguous_strides(from.shape()));
    draft_.buffer_of(to).source = source;
    add_copy_step(slot, to, node);
    return to;
  }

  void give_outputs_memory() {
    for (std::size_t i = 0; i < draft_.outputs.size(); ++i) {
      const bool is_offered = std::ranges::find(draft_.writes, static_cast<int>(i),
                                                &DraftWrite::output) != draft_.writes.end();
      if (draft_.given_back[i] || is_offered) continue;
      int& output = draft_.outputs[i];
      Buffer& held = draft_.buffer_of(output);
      if (held.source == Source::arena) {
        held.source = Source::output;
      } else if (is_callers(held.source)) {
        output = copied(output, Source::output, draft_.output_nodes[i]);
      }
    }
  }

  /// A value that lies in a variable which this run writes is copied before.
  void save_old_values() {
    std::unordered_set<int> written;  // buffers
    std::unordered_set<const Storage*> storages;
    for (const DraftWrite& write : draft_.writes) {
      written.insert(buffer(write.variable));
      storages.insert(storage(buffer(write.variable)));
    }
    storages.erase(nullptr);
    for (DraftWrite& write : draft_.writes) {
      const int lies_in = buffer(write.value);
      if (written.contains(lies_in) || storages.contains(storage(lies_in)))
        write.value = copied(write.value, Source::arena, write.node);
    }
  }

  /// Of what has memory before the run; else null.
  [[nodiscard]] const Storage* storage(int which) const {
    const Tensor& base = draft_.buffers[static_cast<std::size_t>(which)].base;
    return base.defined() ? base.impl()->storage.get() : nullptr;
  }

  /// What write_in_place() asks of the late steps for each variable, and of the slots.
  void find_late_uses() {
    const std::size_t buffers = draft_.buffers.size();
    first_write_.assign(buffers, draft_.steps.size());
    last_read_.assign(buffers, 0);
    slots_in_.assign(buffers, 0);
    variables_at_.clear();
    for (const Slot& slot : draft_.slots) ++slots_in_[static_cast<std::size_t>(slot.buffer)];
    for (const Buffer& one : draft_.buffers) {
      if (one.source == Source::variable && one.base.defined())
        ++variables_at_[one.base.impl()->storage.get()];
    }
    for (std::size_t i = draft_.commit; i < draft_.steps.size(); ++i) {
      for (const int slot : draft_.steps[i].writes) {
        std::size_t& first = first_write_[static_cast<std::size_t>(buffer(slot))];
        first = std::min(first, i);
      }
      for (const int slot : draft_.steps[i].reads) {
        if (slot >= 0) last_read_[static_cast<std::size_t>(buffer(slot))] = i;
      }
    }
  }

  /// Whether no other variable is in the memory of this one.
  [[nodiscard]] bool lies_alone(int variable) const {
    const Buffer& own = draft_.buffers[static_cast<std::size_t>(buffer(variable))];
    // Of a placeholder that is written a run looks itself.
    return own.source == Source::placeholder ||
           variables_at_.at(own.base.impl()->storage.get()) == 1;
  }

  /// Steps that cannot fail, and whose results may be written over old values.
  static bool may_be_late(const DraftStep& step) {
    return step.kind == DraftStep::Kind::kernel ||
           (step.kind == DraftStep::Kind::opaque && step.elementwise) ||
           (step.kind == DraftStep::Kind::rows && std::ranges::all_of(step.members, may_be_late));
  }

  /// Kernels that compute what is written to a variable, and that only such kernels read.
  [[nodiscard]] std::vector<bool> find_late_steps() const {
    std::vector<bool> late(draft_.steps.size(), false);
    std::vector<bool> written(draft_.buffers.size(), false),
        read_early(draft_.buffers.size(), false);
    for (const DraftWrite& write : draft_.writes) {
      written[static_cast<std::size_t>(buffer(write.value))] = true;
    }
    for (std::size_t i = draft_.steps.size(); i-- > 0;) {
      const DraftStep& step = draft_.steps[i];
      bool computes_write = false, needed_early = false;
      for (const int slot : step.writes) {
        computes_write = computes_write || written[static_cast<std::size_t>(buffer(slot))];
        needed_early = needed_early || read_early[static_cast<std::size_t>(buffer(slot))];
      }
      late[i] = may_be_late(step) && computes_write && !needed_early;
      if (late[i]) continue;
      for (const int slot : step.reads) {
        if (slot >= 0) read_early[static_cast<std::size_t>(buffer(slot))] = true;
      }
    }
    return late;
  }

  /// Lets the kernel that computes the new value write it over the old one, if nothing reads the
  /// old one afterwards.
  bool write_in_place(const DraftWrite& write) {
    const auto value = static_cast<std::size_t>(buffer(write.value)),
               variable = static_cast<std::size_t>(buffer(write.variable));
    if (draft_.buffers[value].source != Source::arena || slots_in_[value] != 1) return false;
    const std::size_t computed = first_write_[value];
    if (computed == draft_.steps.size() || last_read_[variable] > computed) return false;
    const DraftStep& step = draft_.steps[computed];
    if (!step.elementwise || !reads_only_as_a_whole(step, write.variable)) return false;
    // From here on the value is the variable, in the variable's layout.
    draft_.slots[static_cast<std::size_t>(write.value)] =
        draft_.slots[static_cast<std::size_t>(write.variable)];
    return true;
  }

  /// True when the step reads the variable, if at all, in the layout in which it is written.
  [[nodiscard]] bool reads_only_as_a_whole(const DraftStep& step, int variable) const {
    return std::ranges::all_of(step.reads, [&](int slot) {
      return buffer(slot) != buffer(variable) || draft_.same_layout(slot, variable);
    });
  }

  Draft& draft_;
  // By buffer, of the steps from the commit on: the first that writes it, the last that reads it.
  std::vector<std::size_t> first_write_, last_read_;
  std::vector<int> slots_in_;                             // by buffer
  std::unordered_map<const Storage*, int> variables_at_;  // how many lie there
};

void note_uses(Draft& draft, const DraftStep& step, int number) {
  for (const std::vector<int>* slots : {&step.reads, &step.writes}) {
    for (const int slot : *slots) {
      if (slot < 0) continue;
      Buffer& buffer = draft.buffer_of(slot);
      if (buffer.first_step < 0) buffer.first_step = number;
      buffer.last_step = number;
    }
  }
  for (const DraftStep& member : step.members) note_uses(draft, member, number);
}

/// Whether the members of a `rows` step are through with a row of an input's buffer when the row of
/// `written`, of the same layout, is written.
bool is_read_before(const Draft& draft, const DraftStep& rows, int buffer, int written) {
  bool done = false;
  for (const DraftStep& member : rows.members) {
    const bool writes = std::ranges::find(member.writes, written) != member.writes.end();
    bool reads = false;
    for (std::size_t i = 0; i < member.reads.size(); ++i) {
      const int slot = member.reads[i];
      if (slot < 0 || draft.slots[static_cast<std::size_t>(slot)].buffer != buffer) continue;
      reads = true;
      // Tables are read by all rows, positions once more where one of them is refused.
      const bool is_split = member.kind != DraftStep::Kind::opaque ||
                            passes::row_operand(*member.node, i) == passes::RowOperand::split;
      if (!is_split) return false;
    }
    const bool own_row_only = member.space_rank == draft.tensor(written).shape.rank();
    if (reads && (done || !own_row_only || (writes && !member.elementwise))) return false;
    done = done || writes;
  }
  return true;
}

/// An input of step `i` whose memory the output `written` may take over, or -1.
int find_dying_input(Draft& draft, int i, int written) {
  const DraftStep& step = draft.steps[static_cast<std::size_t>(i)];
  const bool rows = step.kind == DraftStep::Kind::rows, any_input = step.elementwise || rows;
  for (std::size_t read = 0; read < step.reads.size(); ++read) {
    const int slot = step.reads[read];
    if (slot < 0 || (!any_input && static_cast<int>(read) != step.takes_over)) continue;
    const Buffer& buffer = draft.buffer_of(slot);
    if (buffer.source != Source::arena || buffer.last_step != i || buffer.first_step == i) continue;
    const int number = draft.slots[static_cast<std::size_t>(slot)].buffer;
    bool fits = true;
    for (std::size_t other = 0; other < step.reads.size(); ++other) {
      const int also = step.reads[other];
      if (also < 0 || draft.slots[static_cast<std::size_t>(also)].buffer != number) continue;
      fits = fits && (any_input || other == read) && draft.same_layout(also, written);
    }
    if (fits && (!rows || is_read_before(draft, step, number, written))) return slot;
  }
  return -1;
}

/// Makes the values of one buffer values of another one.
void move_slots(Draft& draft, int from, int into) {
  for (Slot& slot : draft.slots) {
    if (slot.buffer == from) slot.buffer = into;
  }
  Buffer& left = draft.buffers[static_cast<std::size_t>(from)];
  left.first_step = left.last_step = -1;
}

/// Element-wise kernels, those on rows, and those that may, write over inputs that nobody needs
/// afterwards.
void reuse_in_place(Draft& draft) {
  for (int i = 0; i < static_cast<int>(draft.steps.size()); ++i) {
    const DraftStep& step = draft.steps[static_cast<std::size_t>(i)];
    const bool any_input = step.elementwise || step.kind == DraftStep::Kind::rows;
    if (!any_input && step.takes_over < 0) continue;
    for (const int written : step.writes) {
      if (!any_input && written != step.writes[0]) break;
      Buffer& made = draft.buffer_of(written);
      if (made.source != Source::arena || made.first_step != i || made.last_step == i) continue;
      const int dying = find_dying_input(draft, i, written);
      if (dying < 0) continue;
      Buffer& taken = draft.buffer_of(dying);
      if (taken.bytes < made.bytes) continue;  // a part of a larger value
      taken.last_step = made.last_step;
      move_slots(draft, draft.slots[static_cast<std::size_t>(written)].buffer,
                 draft.slots[static_cast<std::size_t>(dying)].buffer);
    }
  }
}

/// Keeps kernels from working in the memory of an input that somebody needs afterwards.
void keep_from_spoiling(Draft& draft) {
  for (int i = 0; i < static_cast<int>(draft.steps.size()); ++i) {
    DraftStep& step = draft.steps[static_cast<std::size_t>(i)];
    if (step.spoils < 0) continue;
    const int slot = step.reads[static_cast<std::size_t>(step.spoils)];
    if (slot < 0) {
      step.spoils = -1;  // an absent input
      continue;
    }
    const Buffer& buffer = draft.buffer_of(slot);
    const auto lies_there = [&](int other) {
      return other >= 0 && &draft.buffer_of(other) == &buffer;
    };
    const bool may = buffer.source == Source::arena && buffer.last_step == i &&
                     std::ranges::count_if(step.reads, lies_there) == 1 &&
                     std::ranges::none_of(step.writes, lies_there);
    if (!may) step.spoils = -1;
  }
}

/// What is kept of variables, and where it belongs, is needed until nothing fails any more.
void keep_what_is_saved(Draft& draft) {
  for (const DraftStep& step : draft.steps) {
    if (step.kind != DraftStep::Kind::save) continue;
    for (const std::vector<int>* slots : {&step.reads, &step.writes}) {
      for (const int slot : *slots) {
        if (slot >= 0) draft.buffer_of(slot).last_step = static_cast<int>(draft.steps.size()) - 1;
      }
    }
  }
}

}  // namespace

void order_writes(Draft& draft) { WriteOrder(draft).run(); }

ArenasPlan place_memory(Draft& draft) {
  for (std::size_t i = 0; i < draft.steps.size(); ++i) {
    note_uses(draft, draft.steps[i], static_cast<int>(i));
  }
  send_past_caches(draft);
  keep_what_is_saved(draft);
  reuse_in_place(draft);
  keep_from_spoiling(draft);
  std::vector<BufferRequest> requests;
  std::vector<LaterMemory> later;
  std::vector<int> placed, outputs;  // buffers
  for (std::size_t i = 0; i < draft.buffers.size(); ++i) {
    const Buffer& buffer = draft.buffers[i];
    if (buffer.first_step < 0 || buffer.bytes == 0) continue;
    if (buffer.source == Source::output) {
      later.push_back({buffer.bytes, draft.taken_before(buffer.first_step), buffer.first_step});
      outputs.push_back(static_cast<int>(i));
    } else if (buffer.source == Source::arena) {
      requests.push_back({buffer.bytes, buffer.first_step, buffer.last_step});
      placed.push_back(static_cast<int>(i));
    }
  }
  const std::vector<int> lies_in = lend(requests, later);
  for (std::size_t i = lies_in.size(); i-- > 0;) {
    if (lies_in[i] < 0) continue;
    const int output = outputs[static_cast<std::size_t>(lies_in[i])];
    Buffer& host = draft.buffers[static_cast<std::size_t>(output)];
    host.first_step = std::min(host.first_step, requests[i].first);
    move_slots(draft, placed[i], output);
    requests.erase(requests.begin() + static_cast<std::ptrdiff_t>(i));
    placed.erase(placed.begin() + static_cast<std::ptrdiff_t>(i));
  }
  ArenasPlan plan =
      plan_arenas(requests, later, draft.taken_before(std::numeric_limits<int>::max()));
  for (std::size_t i = 0; i < placed.size(); ++i) {
    Buffer& buffer = draft.buffers[static_cast<std::size_t>(placed[i])];
    buffer.offset = plan.offsets[i];
    buffer.arena = plan.arena_of[i];
  }
  return plan;
}

}  // namespace dyad::exec
