#include <algorithm>
#include <optional>
#include <set>

#include "dyad/exec/executable_draft.h"
#include "dyad/ops/attrs/indexing.h"

namespace dyad::exec {
namespace {

/// Finds concatenations whose parts lie in the result as they lie alone.
class PartJoiner {
 public:
  explicit PartJoiner(Draft& draft) : draft_(draft) {
    for (const int slot : draft.outputs) kept_.insert(slot_at(slot).buffer);
    for (const DraftWrite& write : draft.writes) kept_.insert(slot_at(write.value).buffer);
  }

  void run() {
    std::erase_if(draft_.steps, [&](const DraftStep& step) {
      if (!step.node->is("concat") || step.kind == DraftStep::Kind::rows) return false;
      const auto places = places_of(step);
      if (!places) return false;
      for (const Place& place : *places) move(place);
      return true;
    });
  }

 private:
  /// Where a buffer goes: into that of a slot, `offset` bytes after its start.
  struct Place {
    int buffer = -1, into = -1;
    std::size_t offset = 0;
  };

  [[nodiscard]] const Slot& slot_at(int slot) const {
    return draft_.slots[static_cast<std::size_t>(slot)];
  }

  /// Places of the parts of a concatenation; nothing unless all have one.
  [[nodiscard]] std::optional<std::vector<Place>> places_of(const DraftStep& step) const {
    const int result = step.writes[0];
    const TensorImpl& whole = draft_.tensor(result);
    if (!fills_arena_buffer(result)) return std::nullopt;
    const std::int64_t given = reinterpret_cast<const ops::AxisAttrs*>(step.attrs->data())->axis;
    const std::size_t axis =
        static_cast<std::size_t>(given < 0 ? given + whole.shape.rank() : given);
    std::vector<Place> places;
    std::set<int> taken{slot_at(result).buffer};
    std::int64_t begin = 0;
    for (const int slot : step.reads) {
      const TensorImpl& part = draft_.tensor(slot);
      const std::int64_t before = begin;
      begin += part.shape[axis].number();
      if (part.numel() == 0) continue;
      const int buffer = slot_at(slot).buffer;
      const bool moves = part.dtype == whole.dtype && fills_arena_buffer(slot) &&
                         !kept_.contains(buffer) && lies_as_in(part, whole) &&
                         taken.insert(buffer).second;
      if (!moves) return std::nullopt;
      places.push_back(
          {buffer, slot_at(result).buffer,
           static_cast<std::size_t>(before * whole.strides[axis]) * size_of(whole.dtype)});
    }
    return places;
  }

  [[nodiscard]] bool fills_arena_buffer(int slot) const {
    const Buffer& buffer = draft_.buffers[static_cast<std::size_t>(slot_at(slot).buffer)];
    const TensorImpl& tensor = draft_.tensor(slot);
    return buffer.source == Source::arena && slot_at(slot).offset == 0 &&
           buffer.bytes == static_cast<std::size_t>(tensor.numel()) * size_of(tensor.dtype);
  }

  static bool lies_as_in(const TensorImpl& part, const TensorImpl& whole) {
    for (std::size_t i = 0; i < part.shape.size(); ++i) {
      if (part.shape[i].number() > 1 && part.strides[i] != whole.strides[i]) return false;
    }
    return true;
  }

  void move(const Place& place) {
    for (Slot& slot : draft_.slots) {
      if (slot.buffer != place.buffer) continue;
      slot.buffer = place.into;
      slot.offset += place.offset;
    }
  }

  Draft& draft_;
  std::set<int> kept_;  ///< buffers that get a place of their own
};

}  // namespace

void join_parts_in_place(Draft& draft) { PartJoiner(draft).run(); }

}  // namespace dyad::exec
