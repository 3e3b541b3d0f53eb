#pragma once

#ifndef DYAD_PLAIN_LOOPS

#include <dnnl.hpp>
#include <initializer_list>
#include <vector>

#include "dyad/core/dtype.h"

// What the files of this folder share of oneDNN.
namespace dyad::runtime::cpu::onednn {

/// The process's CPU engine, and this thread's stream on it.
[[nodiscard]] const dnnl::engine& engine();
[[nodiscard]] dnnl::stream& stream();

/// Whether the library computes in elements of this dtype on this CPU.
[[nodiscard]] bool takes(DType dtype);
[[nodiscard]] dnnl::memory::data_type data_type(DType dtype);

/// Throws the library's error as one of Dyad's: MemoryError or InternalError.
[[noreturn]] void fail(const dnnl::error& error);

/// A primitive with the memory objects of its arguments, ready to be run on any buffers of their
/// layouts. Belongs to one thread.
class Held {
 public:
  struct Argument {
    int id;  ///< DNNL_ARG_SRC...
    dnnl::memory::desc layout;
  };
  Held(dnnl::primitive primitive, std::initializer_list<Argument> arguments);

  /// Runs on the buffers, given in the order of the arguments.
  void run(std::initializer_list<const void*> buffers);
  /// The same where some arguments are memory objects of their own (null: as above).
  void run(std::initializer_list<const void*> buffers,
           std::initializer_list<const dnnl::memory*> owned);

 private:
  dnnl::primitive primitive_;
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;
};

}  // namespace dyad::runtime::cpu::onednn

#endif
