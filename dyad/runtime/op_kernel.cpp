#include "dyad/runtime/op_kernel.h"

#include <array>
#include <functional>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>

#include "dyad/base/error.h"
#include "dyad/runtime/cpu/kernels.h"

namespace dyad::runtime {
namespace {

/// Every opaque kernel by operator name; entries are never moved or removed.
class KernelTable {
 public:
  KernelTable() {
    for (const auto family : cpu::kernel_families()) {
      for (const cpu::NamedKernel& entry : family()) kernels_.emplace(entry.op, entry.kernel);
    }
  }
  void add(std::string_view op, OpKernel kernel) {
    const std::unique_lock lock(mutex_);
    if (!kernels_.emplace(op, kernel).second) {
      throw ValueError("register_kernel: operator '" + std::string(op) + "' has a kernel already");
    }
  }
  const OpKernel* find(std::string_view op) const {
    const std::shared_lock lock(mutex_);
    const auto found = kernels_.find(op);
    return found == kernels_.end() ? nullptr : &found->second;
  }

 private:
  mutable std::shared_mutex mutex_;
  std::map<std::string, OpKernel, std::less<>> kernels_;
};

KernelTable& table() {
  static KernelTable instance;
  return instance;
}

}  // namespace

void register_kernel(std::string_view op, OpKernel kernel) { table().add(op, kernel); }

const OpKernel* find_kernel(const OpInfo& op) noexcept {
  // Rows live as long as the process, and so do entries: a row's kernel is looked up once a thread.
  struct Entry {
    const OpInfo* op = nullptr;
    const OpKernel* kernel = nullptr;
  };
  thread_local std::array<Entry, 64> recent;
  Entry& entry = recent[std::hash<const void*>()(&op) / alignof(OpInfo) % recent.size()];
  if (entry.op == &op) return entry.kernel;
  const OpKernel* kernel = table().find(op.name);
  if (kernel != nullptr) entry = {&op, kernel};
  return kernel;
}

}  // namespace dyad::runtime
