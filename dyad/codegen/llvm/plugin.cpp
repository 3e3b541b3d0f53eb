#include <llvm/ADT/SmallVector.h>
#include <llvm/ADT/StringMap.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/OptBisect.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Host.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>

#include "dyad/codegen/llvm/function_emitter.h"
#include "dyad/codegen/plugin_abi.h"

namespace dyad::codegen {
namespace {

/// Two passes are a third of code generation and gain next to nothing on code that is already
/// vectors.
struct SkipSlowPasses : llvm::OptPassGate {
  bool shouldRunPass(const llvm::StringRef name, llvm::StringRef) override {
    return name != "Loop Strength Reduction" && name != "Machine Instruction Scheduler";
  }
  bool isEnabled() const override { return true; }
};

std::string host_features() {
  std::string features;
  for (const auto& feature : llvm::sys::getHostCPUFeatures()) {
    if (!features.empty()) features += ",";
    features += (feature.second ? "+" : "-") + feature.first().str();
  }
  return features;
}

/// A target machine and what it was made for; used by one thread at a time.
struct Machine {
  std::string cpu, features;
  std::unique_ptr<llvm::TargetMachine> target;
};

class Machines {
 public:
  /// Takes one out of the pool or makes it.
  std::unique_ptr<Machine> take(const std::string& cpu, const std::string& features) {
    const std::lock_guard lock(mutex_);
    for (auto& m : pool_) {
      if (m->cpu == cpu && m->features == features) {
        auto taken = std::move(m);
        m = std::move(pool_.back());
        pool_.pop_back();
        return taken;
      }
    }
    return make(cpu, features);
  }
  void give(std::unique_ptr<Machine> machine) {
    const std::lock_guard lock(mutex_);
    pool_.push_back(std::move(machine));
  }

 private:
  static std::unique_ptr<Machine> make(const std::string& cpu, const std::string& features) {
    const std::string triple = llvm::sys::getDefaultTargetTriple();
    std::string error;
    const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, error);
    if (target == nullptr) throw std::runtime_error(error);
    llvm::TargetOptions options;
    options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
    auto machine = std::make_unique<Machine>(Machine{cpu, features, nullptr});
    machine->target.reset(target->createTargetMachine(triple, cpu, features, options,
                                                      llvm::Reloc::PIC_, llvm::CodeModel::Small,
                                                      llvm::CodeGenOptLevel::Less));
    if (!machine->target) throw std::runtime_error("no target machine for " + cpu);
    return machine;
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<Machine>> pool_;
};

/// Owns what lives as long as the process.
struct Compiler {
  Compiler() {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    cpu = llvm::sys::getHostCPUName().str();
    features = host_features();
  }
  std::string cpu, features;
  Machines machines;
};

Compiler& compiler() {
  static Compiler* const instance = new Compiler;  // outlives threads that compile during exit
  return *instance;
}

VectorTarget vectors_of(const llvm::TargetMachine& machine, bool ahead_of_time) {
  const auto& info = *machine.getMCSubtargetInfo();
  const auto has = [&](const char* feature) { return info.checkFeatures(feature); };
  if (!has("+avx2") || !has("+fma") || !has("+f16c"))
    throw std::runtime_error("needs a CPU with AVX2, FMA and F16C");
  if (has("+avx512f") && has("+avx512bw") && has("+avx512dq") && has("+avx512vl"))
    // An elementary function alone is as fast with one register as with four. With company (gelu by
    // tanh, written out: 36 operations) four take 0.38 ns an element and one 0.58. A core holds
    // some 500 operations on their way: of a chain of three tanh and 27 others, where each waits
    // for the one before, eight registers keep more of them busy, 1.12 ns with eight and 1.41 with
    // four.
    return {.bytes = 64,
            .masks_narrow = true,
            .scales = true,
            .interleave_long = 4,
            .interleave_longest = 8};
  // Four take a third to a half off the time of exp, tanh or gelu, two a quarter; but code for four
  // takes twice as long to compile.
  const unsigned interleave = ahead_of_time ? 4 : 2;
  return {.bytes = 32,
          .interleave = interleave,
          .interleave_long = interleave,
          .interleave_longest = interleave};
}

void compile(const DyadFunction* functions, std::size_t count, const DyadCompileOptions& options,
             llvm::SmallVectorImpl<char>& object) {
  const std::string cpu = options.cpu != nullptr ? options.cpu : compiler().cpu;
  const std::string features = options.cpu != nullptr
                                   ? (options.features != nullptr ? options.features : "")
                                   : compiler().features;
  auto machine = compiler().machines.take(cpu, features);
  SkipSlowPasses gate;
  llvm::LLVMContext context;
  context.setOptPassGate(gate);
  llvm::Module module("dyad", context);
  module.setTargetTriple(machine->target->getTargetTriple().str());
  module.setDataLayout(machine->target->createDataLayout());
  module.setPICLevel(llvm::PICLevel::BigPIC);
  const VectorTarget target = vectors_of(*machine->target, options.cpu != nullptr);
  DebugInfo debug(module);
  for (std::size_t i = 0; i < count; ++i) {
    if (functions[i].accumulators > 0)
      emit_reduce(module, functions[i], target, debug);
    else
      emit_row(module, functions[i], target, debug);
  }
  const std::string width = std::to_string(target.bytes * 8);
  for (llvm::Function& f : module) {
    if (f.isDeclaration()) continue;
    f.setVisibility(llvm::GlobalValue::HiddenVisibility);  // of built-in objects, once linked
    f.addFnAttr("prefer-vector-width", width);
    f.addFnAttr("min-legal-vector-width", width);
    f.addFnAttr("frame-pointer", "all");
    f.addFnAttr(llvm::Attribute::NoUnwind);
  }
  debug.finish();
#ifndef NDEBUG
  std::string broken;
  llvm::raw_string_ostream text(broken);
  if (llvm::verifyModule(module, &text)) throw std::runtime_error("broken module: " + broken);
#endif
  if (const char* path = std::getenv("DYAD_DUMP_LLVM")) {
    std::error_code status;
    llvm::raw_fd_ostream out(path, status);
    module.print(out, nullptr);
  }
  llvm::raw_svector_ostream stream(object);
  llvm::legacy::PassManager passes;
  if (machine->target->addPassesToEmitFile(passes, stream, nullptr,
                                           llvm::CodeGenFileType::ObjectFile, true)) {
    throw std::runtime_error("the target cannot emit objects");
  }
  passes.run(module);
  compiler().machines.give(std::move(machine));
}

int compile_entry(const DyadFunction* functions, std::size_t count,
                  const DyadCompileOptions* options, void (*take)(void*, const void*, std::size_t),
                  void* user, char* error, std::size_t error_size) {
  const auto fail = [&](const char* what, int status) {
    if (error_size > 0) static_cast<void>(std::snprintf(error, error_size, "%s", what));
    return status;
  };
  try {
    llvm::SmallVector<char, 0> object;
    compile(functions, count, *options, object);
    take(user, object.data(), object.size());
    return DYAD_PLUGIN_OK;
  } catch (const std::exception& e) {
    return fail(e.what(), DYAD_PLUGIN_FAILED);
  } catch (...) {
    return fail("unknown failure", DYAD_PLUGIN_FAILED);
  }
}

}  // namespace
}  // namespace dyad::codegen

extern "C" [[gnu::visibility("default")]] const DyadPlugin* dyad_codegen_plugin(std::uint32_t abi) {
  if (abi != DYAD_KERNEL_ABI) return nullptr;
  static const std::string cpu =
      dyad::codegen::compiler().cpu + " " + dyad::codegen::compiler().features;
  static const DyadPlugin plugin{DYAD_KERNEL_ABI, "llvm " LLVM_VERSION_STRING, cpu.c_str(),
                                 &dyad::codegen::compile_entry};
  return &plugin;
}
