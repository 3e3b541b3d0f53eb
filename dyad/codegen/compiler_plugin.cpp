#include "dyad/codegen/compiler_plugin.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <set>

#include "dyad/base/error.h"
#include "dyad/base/log.h"
#include "dyad/codegen/cpu_identity.h"

namespace dyad::codegen {
namespace {

constexpr const char* kFile = "dyad_codegen_llvm.so";

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

/// The folders in which the dynamic linker looks for what `library` opens. Among them is the run
/// path that Dyad's targets give to programs (cmake/plugin.cmake).
std::vector<std::string> search_folders(void* library) {
  Dl_serinfo size;
  if (library == nullptr || dlinfo(library, RTLD_DI_SERINFOSIZE, &size) != 0) return {};
  const auto room = std::make_unique_for_overwrite<std::byte[]>(size.dls_size);
  auto* const info = reinterpret_cast<Dl_serinfo*>(room.get());
  if (dlinfo(library, RTLD_DI_SERINFOSIZE, info) != 0) return {};
  if (dlinfo(library, RTLD_DI_SERINFO, info) != 0) return {};
  std::vector<std::string> folders;
  for (unsigned i = 0; i < info->dls_cnt; ++i) folders.emplace_back(info->dls_serpath[i].dls_name);
  return folders;
}

std::vector<std::string> default_candidates() {
  std::vector<std::string> paths;
  if (const char* wanted = std::getenv("DYAD_PLUGIN_PATH")) {
    return {wanted, std::string(wanted) + "/" + kFile};
  }
  std::vector<std::string> folders;
  char program[4096];
  const ssize_t length = readlink("/proc/self/exe", program, sizeof program);
  if (length > 0)
    folders.push_back(folder_of(std::string(program, static_cast<std::size_t>(length))));
  Dl_info self{};
  if (dladdr(reinterpret_cast<const void*>(&default_candidates), &self) != 0 &&
      self.dli_fname != nullptr) {
    folders.push_back(folder_of(self.dli_fname));
  }
  for (const std::string& folder : folders) {
    for (const char* from : {"/", "/dyad/", "/lib/dyad/", "/../lib/dyad/", "/../../lib/dyad/"}) {
      paths.push_back(folder + from + kFile);
    }
  }
  void* const program_itself = dlopen(nullptr, RTLD_LAZY);
  void* const this_library = dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  for (void* library : {program_itself, this_library}) {
    for (const std::string& folder : search_folders(library)) paths.push_back(folder + "/" + kFile);
    if (library != nullptr) dlclose(library);
  }
  for (const char* prefix : {"/usr/local/lib/dyad/", "/usr/lib/dyad/"})
    paths.push_back(std::string(prefix) + kFile);
  return paths;
}

/// A recipe's functions as the C structs of the plug-in; these point into it and into the
/// functions.
class Flattened {
 public:
  explicit Flattened(std::span<const KernelFunction> functions) {
    std::set<KernelHash> seen;
    storage_.reserve(functions.size());
    for (const KernelFunction& f : functions) {
      if (seen.insert(f.key).second) add(f);
    }
  }
  [[nodiscard]] const std::vector<DyadFunction>& functions() const noexcept { return functions_; }

 private:
  struct Storage {
    std::string symbol;
    std::vector<DyadOperand> operands;
    std::vector<DyadInstruction> program, combine;
  };

  static DyadProgram flatten(const ScalarProgram& program, std::vector<DyadInstruction>& code) {
    for (const scalar::Instruction& i : program.instructions()) {
      code.push_back(
          {.op = static_cast<std::uint8_t>(i.op),
           .type = static_cast<std::uint8_t>(i.type),
           .dtype = static_cast<std::uint8_t>(i.dtype),
           .args = {i.args[0], i.args[1], i.args[2]},
           .imm = i.imm,
           .file = i.loc ? i.loc.file().data() : nullptr,  // C strings behind Loc's views
           .function = i.loc ? i.loc.function().data() : nullptr,
           .line = i.loc.line()});
    }
    return {code.data(), code.size(), program.outputs().data(), program.outputs().size()};
  }

  void add(const KernelFunction& f) {
    Storage& s = storage_.emplace_back();
    s.symbol = f.name + "$" + f.key.hex();
    for (const auto* operands : {&f.inputs, &f.outputs}) {
      for (const Operand& o : *operands) {
        s.operands.push_back(
            {static_cast<std::uint8_t>(o.dtype), static_cast<std::uint8_t>(o.access), o.index});
      }
    }
    functions_.push_back({.symbol = s.symbol.c_str(),
                          .name = f.name.c_str(),
                          .operands = s.operands.data(),
                          .input_count = f.inputs.size(),
                          .output_count = f.outputs.size(),
                          .program = flatten(f.program, s.program),
                          .combine = flatten(f.combine, s.combine),
                          .init = f.init.data(),
                          .accumulators = f.init.size()});
  }

  std::vector<Storage> storage_;
  std::vector<DyadFunction> functions_;
};

}  // namespace

CompilerPlugin& CompilerPlugin::instance() {
  static CompilerPlugin plugin(default_candidates());
  return plugin;
}

CompilerPlugin::CompilerPlugin(const std::vector<std::string>& candidates) {
  for (const std::string& path : candidates) {
    struct stat status;
    if (stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    path_ = path;
    identity_ = "abi " + std::to_string(DYAD_KERNEL_ABI) + " plugin " +
                std::to_string(status.st_size) + " " + std::to_string(status.st_mtim.tv_sec) + "." +
                std::to_string(status.st_mtim.tv_nsec) + " cpu " + cpu_identity();
    return;
  }
}

const DyadPlugin* CompilerPlugin::open() {
  std::call_once(once_, [this] { load(); });
  return plugin_;
}

void CompilerPlugin::load() {
  const auto interpreted = [](const std::string& why) {
    log(LogLevel::warning, why + "; kernels are interpreted, which gives the same results slowly");
  };
  if (path_.empty()) {
    return interpreted(fmt::format(
        "the compiler plug-in {} was not found (DYAD_PLUGIN_PATH may name its folder)", kFile));
  }
  void* library = dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return interpreted(std::string("the compiler plug-in cannot be opened: ") + dlerror());
  }
  const auto entry = reinterpret_cast<DyadPluginEntry>(dlsym(library, "dyad_codegen_plugin"));
  if (entry != nullptr) plugin_ = entry(DYAD_KERNEL_ABI);
  if (plugin_ == nullptr) {
    interpreted("the compiler plug-in " + path_ + " belongs to another version of Dyad");
  }
}

std::vector<std::byte> CompilerPlugin::compile(std::span<const KernelFunction> functions,
                                               const std::string& cpu,
                                               const std::string& features) {
  const DyadPlugin* plugin = open();
  if (plugin == nullptr) return {};
  const Flattened flat(functions);
  const DyadCompileOptions options{cpu.empty() ? nullptr : cpu.c_str(),
                                   features.empty() ? nullptr : features.c_str()};
  std::vector<std::byte> object;
  const auto take = [](void* user, const void* bytes, std::size_t size) {
    const auto* first = static_cast<const std::byte*>(bytes);
    static_cast<std::vector<std::byte>*>(user)->assign(first, first + size);
  };
  char error[512] = "";
  const int status = plugin->compile(flat.functions().data(), flat.functions().size(), &options,
                                     take, &object, error, sizeof error);
  if (status != DYAD_PLUGIN_OK)
    throw InternalError(std::string("the compiler plug-in failed: ") + error);
  return object;
}

}  // namespace dyad::codegen
