#include "dyad/exec/executable_plan.h"

#include <utility>

#include "dyad/core/allocation_limit.h"
#include "dyad/exec/executable_errors.h"
#include "dyad/exec/step_profile.h"

namespace dyad::exec {
namespace {

/// Whether a run makes it for the caller.
bool is_made(Source source) { return source == Source::output || source == Source::control; }

}  // namespace

void Plan::set_base(int buffer, std::byte* data, const Ref<Storage>& storage) {
  for (const Patch& patch : patches_[static_cast<std::size_t>(buffer)]) {
    if (patch.address) {
      *patch.address = data + patch.offset;
    } else {
      patch.impl->data = data + patch.offset;
      if (patch.impl->storage != storage) patch.impl->storage = storage;
    }
  }
}

void Plan::patch_address(int slot, void** address) {
  const Slot& patched = slots[static_cast<std::size_t>(slot)];
  patches_[static_cast<std::size_t>(patched.buffer)].push_back({patched.offset, address, nullptr});
  keep_contents(slot);
}

void Plan::keep_contents(int slot) const {
  const int number = slots[static_cast<std::size_t>(slot)].buffer;
  const Buffer& buffer = buffers[static_cast<std::size_t>(number)];
  if (buffer.source == Source::constant) buffer.base.impl()->storage->keep_contents();
}

void Plan::patch_tensor(int slot) {
  const Slot& patched = slots[static_cast<std::size_t>(slot)];
  std::vector<Patch>& patches = patches_[static_cast<std::size_t>(patched.buffer)];
  TensorImpl* const impl = patched.tensor.impl();
  for (const Patch& patch : patches) {
    if (patch.impl == impl) return;
  }
  patches.push_back({patched.offset, nullptr, impl});
}

void Plan::set_result(int buffer, const Tensor& result, bool is_shared) {
  Buffer& made = buffers[static_cast<std::size_t>(buffer)];
  made.base = result;
  made.is_shared = is_shared;
  set_base(buffer, result.impl()->data, result.impl()->storage);
}

void Plan::take_arena(std::size_t number) {
  const Arena& arena = arenas[number];
  auto& [held, borrowed] = arena_memory_[number];
  held = Storage::allocate(arena.bytes);
  // A block that was given back usually comes again, and then nothing needs to be set. Tensors of
  // the plan only borrow it, so that it is free when nobody needs it.
  if (borrowed && borrowed->data() == held->data()) return;
  borrowed = Storage::adopt(held->data(), held->bytes(), {});
  for (const int buffer : arena.buffers)
    set_base(buffer, held->data() + buffers[static_cast<std::size_t>(buffer)].offset, borrowed);
}

void Plan::handle(const MemoryEvent& event) {
  switch (event.kind) {
    case MemoryEvent::Kind::drop_arena:
      arena_memory_[static_cast<std::size_t>(event.index)].held = {};
      break;
    case MemoryEvent::Kind::take_arena:
      take_arena(static_cast<std::size_t>(event.index));
      break;
    case MemoryEvent::Kind::take_output:
      allocate_output(event.index);
      break;
  }
}

void Plan::bind(std::span<const Tensor> placeholders) {
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const Buffer& buffer = buffers[i];
    const int number = static_cast<int>(i);
    switch (buffer.source) {
      case Source::placeholder: {
        const TensorImpl& fed = *placeholders[static_cast<std::size_t>(buffer.index)].impl();
        set_base(number, fed.data, fed.storage);
        break;
      }
      case Source::variable:
      case Source::constant: {
        const TensorImpl& held = *buffer.base.impl();
        if (std::exchange(bound_[i], held.data) != held.data) {
          set_base(number, held.data, held.storage);
        }
        break;
      }
      case Source::output:
        if (buffer.first_step < 0) allocate_output(number);
        break;
      case Source::arena:
      case Source::control:
      case Source::scratch:
        break;
    }
  }
}

void Plan::place_outputs(std::span<const Tensor> places) {
  constexpr std::uintptr_t kAlignment = 64;  // as memory of its own has
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (!places[i].defined()) continue;
    const Slot& slot = slots[static_cast<std::size_t>(outputs[i])];
    const auto number = static_cast<std::size_t>(slot.buffer);
    Buffer& buffer = buffers[number];
    const TensorImpl &place = *places[i].impl(), &made = *slot.tensor.impl();
    const auto bytes = static_cast<std::size_t>(place.numel()) * size_of(place.dtype);
    const bool is_taken = fresh_[number].data || buffer.base.defined();
    if (!is_made(buffer.source) || slot.offset != 0 || !made.contiguous || buffer.bytes > bytes ||
        is_taken || reinterpret_cast<std::uintptr_t>(place.data) % kAlignment != 0)
      continue;
    if (buffer.source == Source::control) {
      buffer.base = places[i];
      continue;
    }
    place.storage->before_write();
    fresh_[number] = {place.storage, place.data};
  }
}

void Plan::allocate_output(int buffer) {
  Fresh& fresh = fresh_[static_cast<std::size_t>(buffer)];
  if (!fresh.data) {
    fresh.storage = Storage::allocate(buffers[static_cast<std::size_t>(buffer)].bytes);
    fresh.data = fresh.storage->data();
  }
  set_base(buffer, fresh.data, fresh.storage);
}

std::vector<Tensor> Plan::run(std::span<const Tensor> placeholders, const CancelToken* cancel,
                              Loc where, std::span<const Tensor> places) {
  arena_memory_.resize(arenas.size());
  place_outputs(places);
  bind(placeholders);
  for (const int buffer : written)
    buffers[static_cast<std::size_t>(buffer)].base.impl()->storage->before_write();
  const auto memory_of = [&](int placeholder) -> Storage& {
    return *placeholders[static_cast<std::size_t>(placeholder)].impl()->storage;
  };
  for (const int placeholder : taken) memory_of(placeholder).before_write();
  const RunContext context{symbols, cancel, where};
  StepProfile* const profile = StepProfile::active();
  auto event = events.cbegin();
  const auto run_step = [&](std::size_t number) {
    Step& step = *steps[number];
    for (; event != events.cend() && event->step == number; ++event) handle(*event);
    StepProfile::time(step.times_itself() ? nullptr : profile, step.node(),
                      [&] { step.run(*this, context); });
  };
  std::size_t at = 0;
  try {
    for (; at < commit; ++at) {
      if (cancel) cancel->check(where, steps[at]->node().loc());
      run_step(at);
    }
    if (cancel) cancel->check(where);
    const detail::NoAllocationLimit no_limit;  // results are there: what kernels work in is left
    for (; at < steps.size(); ++at) run_step(at);
  } catch (const Error& error) {
    const Loc declared = at < steps.size() ? steps[at]->node().loc() : Loc();
    fail_at(at);
    rethrow_at(error, where, declared);
  } catch (...) {
    fail_at(at);
    throw;
  }
  for (const int buffer : written) {
    buffers[static_cast<std::size_t>(buffer)].base.impl()->storage->bump_version();
  }
  for (const int placeholder : taken) memory_of(placeholder).bump_version();
  std::vector<Tensor> results = collect(placeholders);
  let_go();
  return results;
}

void Plan::fail_at(std::size_t at) noexcept {
  while (at-- > 0) steps[at]->undo();
  let_go();
}

std::vector<Tensor> Plan::collect(std::span<const Tensor> placeholders) {
  std::vector<Tensor> results;
  results.reserve(outputs.size());
  for (const int output : outputs) {
    const Slot& slot = slots[static_cast<std::size_t>(output)];
    const auto number = static_cast<std::size_t>(slot.buffer);
    const Buffer& buffer = buffers[number];
    const TensorImpl& made = *slot.tensor.impl();
    Ref<TensorImpl> impl = make_ref<TensorImpl>();
    impl->dtype = made.dtype;
    impl->contiguous = made.contiguous;
    impl->shape = made.shape;
    impl->strides = made.strides;
    if (buffer.source == Source::output) {
      impl->storage = fresh_[number].storage;
      impl->data = fresh_[number].data + slot.offset;
    } else {
      const Tensor& base = buffer.source == Source::placeholder
                               ? placeholders[static_cast<std::size_t>(buffer.index)]
                               : buffer.base;
      impl->storage = base.impl()->storage;
      impl->data = base.impl()->data + slot.offset;
    }
    results.emplace_back(std::move(impl));
  }
  return results;
}

/// Keeps no memory of the caller's, nor of what was given to the caller. Variables are the
/// program's: who writes one eagerly asks how many tensors share its memory.
void Plan::let_go() noexcept {
  for (ArenaMemory& memory : arena_memory_) memory.held = {};
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    Buffer& buffer = buffers[i];
    const bool passing = buffer.source == Source::placeholder || is_made(buffer.source);
    if (!passing && buffer.source != Source::variable) continue;
    for (const Patch& patch : patches_[i]) {
      if (!patch.impl) continue;
      patch.impl->storage = {};
      bound_[i] = nullptr;
    }
    if (!passing) continue;
    fresh_[i] = {};
    if (buffer.source == Source::control) buffer.base = {};
  }
}

}  // namespace dyad::exec
