#include "dyad/codegen/jit_dump.h"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <limits>
#include <mutex>
#include <string>
#include <system_error>
#include <type_traits>

#include "dyad/base/log.h"

namespace dyad::codegen {
namespace {

constexpr const char* kVariable = "DYAD_PERF_JITDUMP";

std::string wanted_folder() {
  const char* folder = std::getenv(kVariable);
  return folder != nullptr ? folder : "";
}

// Linux describes the file in tools/perf/Documentation/jitdump-specification.txt.
enum RecordKind : std::uint32_t { kLoad = 0, kDebugInfo = 2, kClose = 3 };

struct DumpHeader {
  std::uint32_t magic = 0x4A695444;  // "JiTD"
  std::uint32_t version = 1;
  std::uint32_t size = sizeof(DumpHeader);
  std::uint32_t machine = EM_X86_64;
  std::uint32_t padding = 0;
  std::uint32_t process;
  std::uint64_t time;
  std::uint64_t flags = 0;
};

struct RecordHeader {
  std::uint32_t kind;
  std::uint32_t size;
  std::uint64_t time;
};

struct LoadRecord {
  std::uint32_t process, thread;
  std::uint64_t mapped_at, address, size;
  std::uint64_t number;
};

struct DebugRecord {
  std::uint64_t address, entries;
};

struct DebugEntry {
  std::uint64_t address;
  std::uint32_t line, discriminator;
};

/// Nanoseconds of the clock that `perf record -k mono` takes.
std::uint64_t monotonic_time() {
  timespec now{};
  static_cast<void>(clock_gettime(CLOCK_MONOTONIC, &now));  // Linux always has that clock
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

template <class T>
void put(std::string& bytes, const T& value) {
  static_assert(std::has_unique_object_representations_v<T>, "padding would be written");
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put_text(std::string& bytes, std::string_view text) {
  bytes.append(text.substr(0, text.find('\0')));
  bytes += '\0';
}

std::string record(RecordKind kind, std::uint64_t time, const std::string& content) {
  std::string bytes;
  put(bytes,
      RecordHeader{kind, static_cast<std::uint32_t>(sizeof(RecordHeader) + content.size()), time});
  return bytes + content;
}

std::string debug_info(std::span<const std::byte> code, std::span<const SourceLine> lines) {
  const auto address = reinterpret_cast<std::uint64_t>(code.data());
  std::string content;
  put(content, DebugRecord{address, lines.size() + 1});
  for (const SourceLine& line : lines) {
    put(content, DebugEntry{line.address, line.line, 0});
    put_text(content, line.file);
  }
  // perf ends its own table at the last entry, which would belong to no line.
  put(content, DebugEntry{address + code.size(), lines.back().line, 0});
  put_text(content, lines.back().file);
  return content;
}

/// The file of this process. Never destroyed: kernels are made in threads that outlive static
/// objects.
class JitDump {
 public:
  static JitDump& instance() {
    static JitDump dump;
    static_assert(std::is_trivially_destructible_v<JitDump>);
    [[maybe_unused]] static const bool watched = [] {
      pthread_atfork([] { dump.mutex_.lock(); }, [] { dump.mutex_.unlock(); },
                     [] {
                       dump.forget();
                       dump.mutex_.unlock();
                     });
      return std::atexit([] { dump.end(); }) == 0;
    }();
    return dump;
  }

  void add(std::span<const std::byte> code, std::string_view name,
           std::span<const SourceLine> lines) {
    std::string problem;
    {
      const std::lock_guard lock(mutex_);
      if (state_ == State::unopened) problem = open();
      if (state_ == State::open) {
        if (const int error = write(records_of(code, name, lines)); error != 0) {
          close(file_);
          state_ = State::over;
          problem = std::strerror(error);
        }
      }
    }
    if (!problem.empty()) {
      log(LogLevel::warning,
          fmt::format("{}: {}; perf will not know all generated code", kVariable, problem));
    }
  }

 private:
  enum class State : std::uint8_t { unopened, open, over };

  /// What went wrong, if anything did.
  std::string open() {
    state_ = State::over;
    const std::string folder = wanted_folder();
    std::error_code ignored;  // the file's own error says what is wrong with the folder
    std::filesystem::create_directories(folder, ignored);
    const std::string path = fmt::format("{}/jit-{}.dump", folder, getpid());
    unlink(path.c_str());  // of an earlier process with that number
    const auto failed = [&](int error) {
      return fmt::format("{}: {}", path, std::strerror(error));
    };
    file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (file_ < 0) return failed(errno);
    std::string header;
    put(header,
        DumpHeader{.process = static_cast<std::uint32_t>(getpid()), .time = monotonic_time()});
    int error = write(header);
    if (error == 0) {
      // perf records where files are mapped to be executed; that is how it learns of this one.
      mark_ = mmap(nullptr, mark_size(), PROT_READ | PROT_EXEC, MAP_PRIVATE, file_, 0);
      if (mark_ == MAP_FAILED) error = errno;
    }
    if (error != 0) {
      close(file_);
      unlink(path.c_str());
      return failed(error) +
             (error == EPERM ? " (the file system must allow files to be executed)" : "");
    }
    state_ = State::open;
    return {};
  }

  std::string records_of(std::span<const std::byte> code, std::string_view name,
                         std::span<const SourceLine> lines) {
    const std::uint64_t now = monotonic_time();
    const auto address = reinterpret_cast<std::uint64_t>(code.data());
    const auto process = static_cast<std::uint32_t>(getpid());
    std::string load;
    put(load, LoadRecord{process, static_cast<std::uint32_t>(gettid()), address, address,
                         code.size(), next_number_++});
    put_text(load, name);
    load.append(reinterpret_cast<const char*>(code.data()), code.size());
    std::string bytes;
    if (!lines.empty()) {
      // A record's size has 32 bits.
      const std::string content = debug_info(code, lines);
      if (content.size() < std::numeric_limits<std::int32_t>::max())
        bytes = record(kDebugInfo, now, content);
    }
    return bytes + record(kLoad, now, load);
  }

  /// The number of the error, or 0.
  [[nodiscard]] int write(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t written = ::write(file_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return errno;
      bytes.remove_prefix(static_cast<std::size_t>(written));
    }
    return 0;
  }

  /// In a forked process: the file is the parent's.
  void forget() {
    if (state_ != State::open) return;
    close(file_);
    munmap(mark_, mark_size());
    state_ = State::unopened;
    next_number_ = 0;
  }

  void end() {
    const std::lock_guard lock(mutex_);
    // Without this record the file ends here as well, so an error changes nothing.
    if (state_ == State::open) {
      static_cast<void>(write(record(kClose, monotonic_time(), {})));
      close(file_);
    }
    state_ = State::over;
  }

  static std::size_t mark_size() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

  std::mutex mutex_;
  State state_ = State::unopened;
  int file_ = -1;
  void* mark_ = nullptr;
  std::uint64_t next_number_ = 0;
};

}  // namespace

bool jit_dump_wanted() { return !wanted_folder().empty(); }

void add_to_jit_dump(std::span<const std::byte> code, std::string_view name,
                     std::span<const SourceLine> lines) {
  JitDump::instance().add(code, name, lines);
}

}  // namespace dyad::codegen
