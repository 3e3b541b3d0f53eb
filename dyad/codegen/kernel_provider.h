#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "dyad/codegen/kernel.h"

namespace dyad::codegen {

/// Threads lent to the compiler.
struct CompileTeam {
  int size = 1;
  /// Calls job(0) to job(count - 1), some of them at once, and returns when all are done.
  std::function<void(int count, const std::function<void(int)>& job)> run;
};

/// Gives the kernel of a recipe, made once and shared by all that hold it; of those that nobody
/// holds the last 2048 are kept. Thread-safe.
///
/// Kernels come from memory, the built-in table, the disk cache, the LLVM plug-in, or else the
/// interpreter; all give the same bits. Builds with DYAD_PLAIN_LOOPS, and processes with
/// DYAD_KERNELS=interpreter, interpret.
class KernelProvider {
 public:
  static KernelProvider& instance();

  /// Finds by content hash, which costs microseconds: keep the kernel.
  [[nodiscard]] std::shared_ptr<const CompiledKernel> get(const KernelRecipe& recipe);
  /// The same for several at once, which the compiler does faster than one by one, and on several
  /// threads where it is lent them.
  [[nodiscard]] std::vector<std::shared_ptr<const CompiledKernel>> get(
      std::span<const KernelRecipe* const> recipes, const CompileTeam& team = {});

  /// How many kernels came from where since the process began.
  struct Statistics {
    std::size_t built_in = 0, disk = 0, compiled = 0, interpreted = 0;
  };
  [[nodiscard]] Statistics statistics() const;

  KernelProvider(const KernelProvider&) = delete;
  KernelProvider& operator=(const KernelProvider&) = delete;

 private:
  KernelProvider();
  ~KernelProvider();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dyad::codegen
