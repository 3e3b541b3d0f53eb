#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <stdexcept>
#include <string>

#include "dyad/base/error.h"
#include "dyad/core/allocation_limit.h"
#include "dyad/data/csv.h"
#include "dyad/data/idx.h"
#include "dyad/io/checkpoint.h"
#include "dyad/io/npy.h"
#include "dyad/io/program.h"
#include "dyad/io/safetensors.h"
#include "tests/fuzz/targets.h"

// Readers of files. What they refuse is an IoError that names the file, and they take no more
// memory than the file could need.

namespace dyad::fuzz {
namespace {

/// A file in memory.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : descriptor_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    if (descriptor_ < 0) throw std::runtime_error("no file in memory can be had");
    for (std::size_t done = 0; done < bytes.size();) {
      const ssize_t wrote = ::write(descriptor_, bytes.data() + done, bytes.size() - done);
      if (wrote <= 0) throw std::runtime_error("a file in memory cannot be written");
      done += static_cast<std::size_t>(wrote);
    }
  }
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  [[nodiscard]] std::string path() const { return fmt::format("/proc/self/fd/{}", descriptor_); }

 private:
  int descriptor_;
};

/// A reader may take `each` bytes for a byte of the file's contents.
template <class F>
void read_file(std::string_view bytes, F&& read, std::size_t each = 1) {
  const MemoryFile file(bytes);
  // Deflate packs at most so many bytes into one; readers have buffers of their own.
  const AllocationLimit limit((std::size_t{4} << 20) + 1032 * each * bytes.size());
  try {
    read(file.path());
  } catch (const IoError& error) {
    if (error.message().find(file.path()) == std::string::npos) {
      throw std::logic_error("the message does not name the file: " + error.message());
    }
  }
}

}  // namespace

void read_npy(std::string_view bytes) {
  read_file(bytes, [](const std::string& path) { (void)data::load_npy(path); });
}

void read_npz(std::string_view bytes) {
  read_file(bytes, [](const std::string& path) { (void)io::load_npz(path); });
}

void read_safetensors(std::string_view bytes) {
  for (const bool map : {false, true}) {
    read_file(bytes,
              [&](const std::string& path) { (void)io::read_safetensors(path, {.map = map}); });
  }
}

void read_checkpoint(std::string_view bytes) {
  read_file(bytes,
            [](const std::string& path) { (void)io::load_checkpoint(path, {.check = false}); });
}

void read_program(std::string_view bytes) {
  read_file(bytes, [](const std::string& path) {
    (void)io::load(path, {.map = false, .check = false});  // any change would fail the checksum
  });
}

void read_idx(std::string_view bytes) {
  read_file(bytes, [](const std::string& path) { (void)data::load_idx(path); });
}

void read_csv(std::string_view bytes) {
  for (const bool header : {false, true}) {
    for (const DType dtype : {f32, i64}) {
      constexpr std::size_t kEach = 8;  // a digit and its comma are an i64, in a list that grows
      read_file(
          bytes,
          [&](const std::string& path) {
            (void)data::load_csv(
                path, {.header = header, .dtype = dtype, .missing_as_nan = dtype == f32});
          },
          kEach);
    }
  }
}

}  // namespace dyad::fuzz
