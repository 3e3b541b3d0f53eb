#pragma once

#ifndef DYAD_PLAIN_LOOPS

#include <cstdint>
#include <dnnl.hpp>
#include <initializer_list>
#include <memory>
#include <vector>

#include "dyad/core/dtype.h"
#include "dyad/core/tensor.h"

// What the files of this folder share of oneDNN.
namespace dyad::runtime::cpu::onednn {

/// The process's CPU engine, and this thread's stream on it.
[[nodiscard]] const dnnl::engine& engine();
[[nodiscard]] dnnl::stream& stream();

/// Whether the library computes in elements of this dtype on this CPU.
[[nodiscard]] bool takes(DType dtype);
[[nodiscard]] dnnl::memory::data_type data_type(DType dtype);

/// Whether the library uses these instructions on this CPU.
[[nodiscard]] bool uses(dnnl_cpu_isa_t instructions) noexcept;

/// Throws the library's error as one of Dyad's: MemoryError or InternalError.
[[noreturn]] void fail(const dnnl::error& error);

/// Attributes of a primitive that may run on any thread, one at a time: its scratch memory is the
/// caller's. The library's own belongs to the thread that makes the primitive.
[[nodiscard]] dnnl::primitive_attr on_any_thread();

/// An f32 matrix of so many rows and columns, whose neighbours are `row` and `column` elements
/// apart.
[[nodiscard]] dnnl::memory::desc f32_matrix(std::int64_t rows, std::int64_t columns,
                                            std::int64_t row, std::int64_t column);

/// How a product wants a weight of k rows and n columns that may lie in any way.
[[nodiscard]] dnnl::memory::desc weight_layout(std::int64_t k, std::int64_t n);

/// A weight of k rows and n columns in panels of so many columns (see PanelProduct).
[[nodiscard]] dnnl::memory::desc panel_layout(std::int64_t k, std::int64_t n, int columns);

/// What is at `data` in another layout.
[[nodiscard]] std::shared_ptr<const dnnl::memory> packed_copy(const void* data,
                                                              const dnnl::memory::desc& from,
                                                              const dnnl::memory::desc& to);
/// The same of a constant: whoever asks for it while it is held shares it. The copy can make the
/// constant's elements again, which may be away from then on (Storage::allow_shedding), if the
/// layout has all of its memory.
[[nodiscard]] std::shared_ptr<const dnnl::memory> packed_constant(const Tensor& constant,
                                                                  const dnnl::memory::desc& from,
                                                                  const dnnl::memory::desc& to);
/// The same of a constant's elements, which stay.
[[nodiscard]] std::shared_ptr<const dnnl::memory> packed_constant(const void* data,
                                                                  const dnnl::memory::desc& from,
                                                                  const dnnl::memory::desc& to);

/// This thread's memory for elements on their way into or out of a primitive's layout; good until
/// the next call.
[[nodiscard]] std::byte* packing_memory(std::size_t bytes);

/// A primitive with the memory objects of its arguments, ready to be run on any buffers of their
/// layouts. Belongs to one thread, unless it was made with on_any_thread() and is given the layout
/// of its scratch memory.
class Held {
 public:
  struct Argument {
    int id;  ///< DNNL_ARG_SRC...
    dnnl::memory::desc layout;
  };
  Held(dnnl::primitive primitive, std::initializer_list<Argument> arguments,
       const dnnl::memory::desc& scratch = {});

  /// Runs on the buffers, given in the order of the arguments.
  void run(std::initializer_list<const void*> buffers);
  /// The same where some arguments are memory objects of their own (null: as above).
  void run(std::initializer_list<const void*> buffers,
           std::initializer_list<const dnnl::memory*> owned);

 private:
  dnnl::primitive primitive_;
  std::size_t scratch_bytes_ = 0;
  std::vector<dnnl::memory> memories_;  // scratch memory last
  std::vector<dnnl_exec_arg_t> arguments_;
};

}  // namespace dyad::runtime::cpu::onednn

#endif
