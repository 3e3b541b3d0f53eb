#include "dyad/runtime/cpu/onednn.h"

#ifndef DYAD_PLAIN_LOOPS

#include <string>

#include "dyad/base/error.h"

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
  // Emulated bfloat16 is slower than f32: the CPU must have the instructions.
  static const bool native_bf16 = __builtin_cpu_supports("avx512bf16");
  return dtype == DType::f32 || (dtype == DType::bf16 && native_bf16);
}

dnnl::memory::data_type data_type(DType dtype) {
  return dtype == DType::bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

void fail(const dnnl::error& error) {
  const std::string text = "oneDNN: " + std::string(error.what());
  if (error.status == dnnl_out_of_memory) throw MemoryError(text);
  throw InternalError(text + " (status " + std::to_string(error.status) + ")");
}

Held::Held(dnnl::primitive primitive, std::initializer_list<Argument> arguments)
    : primitive_(std::move(primitive)) {
  memories_.reserve(arguments.size());
  for (const Argument& argument : arguments) {
    memories_.emplace_back(argument.layout, engine(), nullptr);
    arguments_.push_back({argument.id, memories_.back().get()});
  }
}

void Held::run(std::initializer_list<const void*> buffers) { run(buffers, {}); }

void Held::run(std::initializer_list<const void*> buffers,
               std::initializer_list<const dnnl::memory*> owned) {
  for (std::size_t i = 0; i < memories_.size(); ++i) {
    const dnnl::memory* own = i < owned.size() ? owned.begin()[i] : nullptr;
    if (own != nullptr) {
      arguments_[i].memory = own->get();
    } else {
      arguments_[i].memory = memories_[i].get();
      memories_[i].set_data_handle(const_cast<void*>(buffers.begin()[i]), stream());
    }
  }
  const dnnl_status_t status = dnnl_primitive_execute(
      primitive_.get(), stream().get(), static_cast<int>(arguments_.size()), arguments_.data());
  if (status != dnnl_success) {
    throw InternalError("oneDNN failed to run a primitive: status " + std::to_string(status));
  }
}

}  // namespace dyad::runtime::cpu::onednn

#endif
