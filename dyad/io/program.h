#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dyad/core/generator.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/session.h"
#include "dyad/io/safetensors.h"
#include "dyad/ir/type.h"
#include "dyad/nn/tensor_dict.h"

namespace dyad::io {

/// How a graph or a compiled function is written.
struct ProgramOptions {
  /// Names of a function's arguments: input0, input1... unless given. A graph's placeholders have
  /// theirs.
  std::vector<std::string> inputs = {};
  std::vector<std::string> outputs = {};  ///< names of the results: output0, output1...
  /// Names for tensors from outside: nn::state_dict(model), onnx::training_state(model, optimizer).
  TensorDict state = {};
  Metadata notes = {};  ///< the program's own: epochs done, best accuracy...
  /// Of a graph: how it shall run, as SessionOptions says. Models of onnx::load run with fast_math
  /// unless they are told otherwise. A function has what compile() was given.
  bool fast_math = false;
  std::size_t memory_limit = 0;  ///< bytes; 0: none
};

/// How a program is read, and how it runs.
struct ProgramLoadOptions {
  bool map = true;    ///< the tensors are the file's pages, as LoadOptions::map says
  bool check = true;  ///< the checksum is compared, as LoadOptions::check says
  int threads = 0;    ///< of its kernels: 0 for as many as set_num_threads() says
};

/// A graph or a compiled function that was loaded, without its source: the operators, the tensors
/// that they read and write (weights, moments of the optimizer), the place in the stream of random
/// numbers. Runs compile for the CPU at hand, and on the same kind of CPU go on with the bits that
/// the saved one would have given. Copies share. Threads may call it at the same time; only calls
/// that write what it keeps take turns, and saving waits for those under way.
class Program {
 public:
  struct Port {
    std::string name;
    Type type;  ///< sizes that may vary are symbols
  };

  [[nodiscard]] const std::vector<Port>& inputs() const noexcept;
  [[nodiscard]] const std::vector<Port>& outputs() const noexcept;
  /// The tensors that it keeps, by name; they share its memory.
  [[nodiscard]] const TensorDict& state() const noexcept;
  [[nodiscard]] const Metadata& notes() const noexcept;
  /// Where its random numbers come from: a stream of its own, which other operators do not move.
  [[nodiscard]] Generator& generator() const noexcept;

  /// Runs on the inputs in order and gives the outputs in order. What the function wrote is
  /// written: a training step trains. Nothing is on the tape. GraphError for another number of
  /// inputs, for a call that a saved function has no recording for, and inside a function that is
  /// recorded or a graph that is defined; otherwise as Session::run.
  [[nodiscard]] std::vector<Tensor> call(std::span<const Tensor> inputs,
                                         Loc loc = std::source_location::current()) const;
  template <class... More>
  std::vector<Tensor> operator()(const Arg& first, const More&... more) const {
    const std::vector<Tensor> given{first.tensor(), Arg(more).tensor()...};
    return call(given, first.loc());
  }
  /// The same by name: `program.run({{"image", x}}).at("logits")`. GraphError naming the inputs for
  /// one that is unknown, missing or given twice.
  TensorDict run(const std::vector<Feed>& feeds, Loc loc = std::source_location::current()) const;

  /// What it runs, with the lines of its source: of a function the recordings that the file has, of
  /// a graph what its outputs need, from the first run on; what was compiled for the latest call,
  /// and the times of its kernels while `profile` lived, if there is one.
  [[nodiscard]] Explanation explain(const exec::StepProfile* profile = nullptr) const;
  /// Stops the calls in progress, from any thread: they throw CancelledError between two operators
  /// and write nothing; random numbers that they drew are used up, and gradients that they replace
  /// are gone. No effect on later ones.
  void cancel() const noexcept;

  /// The graphs as text.
  [[nodiscard]] std::string to_string() const;

  struct State;
  explicit Program(std::shared_ptr<State> state) : state_(std::move(state)) {}
  [[nodiscard]] State& impl() const noexcept { return *state_; }

 private:
  std::shared_ptr<State> state_;
};

/// Writes a graph with the tensors behind its variables, or what a compiled function recorded with
/// all that it uses (its parameters, the optimizer's state), as one file: a safetensors file, so
/// that other programs can read the tensors, `state.*`, with the graphs in its metadata. Its
/// checksum is kept; it appears whole or not at all. GraphError for what cannot be saved, naming
/// the line: operators that are code of the program, functions that run eagerly, see
/// docs/programs.md; ValueError for options that are not those of a graph, or of a function;
/// DTypeError for dtypes that the format has not; IoError. Steps of a function, or of a program,
/// that run on other threads meanwhile are in the file whole or not at all; a graph is saved
/// between the runs of its sessions.
void save(const std::string& path, const Graph& graph, const ProgramOptions& options = {},
          Loc loc = std::source_location::current());
/// Names, notes, state, fast_math and the memory limit are those of the program, where `options`
/// give no others.
void save(const std::string& path, const Program& program, const ProgramOptions& options = {},
          Loc loc = std::source_location::current());

namespace detail {
void save_compiled(const std::string& path, const exec::CompiledCore& core,
                   const ProgramOptions& options, Loc loc);
}  // namespace detail

template <class F>
void save(const std::string& path, const CompiledFunction<F>& function,
          const ProgramOptions& options = {}, Loc loc = std::source_location::current()) {
  detail::save_compiled(path, function.core(), options, loc);
}

/// Reads what `save` wrote. By default the tensors are the file's pages (LoadOptions::map): the
/// file must not be cut while the program lives; replacing it, as saving does, is fine. IoError for
/// a file of another kind or version, that is cut or altered; ValueError for a negative number of
/// threads.
[[nodiscard]] Program load(const std::string& path, const ProgramLoadOptions& options = {},
                           Loc loc = std::source_location::current());

}  // namespace dyad::io
