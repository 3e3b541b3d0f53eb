#pragma once

#include <llvm/IR/DIBuilder.h>
#include <llvm/IR/IRBuilder.h>

#include <map>
#include <string>
#include <utility>

#include "dyad/codegen/plugin_abi.h"

namespace dyad::codegen {

/// Line tables of a module: each instruction of a kernel belongs to the user's source line that
/// recorded it, as if the user's function were inlined into the kernel. A kernel without source
/// lines gets none, which saves a tenth of its compile time.
class DebugInfo {
 public:
  explicit DebugInfo(llvm::Module& module);

  /// Starts a kernel; the places below are in it.
  void begin(llvm::Function& function, const DyadFunction& source);
  /// Gives the builder the place of an instruction, or the kernel's own when it has none.
  void at(llvm::IRBuilder<>& ir, const DyadInstruction& instruction);
  void at_kernel(llvm::IRBuilder<>& ir);
  void finish();

 private:
  llvm::DIFile* file(const std::string& path);
  llvm::DISubprogram* user_function(const DyadInstruction& instruction);

  void open_unit();

  llvm::Module& module_;
  llvm::DIBuilder builder_;
  llvm::DICompileUnit* unit_ = nullptr;
  llvm::DISubroutineType* type_ = nullptr;
  std::map<std::string, llvm::DIFile*> files_;
  std::map<std::pair<std::string, std::string>, llvm::DISubprogram*> functions_;
  llvm::DISubprogram* kernel_ = nullptr;
  unsigned kernel_line_ = 0;
};

}  // namespace dyad::codegen
