#pragma once

#include <cstddef>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "dyad/codegen/functions.h"
#include "dyad/codegen/plugin_abi.h"

namespace dyad::codegen {

/// The LLVM back end: a shared library that is looked for when the process starts and opened when
/// it is first needed. Looked for in DYAD_PLUGIN_PATH alone (a folder or the file) where that is
/// set; otherwise beside the program and this library (../lib/dyad), in their run paths, then in
/// /usr/local/lib/dyad and /usr/lib/dyad.
class CompilerPlugin {
 public:
  static CompilerPlugin& instance();
  /// The first of these files that exists.
  explicit CompilerPlugin(const std::vector<std::string>& candidates);

  /// Compiles into one relocatable object. Empty, with one warning, when there is no plug-in;
  /// throws InternalError when it fails. Equal functions are compiled once. `cpu` and `features` as
  /// LLVM names them, empty for this machine. Thread-safe.
  [[nodiscard]] std::vector<std::byte> compile(std::span<const KernelFunction> functions,
                                               const std::string& cpu = {},
                                               const std::string& features = {});

  /// What kernels for this machine depend on besides their recipes, known without opening the
  /// library: the plug-in's file, the CPU, the ABI. Empty without a plug-in.
  [[nodiscard]] const std::string& identity() const noexcept { return identity_; }
  /// The file that would be opened.
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  const DyadPlugin* open();
  void load();

  std::string path_, identity_;
  std::once_flag once_;
  const DyadPlugin* plugin_ = nullptr;
};

}  // namespace dyad::codegen
