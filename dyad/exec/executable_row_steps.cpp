#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "dyad/base/error.h"
#include "dyad/codegen/recipe.h"
#include "dyad/core/storage.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/exec/executable_draft.h"
#include "dyad/exec/executable_steps.h"
#include "dyad/passes/fused_op.h"
#include "dyad/runtime/op_kernel.h"
#include "dyad/runtime/threads.h"

namespace dyad::exec {
namespace {

/// Some rows in a run.
struct Block {
  std::int64_t at[codegen::kMaxRank];  ///< the first one, by the axes that number them
  std::int64_t rows;
  std::byte* scratch;
  std::int64_t part;  ///< that its rows belong to
  std::byte* sums;    ///< of all members and parts
};

/// Where a member finds an operand's elements of a block.
struct Place {
  void* base = nullptr;               ///< of the whole, set by the plan
  std::size_t offset = 0;             ///< in scratch
  std::vector<std::ptrdiff_t> steps;  ///< bytes from one row to the next, by axis; none in scratch

  [[nodiscard]] std::byte* of(const Block& block) const {
    if (steps.empty()) return block.scratch + offset;
    auto* at = static_cast<std::byte*>(base);
    for (std::size_t d = 0; d < steps.size(); ++d) at += block.at[d] * steps[d];
    return at;
  }
};

Place place_of(const Plan& plan, int slot, std::span<const std::int64_t> strides,
               std::size_t axes) {
  const Slot& s = plan.slots[static_cast<std::size_t>(slot)];
  const Buffer& buffer = plan.buffers[static_cast<std::size_t>(s.buffer)];
  Place place;
  if (buffer.source == Source::scratch) {
    place.offset = buffer.offset + s.offset;
    return place;
  }
  for (std::size_t d = 0; d < axes; ++d) {
    place.steps.push_back(strides[d] * static_cast<std::ptrdiff_t>(size_of(s.tensor.dtype())));
  }
  return place;
}

/// Keeps the places of what lies outside of scratch where it is.
void patch(Plan& plan, const DraftStep& draft, std::vector<Place>& places) {
  std::size_t at = 0;
  for (const std::vector<int>* slots : {&draft.reads, &draft.writes}) {
    for (const int slot : *slots) {
      Place& place = places[at++];
      if (slot >= 0 && !place.steps.empty()) plan.patch_address(slot, &place.base);
    }
  }
}

/// A step of the sequence; may run in several threads, each on blocks of its own.
class Member {
 public:
  virtual ~Member() = default;
  /// What a thread hands to run() with each of its blocks.
  [[nodiscard]] virtual std::vector<Tensor> tensors_of_blocks() const { return {}; }
  virtual void run(const Block& block, std::span<Tensor> tensors) const = 0;
  /// Bytes of its sums over all rows, for each part of them.
  [[nodiscard]] virtual std::size_t sum_bytes() const { return 0; }
  /// Writes these when all blocks are done; `sums` as in a block.
  virtual void finish(std::byte* /*sums*/, std::int64_t /*parts*/) const {}
  /// After an error in a block: throws what all rows at once would, if this member did it.
  virtual void refuse() const {}
};

/// A generated kernel, prepared for blocks of each size.
class KernelMember final : public Member {
 public:
  KernelMember(Plan& plan, const DraftStep& draft, const RowBlocks& blocks,
               runtime::KernelBatch& batch) {
    const KernelParts parts(plan, draft);
    const std::size_t axes = blocks.sizes.size();
    for (std::size_t i = 0; i < draft.reads.size(); ++i) {
      places_.push_back(place_of(plan, draft.reads[i], parts.inputs[i].strides, axes));
    }
    for (std::size_t i = 0; i < draft.writes.size(); ++i) {
      places_.push_back(place_of(plan, draft.writes[i], parts.outputs[i].strides, axes));
    }
    patch(plan, draft, places_);
    if (parts.program.counts) {
      const Strides& steps = parts.inputs.back().strides;
      numbers_.assign(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(axes));
    }
    inputs_ = draft.reads.size();
    Ints sizes = parts.space.numbers();
    for (std::size_t d = 0; d + 1 < axes; ++d) sizes[d] = 1;
    const std::int64_t last_stretch = (blocks.sizes.back() - 1) % blocks.stretch + 1;
    for (const std::int64_t rows : {std::min(blocks.rows, last_stretch), blocks.rows,
                                    blocks.stretch % blocks.rows, last_stretch % blocks.rows}) {
      if (rows == 0 || std::ranges::find(launches_, rows, &Launch::rows) != launches_.end())
        continue;
      sizes[blocks.axis()] = rows;
      launches_.push_back({rows, parts.launch(sizes, batch)});
      if (draft.past_caches) launches_.back().kernel.send_past_caches();
    }
  }

  void run(const Block& block, std::span<Tensor> /*tensors*/) const override {
    void* data[codegen::kMaxOperands];
    std::size_t count = 0;
    for (std::size_t i = 0; i < places_.size(); ++i) {
      if (i == inputs_ && !numbers_.empty()) data[count++] = first_number(block);
      data[count++] = places_[i].of(block);
    }
    std::ranges::find(launches_, block.rows, &Launch::rows)->kernel.run_at({data, count});
  }

 private:
  struct Launch {
    std::int64_t rows;  ///< of a block
    runtime::KernelLaunch kernel;
  };
  /// That of the block's first element, as an address: the kernel counts on from it.
  [[nodiscard]] void* first_number(const Block& block) const {
    std::int64_t number = 0;
    for (std::size_t d = 0; d < numbers_.size(); ++d) number += block.at[d] * numbers_[d];
    return reinterpret_cast<void*>(number);
  }

  std::vector<Place> places_;
  std::size_t inputs_ = 0;             // of the places
  std::vector<std::int64_t> numbers_;  // from one row to the next, by axis, if elements are counted
  std::vector<Launch> launches_;
};

/// A kernel of the runtime, called on tensors of the block's rows.
class LibraryMember final : public Member {
 public:
  /// Its sums are behind those of other members, which take `sums_before` bytes in all parts.
  LibraryMember(Plan& plan, const DraftStep& draft, const RowBlocks& blocks,
                std::size_t sums_before)
      : node_(*draft.node),
        kernel_(*runtime::find_kernel(draft.node->op())),
        attrs_(draft.attrs),
        inputs_(draft.reads.size()),
        axes_(blocks.sizes.size()),
        sums_before_(sums_before),
        past_caches_(draft.past_caches) {
    for (const std::vector<int>* slots : {&draft.reads, &draft.writes}) {
      for (std::size_t i = 0; i < slots->size(); ++i) {
        const int slot = (*slots)[i];
        Tensor whole;
        if (slot >= 0) whole = plan.slots[static_cast<std::size_t>(slot)].tensor;
        const bool is_read = slots == &draft.reads;
        const bool shared = slot < 0 || is_sum(places_.size()) ||
                            (is_read && passes::row_operand(node_, i) == passes::RowOperand::whole);
        const std::vector<std::int64_t> still(axes_, 0);
        places_.push_back(
            slot < 0
                ? Place()
                : place_of(plan, slot, shared ? std::span(still) : std::span(whole.impl()->strides),
                           axes_));
        wholes_.push_back(std::move(whole));
        shared_.push_back(shared);
      }
    }
    patch(plan, draft, places_);
    if (kernel_.row_sums != nullptr) {
      std::vector<Tensor> tensors = wholes_;
      sum_bytes_ = kernel_.row_sums->parts(call_with(tensors)).bytes;
    }
  }

  /// Of the types of a block's rows. Sums are no tensors there.
  [[nodiscard]] std::vector<Tensor> tensors_of_blocks() const override {
    std::vector<Tensor> tensors;
    tensors.reserve(places_.size());
    for (std::size_t i = 0; i < places_.size(); ++i) {
      if (!wholes_[i].defined() || is_sum(i)) {
        tensors.emplace_back();
        continue;
      }
      const TensorImpl& whole = *wholes_[i].impl();
      Ref<TensorImpl> part = make_ref<TensorImpl>();
      part->dtype = whole.dtype;
      part->shape = whole.shape;
      part->strides = whole.strides;
      part->contiguous = whole.contiguous;
      for (std::size_t d = 0; !shared_[i] && d + 1 < axes_; ++d) part->shape[d] = 1;
      tensors.emplace_back(std::move(part));
    }
    return tensors;
  }

  void run(const Block& block, std::span<Tensor> tensors) const override {
    for (std::size_t i = 0; i < places_.size(); ++i) {
      if (!tensors[i].defined()) continue;
      TensorImpl& part = *tensors[i].impl();
      part.data = places_[i].of(block);
      if (!shared_[i]) part.shape[axes_ - 1] = block.rows;
    }
    if (kernel_.row_sums == nullptr) {
      kernel_.run(call_with(tensors));
    } else {
      kernel_.row_sums->add(call_with(tensors),
                            sums(block.sums) + static_cast<std::size_t>(block.part) * sum_bytes_);
    }
  }

  [[nodiscard]] std::size_t sum_bytes() const override { return sum_bytes_; }

  void finish(std::byte* all_sums, std::int64_t parts) const override {
    if (kernel_.row_sums == nullptr) return;
    std::vector<Tensor> tensors = wholes_;
    for (std::size_t i = inputs_; i < tensors.size(); ++i) {
      if (!is_sum(i)) continue;
      tensors[i] = Tensor();
      if (places_[i].steps.empty()) continue;  // nobody reads it
      tensors[i] = whole_in_place(i);
    }
    kernel_.row_sums->total(call_with(tensors), sums(all_sums), parts);
  }

  void refuse() const override {
    if (node_.op().checks == 0) return;
    // What is in scratch is not looked at by checks: any numbers do.
    std::vector<Tensor> tensors;
    for (std::size_t i = 0; i < places_.size(); ++i) {
      if (!wholes_[i].defined()) {
        tensors.emplace_back();
      } else if (i < inputs_ && !places_[i].steps.empty()) {
        tensors.push_back(whole_in_place(i));
      } else {
        tensors.push_back(make_empty(wholes_[i].dtype(), wholes_[i].shape()));
        std::memset(tensors.back().impl()->data, 0, tensors.back().impl()->storage->bytes());
      }
    }
    kernel_.run(call_with(tensors));
  }

 private:
  [[nodiscard]] runtime::OpCall call_with(std::span<Tensor> tensors) const {
    return {.op = node_.op(),
            .attrs = attrs_->data(),
            .inputs = tensors.first(inputs_),
            .outputs = tensors.subspan(inputs_),
            .loc = node_.loc(),
            .past_caches = past_caches_};
  }
  /// All rows of operand `i`, which lies outside of scratch.
  [[nodiscard]] Tensor whole_in_place(std::size_t i) const {
    Ref<TensorImpl> whole = make_ref<TensorImpl>(*wholes_[i].impl());
    whole->data = static_cast<std::byte*>(places_[i].base);
    return Tensor(std::move(whole));
  }
  /// Whether operand `i`, results behind inputs, is a sum over all rows.
  [[nodiscard]] bool is_sum(std::size_t i) const {
    return i > inputs_ && kernel_.row_sums != nullptr;
  }
  [[nodiscard]] std::byte* sums(std::byte* all) const { return all + sums_before_; }

  const Node& node_;
  const runtime::OpKernel& kernel_;
  Ref<Attrs> attrs_;
  std::size_t inputs_, axes_, sums_before_, sum_bytes_ = 0;
  std::vector<Place> places_;
  std::vector<Tensor> wholes_;  // for their types; their data are not looked at
  std::vector<bool> shared_;
  bool past_caches_;
};

class RowsStep final : public Step {
 public:
  RowsStep(Plan& plan, const DraftStep& draft, runtime::KernelBatch& batch)
      : Step(draft.node),
        blocks_(draft.blocks),
        part_blocks_(
            std::max<std::int64_t>(1, blocks_.part_stretches * blocks_.blocks_of_stretch())),
        parts_((blocks_.blocks() + part_blocks_ - 1) / part_blocks_) {
    for (const DraftStep& member : draft.members) {
      if (member.kind == DraftStep::Kind::kernel) {
        members_.push_back(std::make_unique<KernelMember>(plan, member, blocks_, batch));
      } else {
        members_.push_back(std::make_unique<LibraryMember>(plan, member, blocks_, sum_bytes_));
        sum_bytes_ += static_cast<std::size_t>(parts_) * members_.back()->sum_bytes();
      }
    }
  }

  void run(Plan&, const RunContext&) override {
    // Of numbers as wide as any, for their alignment.
    std::vector<double> memory((sum_bytes_ + sizeof(double) - 1) / sizeof(double));
    auto* const sums = reinterpret_cast<std::byte*>(memory.data());
    try {
      const std::int64_t grain = std::max<std::int64_t>(1, blocks_.grain / part_blocks_);
      runtime::parallel_for(0, parts_, grain, [&](std::int64_t from, std::int64_t to) {
        run_blocks(from * part_blocks_, std::min(to * part_blocks_, blocks_.blocks()), sums);
      });
    } catch (const Error&) {
      for (const auto& member : members_) member->refuse();
      throw;
    }
    for (const auto& member : members_) member->finish(sums, parts_);
  }

 private:
  void run_blocks(std::int64_t from, std::int64_t to, std::byte* sums) const {
    const Ref<Storage> scratch =
        blocks_.scratch_bytes > 0 ? Storage::allocate(blocks_.scratch_bytes) : Ref<Storage>();
    Block block;
    block.scratch = scratch ? scratch->data() : nullptr;
    block.sums = sums;
    std::vector<std::vector<Tensor>> tensors;
    for (const auto& member : members_) tensors.push_back(member->tensors_of_blocks());
    for (std::int64_t number = from; number < to; ++number) {
      set_rows(block, number);
      if (block.rows <= 0) continue;
      for (std::size_t i = 0; i < members_.size(); ++i) members_[i]->run(block, tensors[i]);
    }
  }

  void set_rows(Block& block, std::int64_t number) const {
    const std::size_t axis = blocks_.axis();
    block.part = number / part_blocks_;
    const std::int64_t of_stretch = blocks_.blocks_of_stretch();
    const std::int64_t in_stretch = number % of_stretch * blocks_.rows;
    number /= of_stretch;
    const std::int64_t of_place = blocks_.stretches_of_place();
    block.at[axis] = number % of_place * blocks_.stretch + in_stretch;
    block.rows = std::min(
        {blocks_.rows, blocks_.stretch - in_stretch, blocks_.sizes[axis] - block.at[axis]});
    number /= of_place;
    for (std::size_t d = axis; d-- > 0;) {
      block.at[d] = number % blocks_.sizes[d];
      number /= blocks_.sizes[d];
    }
  }

  RowBlocks blocks_;
  // Each part is the work of one thread, block after block.
  std::int64_t part_blocks_, parts_;
  std::size_t sum_bytes_ = 0;  // of all members and parts
  std::vector<std::unique_ptr<Member>> members_;
};

}  // namespace

std::unique_ptr<Step> make_rows_step(Plan& plan, const DraftStep& draft,
                                     runtime::KernelBatch& batch) {
  return std::make_unique<RowsStep>(plan, draft, batch);
}

}  // namespace dyad::exec
