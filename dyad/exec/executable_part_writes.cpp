#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

#include "dyad/exec/executable_draft.h"

namespace dyad::exec {
namespace {

/// Those whose result is their first input but for a part.
constexpr std::array<std::string_view, 7> kPartWriters{
    "slice_scatter", "select_scatter", "scatter",    "scatter_add",
    "scatter_mul",   "scatter_max",    "scatter_min"};

/// From a variable to its new value by operators that replace a part each.
class PartWrites {
 public:
  PartWrites(Draft& draft, const DraftWrite& write) : draft_(draft), write_(write) {}

  bool run() {
    if (!find_links()) return false;
    if (!std::ranges::all_of(links_, [&](const Link& link) { return is_read_before(link); }))
      return false;
    for (const Link& link : links_) {
      for (Slot& slot : draft_.slots) {
        if (slot.buffer == link.made) slot.buffer = buffer(write_.variable);
      }
    }
    for (const Link& link : links_) save(link);
    return true;
  }

 private:
  struct Link {
    std::size_t step;
    int base, made;  ///< buffers
  };

  [[nodiscard]] int buffer(int slot) const {
    return draft_.slots[static_cast<std::size_t>(slot)].buffer;
  }
  [[nodiscard]] bool reads(const DraftStep& step, int which, std::size_t from = 0) const {
    return std::any_of(step.reads.begin() + static_cast<std::ptrdiff_t>(from), step.reads.end(),
                       [&](int slot) { return slot >= 0 && buffer(slot) == which; });
  }

  /// The last one first; false where they do not lead to the variable.
  bool find_links() {
    for (int value = write_.value;;) {
      if (draft_.buffer_of(value).source != Source::arena ||
          !draft_.same_layout(value, write_.variable))
        return false;
      const auto maker = std::ranges::find_if(draft_.steps, [&](const DraftStep& step) {
        return std::ranges::any_of(step.writes,
                                   [&](int slot) { return buffer(slot) == buffer(value); });
      });
      if (maker == draft_.steps.end() || !writes_part(*maker) || maker->writes[0] != value)
        return false;
      const int base = maker->reads[0];
      links_.push_back(
          {static_cast<std::size_t>(maker - draft_.steps.begin()), buffer(base), buffer(value)});
      if (buffer(base) == buffer(write_.variable)) return draft_.same_layout(base, write_.variable);
      value = base;
    }
  }

  /// Whether nobody needs what the link writes over, afterwards or for what it writes.
  [[nodiscard]] bool is_read_before(const Link& link) const {
    const auto& steps = draft_.steps;
    if (reads(steps[link.step], link.base, 1)) return false;
    const auto later = steps.begin() + static_cast<std::ptrdiff_t>(link.step) + 1;
    if (std::any_of(later, steps.end(), [&](const auto& s) { return reads(s, link.base); }))
      return false;
    return std::ranges::none_of(
        draft_.writes, [&](const DraftWrite& other) { return buffer(other.value) == link.base; });
  }

  void save(const Link& link) {
    if (link.step >= draft_.commit) return;
    const DraftStep& writer = draft_.steps[link.step];
    const bool by_index = writer.node->op().name.starts_with("scatter");
    const Tensor like = draft_.slots[static_cast<std::size_t>(writer.reads[1])].tensor;
    DraftStep step;
    step.kind = DraftStep::Kind::save;
    step.node = writer.node;
    step.attrs = writer.attrs;
    step.reads = {writer.reads[0], by_index ? writer.reads[1] : -1};
    step.writes = {draft_.add_value(draft_.tensor(write_.variable).dtype, like.shape(),
                                    contiguous_strides(like.shape()))};
    draft_.steps.insert(draft_.steps.begin() + static_cast<std::ptrdiff_t>(link.step),
                        std::move(step));
    ++draft_.commit;
  }

  Draft& draft_;
  const DraftWrite& write_;
  std::vector<Link> links_;
};

}  // namespace

bool writes_part(const DraftStep& step) {
  return step.kind == DraftStep::Kind::opaque &&
         std::ranges::find(kPartWriters, step.node->op().name) != kPartWriters.end();
}

bool write_parts_in_place(Draft& draft, const DraftWrite& write) {
  return PartWrites(draft, write).run();
}

}  // namespace dyad::exec
