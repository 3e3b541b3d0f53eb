#include "dyad/codegen/llvm/debug_info.h"

#include <llvm/BinaryFormat/Dwarf.h>
#include <llvm/IR/Module.h>

#include <algorithm>

namespace dyad::codegen {

DebugInfo::DebugInfo(llvm::Module& module) : module_(module), builder_(module) {}

void DebugInfo::open_unit() {
  if (unit_ != nullptr) return;
  module_.addModuleFlag(llvm::Module::Warning, "Debug Info Version", llvm::DEBUG_METADATA_VERSION);
  module_.addModuleFlag(llvm::Module::Max, "Dwarf Version", 4);
  unit_ = builder_.createCompileUnit(llvm::dwarf::DW_LANG_C_plus_plus, file("kernels"), "dyad",
                                     true, "", 0, "", llvm::DICompileUnit::LineTablesOnly);
  type_ = builder_.createSubroutineType(builder_.getOrCreateTypeArray({}));
}

llvm::DIFile* DebugInfo::file(const std::string& path) {
  llvm::DIFile*& entry = files_[path];
  if (entry == nullptr) {
    const std::size_t slash = path.rfind('/');
    entry = slash == std::string::npos
                ? builder_.createFile(path, "")
                : builder_.createFile(path.substr(slash + 1), path.substr(0, slash));
  }
  return entry;
}

void DebugInfo::begin(llvm::Function& function, const DyadFunction& source) {
  kernel_ = nullptr;
  const auto known = [](const DyadInstruction& i) { return i.file != nullptr; };
  const DyadInstruction* end = source.program.code + source.program.size;
  const DyadInstruction* first = std::find_if(source.program.code, end, known);
  if (first == end) return;
  open_unit();
  kernel_line_ = first->line;
  kernel_ = builder_.createFunction(unit_, source.name, function.getName(), file(first->file),
                                    kernel_line_, type_, kernel_line_, llvm::DINode::FlagArtificial,
                                    llvm::DISubprogram::SPFlagDefinition);
  function.setSubprogram(kernel_);
}

llvm::DISubprogram* DebugInfo::user_function(const DyadInstruction& instruction) {
  const std::string path = instruction.file,
                    name = instruction.function != nullptr ? instruction.function : "";
  llvm::DISubprogram*& entry = functions_[{path, name}];
  if (entry == nullptr) {
    entry = builder_.createFunction(unit_, name.empty() ? path : name, "", file(path),
                                    instruction.line, type_, instruction.line,
                                    llvm::DINode::FlagZero, llvm::DISubprogram::SPFlagDefinition);
  }
  return entry;
}

void DebugInfo::at(llvm::IRBuilder<>& ir, const DyadInstruction& instruction) {
  if (kernel_ == nullptr || instruction.file == nullptr) return at_kernel(ir);
  llvm::LLVMContext& context = ir.getContext();
  auto* call = llvm::DILocation::getDistinct(context, kernel_line_, 0, kernel_);
  ir.SetCurrentDebugLocation(
      llvm::DILocation::get(context, instruction.line, 0, user_function(instruction), call));
}

void DebugInfo::at_kernel(llvm::IRBuilder<>& ir) {
  ir.SetCurrentDebugLocation(kernel_ != nullptr
                                 ? llvm::DILocation::get(ir.getContext(), kernel_line_, 0, kernel_)
                                 : nullptr);
}

void DebugInfo::finish() {
  if (unit_ != nullptr) builder_.finalize();
}

}  // namespace dyad::codegen
