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

/// A step of the sequence; may run in several threads, each on a block of its own.
class Member {
 public:
  virtual ~Member() = default;
  virtual void run(const Block& block) const = 0;
  /// After an error in a block: throws what all rows at once would, if this member did it.
  virtual void refuse() const {}
};

/// A generated kernel, prepared for blocks of two sizes.
class KernelMember final : public Member {
 public:
  KernelMember(Plan& plan, const DraftStep& draft, const RowBlocks& blocks,
               runtime::KernelBatch& batch)
      : rows_(blocks.rows) {
    const KernelParts parts(plan, draft);
    const std::size_t axes = blocks.sizes.size();
    for (std::size_t i = 0; i < draft.reads.size(); ++i) {
      places_.push_back(place_of(plan, draft.reads[i], parts.inputs[i].strides, axes));
    }
    for (std::size_t i = 0; i < draft.writes.size(); ++i) {
      places_.push_back(place_of(plan, draft.writes[i], parts.outputs[i].strides, axes));
    }
    patch(plan, draft, places_);
    Ints sizes = parts.space.numbers();
    for (std::size_t d = 0; d + 1 < axes; ++d) sizes[d] = 1;
    sizes[blocks.axis()] = rows_;
    whole_.emplace(parts.launch(sizes, batch));
    sizes[blocks.axis()] = blocks.sizes.back() % rows_;
    if (sizes[blocks.axis()] > 0) rest_.emplace(parts.launch(sizes, batch));
  }

  void run(const Block& block) const override {
    void* data[codegen::kMaxOperands];
    for (std::size_t i = 0; i < places_.size(); ++i) data[i] = places_[i].of(block);
    (block.rows == rows_ ? whole_ : rest_)->run_at({data, places_.size()});
  }

 private:
  std::int64_t rows_;
  std::vector<Place> places_;
  std::optional<runtime::KernelLaunch> whole_, rest_;
};

/// A kernel of the runtime, called on tensors of the block's rows.
class LibraryMember final : public Member {
 public:
  LibraryMember(Plan& plan, const DraftStep& draft, const RowBlocks& blocks)
      : node_(*draft.node),
        kernel_(*runtime::find_kernel(draft.node->op())),
        attrs_(draft.attrs),
        inputs_(draft.reads.size()),
        axes_(blocks.sizes.size()) {
    for (const std::vector<int>* slots : {&draft.reads, &draft.writes}) {
      for (std::size_t i = 0; i < slots->size(); ++i) {
        const int slot = (*slots)[i];
        Tensor whole;
        if (slot >= 0) whole = plan.slots[static_cast<std::size_t>(slot)].tensor;
        const bool is_read = slots == &draft.reads;
        const bool shared =
            slot < 0 || (is_read && passes::row_operand(node_, i) == passes::RowOperand::whole);
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
  }

  void run(const Block& block) const override {
    std::vector<Tensor> tensors;
    tensors.reserve(places_.size());
    for (std::size_t i = 0; i < places_.size(); ++i) {
      if (!wholes_[i].defined()) {
        tensors.emplace_back();
        continue;
      }
      const TensorImpl& whole = *wholes_[i].impl();
      Ref<TensorImpl> part = make_ref<TensorImpl>();
      part->dtype = whole.dtype;
      part->shape = whole.shape;
      part->strides = whole.strides;
      part->contiguous = whole.contiguous;
      part->data = places_[i].of(block);
      if (!shared_[i]) {
        for (std::size_t d = 0; d + 1 < axes_; ++d) part->shape[d] = 1;
        part->shape[axes_ - 1] = block.rows;
      }
      tensors.emplace_back(std::move(part));
    }
    call(tensors);
  }

  void refuse() const override {
    if (node_.op().checks == 0) return;
    // What is in scratch is not looked at by checks: any numbers do.
    std::vector<Tensor> tensors;
    for (std::size_t i = 0; i < places_.size(); ++i) {
      if (!wholes_[i].defined()) {
        tensors.emplace_back();
      } else if (i < inputs_ && !places_[i].steps.empty()) {
        Ref<TensorImpl> whole = make_ref<TensorImpl>(*wholes_[i].impl());
        whole->data = static_cast<std::byte*>(places_[i].base);
        tensors.emplace_back(std::move(whole));
      } else {
        tensors.push_back(make_empty(wholes_[i].dtype(), wholes_[i].shape()));
        std::memset(tensors.back().impl()->data, 0, tensors.back().impl()->storage->bytes());
      }
    }
    call(tensors);
  }

 private:
  void call(std::span<Tensor> tensors) const {
    kernel_.run({node_.op(), attrs_->data(), tensors.first(inputs_), tensors.subspan(inputs_),
                 node_.loc()});
  }

  const Node& node_;
  const runtime::OpKernel& kernel_;
  Ref<Attrs> attrs_;
  std::size_t inputs_, axes_;
  std::vector<Place> places_;
  std::vector<Tensor> wholes_;  // for their types; their data are not looked at
  std::vector<bool> shared_;
};

class RowsStep final : public Step {
 public:
  RowsStep(Plan& plan, const DraftStep& draft, runtime::KernelBatch& batch)
      : Step(draft.node), blocks_(draft.blocks) {
    for (const DraftStep& member : draft.members) {
      if (member.kind == DraftStep::Kind::kernel) {
        members_.push_back(std::make_unique<KernelMember>(plan, member, blocks_, batch));
      } else {
        members_.push_back(std::make_unique<LibraryMember>(plan, member, blocks_));
      }
    }
  }

  void run(Plan&, const RunContext&) override {
    std::int64_t count = blocks_.blocks_of_place();
    for (std::size_t d = 0; d < blocks_.axis(); ++d) count *= blocks_.sizes[d];
    const auto run_blocks = [&](std::int64_t from, std::int64_t to) {
      const Ref<Storage> scratch =
          blocks_.scratch_bytes > 0 ? Storage::allocate(blocks_.scratch_bytes) : Ref<Storage>();
      for (std::int64_t number = from; number < to; ++number) {
        const Block block = block_of(number, scratch ? scratch->data() : nullptr);
        for (const auto& member : members_) member->run(block);
      }
    };
    try {
      runtime::parallel_for(0, count, blocks_.grain, run_blocks);
    } catch (const Error&) {
      for (const auto& member : members_) member->refuse();
      throw;
    }
  }

 private:
  [[nodiscard]] Block block_of(std::int64_t number, std::byte* scratch) const {
    Block block;
    block.scratch = scratch;
    const std::int64_t of_place = blocks_.blocks_of_place();
    const std::size_t axis = blocks_.axis();
    block.at[axis] = number % of_place * blocks_.rows;
    block.rows = std::min(blocks_.rows, blocks_.sizes[axis] - block.at[axis]);
    number /= of_place;
    for (std::size_t d = axis; d-- > 0;) {
      block.at[d] = number % blocks_.sizes[d];
      number /= blocks_.sizes[d];
    }
    return block;
  }

  RowBlocks blocks_;
  std::vector<std::unique_ptr<Member>> members_;
};

}  // namespace

std::unique_ptr<Step> make_rows_step(Plan& plan, const DraftStep& draft,
                                     runtime::KernelBatch& batch) {
  return std::make_unique<RowsStep>(plan, draft, batch);
}

}  // namespace dyad::exec
