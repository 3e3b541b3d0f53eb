#include "dyad/codegen/disk_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <utility>

namespace dyad::codegen {
namespace {

namespace fs = std::filesystem;

/// What precedes the object in a file.
struct Header {
  char magic[8];
  std::uint64_t size;
  KernelHash hash;  // of the object
};
constexpr char kMagic[8] = {'D', 'Y', 'A', 'D', 'K', 'R', 'N', '1'};

class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  [[nodiscard]] int get() const noexcept { return descriptor_; }

 private:
  int descriptor_;
};

std::string default_folder() {
  if (const char* off = std::getenv("DYAD_CACHE"); off != nullptr && std::strcmp(off, "0") == 0)
    return {};
  const auto variable = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value != nullptr ? value : "";
  };
  if (const std::string wanted = variable("DYAD_CACHE_DIR"); !wanted.empty()) return wanted;
  if (const std::string cache = variable("XDG_CACHE_HOME"); !cache.empty())
    return cache + "/dyad/kernels";
  if (const std::string home = variable("HOME"); !home.empty())
    return home + "/.cache/dyad/kernels";
  return {};
}

std::uint64_t default_bound() {
  const char* wanted = std::getenv("DYAD_CACHE_MB");
  const long megabytes = wanted != nullptr ? std::strtol(wanted, nullptr, 10) : 256;
  return static_cast<std::uint64_t>(std::max(1L, megabytes)) << 20;
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool write_all(int file, const void* bytes, std::size_t size) {
  const char* at = static_cast<const char*>(bytes);
  while (size > 0) {
    const ssize_t written = write(file, at, size);
    if (written <= 0) return false;
    at += written;
    size -= static_cast<std::size_t>(written);
  }
  return true;
}

}  // namespace

DiskCache::DiskCache(const std::string& identity)
    : DiskCache(default_folder(), identity, default_bound()) {}

DiskCache::DiskCache(std::string folder, const std::string& identity, std::uint64_t max_bytes)
    : root_(std::move(folder)), max_bytes_(max_bytes) {
  if (root_.empty() || identity.empty()) return;
  std::error_code status;
  fs::create_directories(fs::path(root_).parent_path(), status);
  folder_ = root_ + "/" + hash_bytes(identity).hex();
  // Missing or not, what decides is who may write to the folder that files are loaded from.
  mkdir(root_.c_str(), 0700);
  mkdir(folder_.c_str(), 0700);
  struct stat info;
  // What is loaded is executed, so a folder that others may write to is not used.
  const bool ours = stat(folder_.c_str(), &info) == 0 && S_ISDIR(info.st_mode) &&
                    info.st_uid == geteuid() && (info.st_mode & 0022) == 0;
  if (!ours) folder_.clear();
}

std::string DiskCache::path_of(const KernelHash& recipe) const {
  return folder_ + "/" + recipe.hex() + ".o";
}

std::vector<std::byte> DiskCache::find(const KernelHash& recipe) const {
  if (!enabled()) return {};
  const File file(open(path_of(recipe).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat info;
  if (file.get() < 0 || fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode) ||
      info.st_uid != geteuid() || (info.st_mode & 0022) != 0 ||
      info.st_size < static_cast<off_t>(sizeof(Header))) {
    return {};
  }
  Header header;
  if (read(file.get(), &header, sizeof header) != static_cast<ssize_t>(sizeof header)) return {};
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0) return {};
  if (header.size != static_cast<std::uint64_t>(info.st_size) - sizeof header) return {};
  std::vector<std::byte> object(header.size);
  if (read(file.get(), object.data(), object.size()) != static_cast<ssize_t>(object.size()))
    return {};
  if (hash_bytes(text_of(object)) != header.hash) return {};
  futimens(file.get(), nullptr);  // used now: shrink() takes the oldest
  return object;
}

void DiskCache::store(std::span<const KernelHash> recipes,
                      std::span<const std::byte> object) const {
  if (!enabled() || recipes.empty()) return;
  std::string temporary = folder_ + "/new-XXXXXX";
  const File file(mkostemp(temporary.data(), O_CLOEXEC));
  if (file.get() < 0) return;
  Header header{{}, object.size(), hash_bytes(text_of(object))};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  if (write_all(file.get(), &header, sizeof header) &&
      write_all(file.get(), object.data(), object.size())) {
    // One file under many names. link() never replaces, so what is damaged is removed first.
    for (const KernelHash& recipe : recipes) {
      const std::string path = path_of(recipe);
      if (link(temporary.c_str(), path.c_str()) == 0 || errno != EEXIST) continue;
      const std::string other = path + "." + std::to_string(getpid());
      unlink(other.c_str());  // of a process of this number that ended in between
      if (link(temporary.c_str(), other.c_str()) == 0 && rename(other.c_str(), path.c_str()) != 0)
        unlink(other.c_str());
    }
  }
  unlink(temporary.c_str());
  // Looking at the whole folder at every object would take longer than compiling them.
  unseen_ += object.size();
  if (unseen_ > max_bytes_ / 16) {
    unseen_ = 0;
    shrink();
  }
}

void DiskCache::shrink() const {
  struct Entry {
    std::vector<fs::path> names;
    std::uint64_t bytes;
    timespec used;
  };
  std::map<ino_t, Entry> entries;
  std::uint64_t total = 0;
  std::error_code status;
  for (auto at = fs::recursive_directory_iterator(root_, status);
       !status && at != fs::recursive_directory_iterator(); at.increment(status)) {
    struct stat info;
    if (lstat(at->path().c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    Entry& entry = entries[info.st_ino];
    if (entry.names.empty()) {
      entry.bytes = static_cast<std::uint64_t>(info.st_size);
      entry.used = info.st_mtim;
      total += entry.bytes;
    }
    entry.names.push_back(at->path());
  }
  if (total <= max_bytes_) return;
  std::vector<const Entry*> oldest;
  for (const auto& [inode, entry] : entries) oldest.push_back(&entry);
  std::sort(oldest.begin(), oldest.end(), [](const Entry* a, const Entry* b) {
    return std::pair(a->used.tv_sec, a->used.tv_nsec) < std::pair(b->used.tv_sec, b->used.tv_nsec);
  });
  for (const Entry* entry : oldest) {
    if (total <= max_bytes_ / 4 * 3) return;
    for (const fs::path& name : entry->names) fs::remove(name, status);
    total -= entry->bytes;
  }
}

}  // namespace dyad::codegen
