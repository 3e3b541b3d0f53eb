#include "dyad/codegen/kernel_provider.h"

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <iterator>
#include <mutex>
#include <new>
#include <optional>
#include <shared_mutex>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "dyad/base/error.h"
#include "dyad/base/log.h"
#include "dyad/codegen/built_in.h"
#include "dyad/codegen/compiler_plugin.h"
#include "dyad/codegen/disk_cache.h"
#include "dyad/codegen/functions.h"
#include "dyad/codegen/interpreter.h"
#include "dyad/codegen/kernel_cache.h"
#include "dyad/codegen/loader.h"

namespace dyad::codegen {
namespace {

bool interpreter_only() {
#if defined(DYAD_PLAIN_LOOPS) || !defined(__x86_64__)
  return true;
#else
  const char* wanted = std::getenv("DYAD_KERNELS");
  return wanted != nullptr && std::string_view(wanted) == "interpreter";
#endif
}

}  // namespace

struct KernelProvider::State {
  /// One recipe on its way to a kernel.
  struct Job {
    const KernelRecipe* recipe;
    KernelHash hash;
    std::vector<KernelFunction> functions;
    std::unique_ptr<CompiledKernel> kernel;

    /// Makes the kernel where `find` knows all of its functions; `owner` keeps them in memory.
    void link(KernelOrigin origin, const FindFunction& find,
              std::shared_ptr<const void> owner = nullptr) {
      if (kernel) return;
      if (const std::optional<DyadKernelCode> code = code_of(functions, find))
        kernel = std::make_unique<CompiledKernel>(*recipe, *code, origin, std::move(owner));
    }
    /// From an object of the compiler's, which leaves out what is built in.
    void link(KernelOrigin origin, const std::shared_ptr<const LoadedObject>& object) {
      link(
          origin,
          [&](const KernelHash& key) {
            const void* address = object->find(key.hex());
            return address != nullptr ? address : find_built_in(key);
          },
          object);
    }
  };

  mutable std::shared_mutex mutex;
  std::condition_variable_any made;
  KernelCache kernels{2048};
  std::unordered_set<KernelHash, KernelCache::HashOfHash> in_work;
  Statistics statistics;

  CompilerPlugin& plugin = CompilerPlugin::instance();
  const DiskCache disk{plugin.identity()};
  const bool interpret_all = interpreter_only();

  void make(std::vector<Job>& jobs, const CompileTeam& team) const {
    if (!interpret_all) {
      for (Job& job : jobs) {
        job.recipe->verify();
        job.functions = functions_of(*job.recipe);
        job.link(KernelOrigin::built_in, [](const KernelHash& key) { return find_built_in(key); });
      }
      from_disk(jobs);
      from_compiler(jobs, team);
    }
    for (Job& job : jobs) {
      if (!job.kernel) job.kernel = interpret(*job.recipe);
    }
  }

  void from_disk(std::vector<Job>& jobs) const {
    std::vector<std::shared_ptr<const LoadedObject>> objects;
    for (Job& job : jobs) {
      if (job.kernel) continue;
      for (const auto& object : objects) job.link(KernelOrigin::disk, object);
      if (job.kernel) continue;
      const std::vector<std::byte> bytes = disk.find(job.hash);
      if (bytes.empty()) continue;
      try {
        objects.push_back(LoadedObject::load(bytes));
        job.link(KernelOrigin::disk, objects.back());
      } catch (const IoError& e) {
        log(LogLevel::info, std::string("kernel cache: ") + e.message());
      }
    }
  }

  void from_compiler(std::vector<Job>& jobs, const CompileTeam& team) const {
    std::vector<Group> groups = shared_out(jobs, team.size);
    const auto compile = [&](int i) { groups[static_cast<std::size_t>(i)].compile(plugin, disk); };
    if (groups.size() > 1) {
      team.run(static_cast<int>(groups.size()), compile);
    } else if (!groups.empty()) {
      compile(0);
    }
  }

  /// Recipes that one thread compiles into one object.
  struct Group {
    std::vector<Job*> jobs;
    std::vector<KernelFunction> functions;
    std::size_t cost = 0;

    void compile(CompilerPlugin& plugin, const DiskCache& disk) {
      try {
        const std::vector<std::byte> bytes = plugin.compile(functions);
        if (bytes.empty()) return;
        const auto object = LoadedObject::load(bytes);
        std::vector<KernelHash> hashes;
        for (Job* job : jobs) {
          const std::string text = job->recipe->text();
          log(LogLevel::debug,
              "compiled the kernel " + job->recipe->name + ": " + text.substr(0, text.find('\n')));
          job->link(KernelOrigin::llvm, object);
          hashes.push_back(job->hash);
        }
        disk.store(hashes, bytes);
      } catch (const Error& e) {
        log(LogLevel::warning, e.message() + "; interpreting instead");
      }
    }
  };

  /// What is still without a kernel, in at most `threads` groups of about the same work.
  static std::vector<Group> shared_out(std::vector<Job>& jobs, int threads) {
    constexpr std::size_t kFunction = 60;  // what a function costs besides its instructions
    constexpr std::size_t kWorthAThread = 3 * kFunction;
    std::vector<Group> single;
    std::size_t all = 0;
    for (Job& job : jobs) {
      if (job.kernel) continue;
      Group& group = single.emplace_back();
      group.jobs.push_back(&job);
      for (KernelFunction& f : job.functions) {
        if (find_built_in(f.key) != nullptr) continue;
        group.cost += kFunction + f.program.instructions().size() + f.combine.instructions().size();
        group.functions.push_back(f);
      }
      all += group.cost;
    }
    std::sort(single.begin(), single.end(),
              [](const Group& a, const Group& b) { return a.cost > b.cost; });
    const std::size_t most = std::max<std::size_t>(1, all / kWorthAThread);
    std::vector<Group> groups(std::min({static_cast<std::size_t>(threads), most, single.size()}));
    for (Group& next : single) {
      Group& least =
          *std::min_element(groups.begin(), groups.end(),
                            [](const Group& a, const Group& b) { return a.cost < b.cost; });
      least.cost += next.cost;
      least.jobs.push_back(next.jobs.front());
      std::move(next.functions.begin(), next.functions.end(), std::back_inserter(least.functions));
    }
    return groups;
  }

  void count(KernelOrigin origin) {
    switch (origin) {
      case KernelOrigin::built_in:
        ++statistics.built_in;
        break;
      case KernelOrigin::disk:
        ++statistics.disk;
        break;
      case KernelOrigin::llvm:
        ++statistics.compiled;
        break;
      case KernelOrigin::interpreter:
        ++statistics.interpreted;
        break;
    }
  }
};

KernelProvider::KernelProvider() : state_(std::make_unique<State>()) {}
KernelProvider::~KernelProvider() = default;

KernelProvider& KernelProvider::instance() {
  // Never destroyed: kernels may run in threads that outlive static destructors.
  alignas(KernelProvider) static std::byte memory[sizeof(KernelProvider)];
  static KernelProvider* const provider = ::new (memory) KernelProvider;
  return *provider;
}

std::shared_ptr<const CompiledKernel> KernelProvider::get(const KernelRecipe& recipe) {
  const KernelRecipe* const one = &recipe;
  return get(std::span(&one, 1)).front();
}

std::vector<std::shared_ptr<const CompiledKernel>> KernelProvider::get(
    std::span<const KernelRecipe* const> recipes, const CompileTeam& team) {
  State& s = *state_;
  std::vector<std::shared_ptr<const CompiledKernel>> found(recipes.size());
  std::vector<KernelHash> hashes(recipes.size());
  std::vector<State::Job> jobs;
  const auto look_up = [&] {
    std::size_t missing = 0;
    for (std::size_t i = 0; i < recipes.size(); ++i) {
      if (found[i] == nullptr) found[i] = s.kernels.find(hashes[i]);
      if (found[i] == nullptr) ++missing;
    }
    return missing;
  };
  for (std::size_t i = 0; i < recipes.size(); ++i) hashes[i] = recipes[i]->hash();
  {
    const std::shared_lock lock(s.mutex);
    if (look_up() == 0) return found;
  }
  {
    const std::unique_lock lock(s.mutex);
    look_up();
    for (std::size_t i = 0; i < recipes.size(); ++i) {
      // What another thread is making is waited for below.
      if (found[i] == nullptr && s.in_work.insert(hashes[i]).second)
        jobs.push_back({recipes[i], hashes[i], {}, {}});
    }
  }
  const auto end_work = [&] {
    const std::unique_lock lock(s.mutex);
    for (State::Job& job : jobs) {
      s.in_work.erase(job.hash);
      if (!job.kernel) continue;
      s.count(job.kernel->origin());
      s.kernels.add(job.hash, std::move(job.kernel));
    }
    s.made.notify_all();
  };
  try {
    s.make(jobs, team);
  } catch (...) {
    end_work();
    throw;
  }
  end_work();
  std::shared_lock lock(s.mutex);
  while (look_up() > 0) {
    const bool nobody = std::none_of(hashes.begin(), hashes.end(),
                                     [&](const KernelHash& h) { return s.in_work.contains(h); });
    if (nobody) {
      // The thread that we waited for failed; its error is this recipe's too.
      lock.unlock();
      return get(recipes, team);
    }
    s.made.wait(lock);
  }
  return found;
}

KernelProvider::Statistics KernelProvider::statistics() const {
  const std::shared_lock lock(state_->mutex);
  return state_->statistics;
}

}  // namespace dyad::codegen
