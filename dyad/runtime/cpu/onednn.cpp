#include "dyad/runtime/cpu/onednn.h"

#ifndef DYAD_PLAIN_LOOPS

#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "dyad/base/error.h"
#include "dyad/core/storage.h"
#include "dyad/core/tensor_impl.h"

namespace dyad::runtime::cpu::onednn {

const dnnl::engine& engine() {
  static const dnnl::engine instance(dnnl::engine::kind::cpu, 0);
  return instance;
}

dnnl::stream& stream() {
  thread_local dnnl::stream instance(engine());
  return instance;
}

bool takes(DType dtype) {
  // Emulated bfloat16 is slower than f32: the CPU must have the instructions, and the library use
  // them (ONEDNN_MAX_CPU_ISA may forbid it).
  return dtype == DType::f32 || (dtype == DType::bf16 && uses(dnnl_cpu_isa_avx512_core_bf16));
}

bool uses(dnnl_cpu_isa_t instructions) noexcept {
  static const auto all = static_cast<unsigned>(dnnl_get_effective_cpu_isa());
  const auto wanted = static_cast<unsigned>(instructions);
  return (all & wanted) == wanted;
}

dnnl::memory::data_type data_type(DType dtype) {
  return dtype == DType::bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

void fail(const dnnl::error& error) {
  const std::string text = "oneDNN: " + std::string(error.what());
  if (error.status == dnnl_out_of_memory) throw MemoryError(text);
  throw InternalError(text + " (status " + std::to_string(error.status) + ")");
}

dnnl::primitive_attr on_any_thread() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

std::shared_ptr<const dnnl::memory> packed_copy(const void* data, const dnnl::memory::desc& from,
                                                const dnnl::memory::desc& to) {
  dnnl::memory source(from, engine(), const_cast<void*>(data));
  dnnl::memory made(to, engine());
  dnnl::reorder(source, made).execute(stream(), source, made);
  return std::make_shared<const dnnl::memory>(made);
}

namespace {

using HeldCopy = std::shared_ptr<const dnnl::memory>;

/// The copy of the constant at `data` that is held, or what `make` gives.
HeldCopy shared_copy(const void* data, const dnnl::memory::desc& from, const dnnl::memory::desc& to,
                     const std::function<HeldCopy()>& make) {
  struct Copy {
    dnnl::memory::desc from, to;
    std::weak_ptr<const dnnl::memory> elements;
  };
  static std::mutex mutex;
  static std::multimap<const void*, Copy> copies;
  const std::scoped_lock lock(mutex);
  // Who holds a copy holds the constant, so that the address of a copy that is alive is its own.
  std::erase_if(copies, [](const auto& entry) { return entry.second.elements.expired(); });
  const auto [begin, end] = copies.equal_range(data);
  for (auto it = begin; it != end; ++it) {
    if (it->second.from != from || it->second.to != to) continue;
    if (auto held = it->second.elements.lock()) return held;
  }
  HeldCopy made = make();
  copies.emplace(data, Copy{from, to, made});
  return made;
}

/// Lets the memory of a constant go that `packed` has all elements of, bit for bit.
void let_shed(Storage& storage, const void* data, const dnnl::memory::desc& from,
              const HeldCopy& packed) {
  const dnnl::memory::desc to = packed->get_desc();
  dnnl::memory::dim elements = 1;
  for (const dnnl::memory::dim size : from.dims()) elements *= size;
  const std::size_t bytes = static_cast<std::size_t>(elements) *
                            (from.data_type() == dnnl::memory::data_type::f32 ? 4 : 2);
  const bool is_whole = data == storage.data() && from.get_size() == bytes &&
                        storage.bytes() == bytes && from.data_type() == to.data_type();
  if (!is_whole) return;
  try {
    // Made now: once the elements are away it must not fail.
    const dnnl::reorder unpack(dnnl::reorder::primitive_desc(engine(), to, engine(), from));
    storage.set_remake([packed, from, unpack](void* into) {
      try {
        dnnl::memory source = *packed, made(from, engine(), into);
        unpack.execute(stream(), source, made);
      } catch (const dnnl::error& error) {
        fail(error);
      }
    });
  } catch (const dnnl::error&) {
    return;  // there is no way back: the elements stay
  }
}

}  // namespace

std::shared_ptr<const dnnl::memory> packed_constant(const Tensor& constant,
                                                    const dnnl::memory::desc& from,
                                                    const dnnl::memory::desc& to) {
  const TensorImpl& impl = *constant.impl();
  return shared_copy(impl.data, from, to, [&] {
    const ContentsHold held(impl.storage);
    auto made = packed_copy(impl.data, from, to);
    if (held.holds()) let_shed(*impl.storage, impl.data, from, made);
    return made;
  });
}

std::shared_ptr<const dnnl::memory> packed_constant(const void* data,
                                                    const dnnl::memory::desc& from,
                                                    const dnnl::memory::desc& to) {
  return shared_copy(data, from, to, [&] { return packed_copy(data, from, to); });
}

namespace {

/// The memory of `held`, of at least that many bytes.
std::byte* at_least(Ref<Storage>& held, std::size_t bytes) {
  if (!held || held->bytes() < bytes) held = Storage::allocate(bytes);
  return held->data();
}

/// This thread's memory for primitives that bring none; good until the next call.
std::byte* scratch_memory(std::size_t bytes) {
  thread_local Ref<Storage> held;
  return at_least(held, bytes);
}

}  // namespace

std::byte* packing_memory(std::size_t bytes) {
  thread_local Ref<Storage> held;
  return at_least(held, bytes);
}

Held::Held(dnnl::primitive primitive, std::initializer_list<Argument> arguments,
           const dnnl::memory::desc& scratch)
    : primitive_(std::move(primitive)), scratch_bytes_(scratch.get_size()) {
  const auto add = [this](const Argument& argument) {
    memories_.emplace_back(argument.layout, engine(), nullptr);
    arguments_.push_back({argument.id, memories_.back().get()});
  };
  memories_.reserve(arguments.size() + 1);
  for (const Argument& argument : arguments) add(argument);
  if (scratch_bytes_ > 0) add({DNNL_ARG_SCRATCHPAD, scratch});
}

void Held::run(std::initializer_list<const void*> buffers) { run(buffers, {}); }

void Held::run(std::initializer_list<const void*> buffers,
               std::initializer_list<const dnnl::memory*> owned) {
  const std::size_t given = memories_.size() - (scratch_bytes_ > 0 ? 1 : 0);
  for (std::size_t i = 0; i < given; ++i) {
    const dnnl::memory* own = i < owned.size() ? owned.begin()[i] : nullptr;
    if (own != nullptr) {
      arguments_[i].memory = own->get();
    } else {
      arguments_[i].memory = memories_[i].get();
      memories_[i].set_data_handle(const_cast<void*>(buffers.begin()[i]), stream());
    }
  }
  if (scratch_bytes_ > 0) {
    memories_[given].set_data_handle(scratch_memory(scratch_bytes_), stream());
  }
  const dnnl_status_t status = dnnl_primitive_execute(
      primitive_.get(), stream().get(), static_cast<int>(arguments_.size()), arguments_.data());
  if (status != dnnl_success) {
    throw InternalError("oneDNN failed to run a primitive: status " + std::to_string(status));
  }
}

dnnl::memory::desc f32_matrix(std::int64_t rows, std::int64_t columns, std::int64_t row,
                              std::int64_t column) {
  return {{rows, columns}, dnnl::memory::data_type::f32, {row, column}};
}

dnnl::memory::desc weight_layout(std::int64_t k, std::int64_t n) {
  // Without AVX-512 the library would choose rows, and read those that lie a power of two apart at
  // half its speed; columns it brings into blocks first.
  if (!uses(dnnl_cpu_isa_avx512_core)) return f32_matrix(k, n, 1, k);
  return {{k, n}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::any};
}

dnnl::memory::desc panel_layout(std::int64_t k, std::int64_t n, int columns) {
  // No tag of the library names it.
  dnnl_memory_desc_t made{};
  made.ndims = 2;
  made.dims[0] = made.padded_dims[0] = k;
  made.dims[1] = n;
  made.padded_dims[1] = (n + columns - 1) / columns * columns;
  made.data_type = dnnl_f32;
  made.format_kind = dnnl_blocked;
  dnnl_blocking_desc_t& blocking = made.format_desc.blocking;
  blocking.strides[0] = columns;
  blocking.strides[1] = columns * k;
  blocking.inner_nblks = 1;
  blocking.inner_blks[0] = columns;
  blocking.inner_idxs[0] = 1;
  return dnnl::memory::desc(made);
}

}  // namespace dyad::runtime::cpu::onednn

#endif
