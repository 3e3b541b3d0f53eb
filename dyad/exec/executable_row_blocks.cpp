#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dyad/codegen/recipe.h"
#include "dyad/exec/executable_bind.h"
#include "dyad/exec/executable_draft.h"
#include "dyad/exec/memory_plan.h"
#include "dyad/passes/fused_op.h"
#include "dyad/runtime/caches.h"
#include "dyad/runtime/op_kernel.h"
#include "dyad/runtime/planned_team.h"
#include "dyad/runtime/threads.h"

namespace dyad::exec {
namespace {

/// Finds the blocks for steps that work on the same rows.
class RowJoin {
 public:
  RowJoin(Draft& draft, std::size_t first, const Node& node, std::span<const int> results,
          const SymbolMap& symbols)
      : draft_(draft),
        members_(draft.steps.begin() + static_cast<std::ptrdiff_t>(first), draft.steps.end()),
        results_(results.begin(), results.end()) {
    for (DraftStep& member : members_) {
      spaces_.push_back(evaluate(passes::space_of(*member.node), symbols));
      member.space_rank = spaces_.back().rank();
    }
    const auto axes = static_cast<std::size_t>(node.attrs_as<passes::RowsAttrs>().axes);
    for (std::size_t d = 0; d < axes; ++d) rows_.push_back(spaces_[0].numbers()[d]);
  }

  /// The one step, or nothing: then the draft is as before.
  std::optional<DraftStep> join(const Node& node) {
    if (members_.size() < 2 || !note_writers()) return std::nullopt;
    std::optional<RowBlocks> blocks;
    if (!layouts_allow()) {
      note(node, "the layout of a tensor is not row-major");
    } else if (!note_parts()) {
      note(node, "sums over rows are made of other parts");
    } else {
      blocks = choose_blocks(node);
      if (blocks && !rows_stay_apart(*blocks)) {
        note(node, "a view reaches into other rows");
        blocks.reset();
      }
    }
    if (!blocks) return std::nullopt;
    place_scratch(*blocks);
    draft_.notes.push_back(fmt::format(
        "{}: {} kernels on {} rows at a time, {} kB in cache, of which {} kB in scratch",
        to_string(node.loc()), members_.size(), blocks->rows,
        bytes_of_row(blocks->axis()) * static_cast<std::size_t>(blocks->rows) >> 10,
        blocks->scratch_bytes >> 10));
    DraftStep step;
    step.kind = DraftStep::Kind::rows;
    step.node = &node;
    step.attrs = node.shared_attrs();
    step.writes = results_;
    for (const DraftStep& member : members_) {
      for (const int slot : member.reads) {
        const bool outside = slot >= 0 && !writer_of(slot);
        if (outside && std::ranges::find(step.reads, slot) == step.reads.end()) {
          step.reads.push_back(slot);
        }
      }
    }
    step.members = std::move(members_);
    step.blocks = *std::move(blocks);
    return step;
  }

 private:
  /// Says why the members run one after the other on all rows.
  void note(const Node& node, const std::string& why) const {
    draft_.notes.push_back(fmt::format("{}: {} kernels on all rows, one after the other: {}",
                                       to_string(node.loc()), members_.size(), why));
  }

  /// A buffer that a member writes.
  struct Written {
    int buffer = -1, slot = -1;
    int first = 0, last = 0;  ///< members that need it
    bool leaves = false;
  };

  [[nodiscard]] int buffer_of(int slot) const {
    return draft_.slots[static_cast<std::size_t>(slot)].buffer;
  }
  [[nodiscard]] Written* writer_of(int slot) {
    const auto found = std::ranges::find(written_, buffer_of(slot), &Written::buffer);
    return found == written_.end() ? nullptr : &*found;
  }

  /// False when some step is none that runs on rows.
  bool note_writers() {
    for (int i = 0; i < static_cast<int>(members_.size()); ++i) {
      const DraftStep& member = members_[static_cast<std::size_t>(i)];
      if (member.kind != DraftStep::Kind::kernel && member.kind != DraftStep::Kind::opaque) {
        return false;
      }
      for (const int slot : member.reads) {
        if (slot < 0) continue;
        // Of nothing there are no rows: kernels on all rows refuse it as eager ones do.
        if (draft_.tensor(slot).numel() == 0) return false;
        if (Written* const made = writer_of(slot)) made->last = i;
      }
      for (const int slot : member.writes) {
        if (draft_.tensor(slot).numel() == 0) return false;
        if (is_sum(slot, member)) continue;
        written_.push_back({.buffer = buffer_of(slot),
                            .slot = slot,
                            .first = i,
                            .last = i,
                            .leaves = std::ranges::find(results_, slot) != results_.end()});
      }
    }
    return true;
  }

  /// Whether a member writes this at the end, a sum over all rows.
  static bool is_sum(int slot, const DraftStep& member) {
    return member.kind == DraftStep::Kind::opaque && slot != member.writes[0] &&
           runtime::find_kernel(member.node->op())->row_sums != nullptr;
  }

  /// Finds the rows of a part that sums over rows are made of; false when members disagree.
  bool note_parts() {
    for (const DraftStep& member : members_) {
      if (member.kind != DraftStep::Kind::opaque) continue;
      const runtime::RowSums* const sums = runtime::find_kernel(member.node->op())->row_sums;
      if (sums == nullptr) continue;
      std::vector<Tensor> tensors;
      for (const std::vector<int>* slots : {&member.reads, &member.writes}) {
        for (const int slot : *slots)
          tensors.push_back(slot < 0 ? Tensor()
                                     : draft_.slots[static_cast<std::size_t>(slot)].tensor);
      }
      const std::span<Tensor> all(tensors);
      const std::int64_t rows =
          sums->parts({member.node->op(), member.attrs->data(), all.first(member.reads.size()),
                       all.subspan(member.reads.size()), member.node->loc()})
              .rows;
      if (part_rows_ != 0 && part_rows_ != rows) return false;
      part_rows_ = rows;
    }
    return true;
  }

  /// Scratch is row-major, and library kernels may compute in another order in another layout.
  [[nodiscard]] bool layouts_allow() const {
    for (const Written& made : written_) {
      if (!made.leaves && !draft_.tensor(made.slot).contiguous) return false;
    }
    for (const DraftStep& member : members_) {
      if (member.kind != DraftStep::Kind::opaque) continue;
      for (const std::vector<int>* slots : {&member.reads, &member.writes}) {
        for (const int slot : *slots) {
          if (slot >= 0 && !draft_.tensor(slot).contiguous) return false;
        }
      }
    }
    return true;
  }

  /// Bytes of a value for one row, when the rows are numbered by the axes up to `axis`; 0 for one
  /// that all rows share.
  [[nodiscard]] std::size_t bytes_of_row(int slot, std::size_t member, std::size_t axis) const {
    const TensorImpl& t = draft_.tensor(slot);
    if (is_result(slot, member) && is_sum(slot, members_[member])) return 0;
    if (t.shape.rank() < spaces_[member].rank() && !is_result(slot, member)) return 0;
    std::int64_t rows = 1;
    for (std::size_t d = 0; d <= axis; ++d) rows *= t.shape.numbers()[d];
    std::int64_t all = 1;
    for (std::size_t d = 0; d <= axis; ++d) all *= rows_[d];
    if (rows == 1 && all > 1) return 0;
    return static_cast<std::size_t>(t.numel() / rows) * size_of(t.dtype);
  }
  [[nodiscard]] bool is_result(int slot, std::size_t member) const {
    return std::ranges::find(members_[member].writes, slot) != members_[member].writes.end();
  }

  [[nodiscard]] std::size_t bytes_of_row(std::size_t axis) const {
    std::size_t bytes = 0;
    std::vector<int> seen;
    for (std::size_t i = 0; i < members_.size(); ++i) {
      for (const std::vector<int>* slots : {&members_[i].reads, &members_[i].writes}) {
        for (const int slot : *slots) {
          if (slot < 0 || std::ranges::find(seen, slot) != seen.end()) continue;
          seen.push_back(slot);
          bytes += bytes_of_row(slot, i, axis);
        }
      }
    }
    return std::max<std::size_t>(bytes, 1);
  }

  /// Blocks of as many rows as a core's cache holds, and fewer where threads would have nothing to
  /// do. Nothing when a row is longer than the cache, or threads could share the work within one.
  [[nodiscard]] std::optional<RowBlocks> choose_blocks(const Node& node) const {
    const std::size_t cache = runtime::core_cache_bytes();
    std::size_t axis = 0, row_bytes = bytes_of_row(0);
    const std::size_t axes = std::min<std::size_t>(rows_.size(), codegen::kMaxRank);
    while ((row_bytes > cache / 4 || stretch_of(axis) == 0) && axis + 1 < axes)
      row_bytes = bytes_of_row(++axis);
    std::int64_t places = 1;
    for (std::size_t d = 0; d < axis; ++d) places *= rows_[d];
    const std::int64_t length = rows_[axis], total = places * length;
    const std::int64_t threads = runtime::planned_team_size();
    constexpr std::size_t kLittle = 64 << 10;
    if (row_bytes > 2 * cache) {
      note(node, fmt::format("a row takes {} kB, the cache of a core is {} kB", row_bytes >> 10,
                             cache >> 10));
      return std::nullopt;
    }
    if (total < threads && row_bytes > kLittle) {
      note(node, fmt::format("there are {} rows for {} threads", total, threads));
      return std::nullopt;
    }

    const std::int64_t stretch = stretch_of(axis);
    constexpr std::size_t kLeastBlock = 32 << 10;
    if (stretch < length && static_cast<std::size_t>(stretch) * row_bytes < kLeastBlock) {
      note(node, fmt::format("sums are made of {} rows at a time, blocks would have {}", part_rows_,
                             stretch));
      return std::nullopt;
    }

    constexpr double kOperations = 2.5;  // of a member for each byte that it moves
    const auto bytes = static_cast<double>(row_bytes);
    const std::int64_t grain =
        runtime::grain_for({.bytes = bytes, .flops = kOperations * bytes}, total);
    RowBlocks blocks;
    blocks.sizes = Ints(std::span(rows_).first(axis + 1));
    blocks.rows =
        std::clamp<std::int64_t>(static_cast<std::int64_t>(cache / 4 / row_bytes), 1, length);
    if (total >= 2 * grain) {
      blocks.rows = std::min(blocks.rows, std::max(grain, (total + threads - 1) / threads));
    }
    blocks.stretch = stretch;
    if (part_rows_ != 0) {
      blocks.part_stretches = std::max<std::int64_t>(1, part_rows_ / rows_behind(axis) / stretch);
      // Blocks of a stretch that differ by a row at most.
      const std::int64_t cuts = (stretch + blocks.rows - 1) / blocks.rows;
      blocks.rows = (stretch + cuts - 1) / cuts;
    }
    blocks.grain = std::max<std::int64_t>(1, grain / blocks.rows);
    return blocks;
  }

  /// Rows at each place of the axes up to `axis`.
  [[nodiscard]] std::int64_t rows_behind(std::size_t axis) const {
    std::int64_t rows = 1;
    for (std::size_t d = axis + 1; d < rows_.size(); ++d) rows *= rows_[d];
    return rows;
  }

  /// How many rows along `axis` lie between places where blocks have to end: those where the axis
  /// does, or a part of a sum over rows. 0 where parts end elsewhere.
  [[nodiscard]] std::int64_t stretch_of(std::size_t axis) const {
    const std::int64_t length = rows_[axis], behind = rows_behind(axis);
    if (part_rows_ == 0) return length;
    if (part_rows_ % behind != 0) return 0;
    const std::int64_t part = part_rows_ / behind;
    const bool is_one_place =
        std::ranges::all_of(std::span(rows_).first(axis), [](std::int64_t n) { return n == 1; });
    return is_one_place ? std::min(part, length) : std::gcd(part, length);
  }

  /// Whether each member's view of what another one writes has, of every row, that row alone.
  [[nodiscard]] bool rows_stay_apart(const RowBlocks& blocks) {
    for (const DraftStep& member : members_) {
      for (const int slot : member.reads) {
        const Written* const made = slot < 0 ? nullptr : writer_of(slot);
        if (made && made->slot != slot && !is_view_of_rows(slot, made->slot, blocks)) return false;
      }
    }
    return true;
  }

  [[nodiscard]] bool is_view_of_rows(int slot, int made, const RowBlocks& blocks) const {
    const TensorImpl &view = draft_.tensor(slot), &base = draft_.tensor(made);
    if (!base.contiguous || size_of(view.dtype) != size_of(base.dtype)) return false;
    for (std::size_t d = 0; d < blocks.sizes.size(); ++d) {
      if (blocks.sizes[d] > 1 && view.strides[d] != base.strides[d]) return false;
    }
    auto last = static_cast<std::int64_t>(draft_.slots[static_cast<std::size_t>(slot)].offset /
                                          size_of(view.dtype));
    for (std::size_t d = blocks.sizes.size(); d < view.shape.size(); ++d) {
      if (view.strides[d] < 0) return false;
      last += (view.shape.numbers()[d] - 1) * view.strides[d];
    }
    std::int64_t row = 1;
    for (std::size_t d = blocks.sizes.size(); d < base.shape.size(); ++d) {
      row *= base.shape.numbers()[d];
    }
    return last < row;
  }

  void place_scratch(RowBlocks& blocks) {
    for (const DraftStep& member : members_) {
      for (const int slot : member.writes) {
        const bool leaves = std::ranges::find(results_, slot) != results_.end();
        // Of a sum that nobody reads there is none.
        if (!leaves && is_sum(slot, member)) draft_.buffer_of(slot).source = Source::scratch;
      }
    }
    std::vector<BufferRequest> requests;
    std::vector<int> buffers;
    for (const Written& made : written_) {
      if (made.leaves) continue;
      const std::size_t row =
          bytes_of_row(made.slot, static_cast<std::size_t>(made.first), blocks.axis());
      requests.push_back({row * static_cast<std::size_t>(blocks.rows), made.first, made.last});
      buffers.push_back(made.buffer);
    }
    const MemoryPlan plan = plan_memory(requests);
    blocks.scratch_bytes = plan.arena_bytes;
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      Buffer& buffer = draft_.buffers[static_cast<std::size_t>(buffers[i])];
      buffer.source = Source::scratch;
      buffer.bytes = requests[i].bytes;
      buffer.offset = plan.offsets[i];
    }
  }

  Draft& draft_;
  std::vector<DraftStep> members_;
  std::vector<int> results_;
  std::vector<Shape> spaces_;       // by member
  std::vector<std::int64_t> rows_;  // sizes of the axes that number the rows
  std::vector<Written> written_;
  std::int64_t part_rows_ = 0;  // that sums over rows are made of at a time; 0: there are none
};

/// What a step reads and writes outside of scratch.
std::size_t bytes_moved(const Draft& draft, const DraftStep& step) {
  std::size_t bytes = 0;
  for (const std::vector<int>* slots : {&step.reads, &step.writes}) {
    for (const int slot : *slots) {
      if (slot < 0) continue;
      const TensorImpl& t = draft.tensor(slot);
      bytes += static_cast<std::size_t>(t.numel()) * size_of(t.dtype);
    }
  }
  return bytes;
}

}  // namespace

void send_past_caches(Draft& draft) {
  for (int i = 0; i < static_cast<int>(draft.steps.size()); ++i) {
    DraftStep& step = draft.steps[static_cast<std::size_t>(i)];
    if (step.kind != DraftStep::Kind::rows || bytes_moved(draft, step) <= runtime::kPastCachesBytes)
      continue;
    const auto is_read = [&](int written) {
      const Buffer& buffer = draft.buffer_of(written);
      return buffer.last_step > i || buffer.source == Source::scratch ||
             std::ranges::any_of(step.members, [&](const DraftStep& member) {
               return std::ranges::any_of(member.reads, [&](int slot) {
                 return slot >= 0 && &draft.buffer_of(slot) == &buffer;
               });
             });
    };
    for (DraftStep& member : step.members) {
      std::span<const int> written = member.writes;
      if (member.kind == DraftStep::Kind::opaque) {
        if (!runtime::find_kernel(member.node->op())->streams) continue;
        written = written.first(1);  // behind it are sums
      } else if (passes::reduction_of(*member.node)) {
        continue;
      }
      member.past_caches = std::ranges::none_of(written, is_read);
    }
  }
}

void join_rows(Draft& draft, std::size_t first, const Node& node, std::span<const int> results,
               const SymbolMap& symbols) {
  if (first == draft.steps.size()) return;
  std::optional<DraftStep> step = RowJoin(draft, first, node, results, symbols).join(node);
  if (!step) return;
  draft.steps.resize(first);
  draft.steps.push_back(*std::move(step));
}

}  // namespace dyad::exec
