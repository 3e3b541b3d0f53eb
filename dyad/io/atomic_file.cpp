#include "dyad/io/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "dyad/base/error.h"

namespace dyad::io {
namespace {

constexpr std::size_t kBuffer = std::size_t{256} << 10;

/// Where a chain of symbolic links ends; the last one may point to a file that does not exist yet.
std::filesystem::path resolved(std::filesystem::path path) {
  std::error_code ignored;
  for (int links = 0; links < 40 && std::filesystem::is_symlink(path, ignored); ++links) {
    const std::filesystem::path next = std::filesystem::read_symlink(path, ignored);
    if (next.empty()) break;
    path = next.is_absolute() ? next : path.parent_path() / next;
  }
  return path;
}

}  // namespace

AtomicFile::AtomicFile(std::string path, Loc loc) : path_(std::move(path)), loc_(loc) {
  const std::filesystem::path target = resolved(path_);
  target_ = target.string();
  struct stat old{};
  const bool exists = ::stat(target_.c_str(), &old) == 0;
  if (exists && !S_ISREG(old.st_mode)) {
    throw IoError(fmt::format("'{}': cannot be written: it is no regular file", path_),
                  loc_.user());
  }
  static std::atomic<unsigned> counter = 0;  // tells apart the temporary files of this process
  const std::filesystem::path folder = target.parent_path();
  const std::string prefix = fmt::format(".{}.tmp-{}-", target.filename().string(), ::getpid());
  constexpr int kAttempts = 100;
  for (int attempt = 0; descriptor_ < 0; ++attempt) {
    temporary_ = (folder / (prefix + std::to_string(counter++))).string();
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && (errno != EEXIST || attempt == kAttempts)) {
      temporary_.clear();
      fail("cannot be written");
    }
  }
  if (exists) ::fchmod(descriptor_, old.st_mode & 07777);
  buffer_.reserve(kBuffer);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(const void* data, std::size_t bytes) {
  const auto* from = static_cast<const char*>(data);
  offset_ += bytes;
  if (buffer_.size() + bytes > kBuffer) flush();
  if (bytes >= kBuffer) {
    write_out(from, bytes);
  } else {
    buffer_.insert(buffer_.end(), from, from + bytes);
  }
}

void AtomicFile::flush() {
  write_out(buffer_.data(), buffer_.size());
  buffer_.clear();
}

void AtomicFile::write_out(const char* data, std::size_t bytes) {
  while (bytes != 0) {
    const ssize_t done = ::write(descriptor_, data, bytes);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail("cannot be written");
    data += done;
    bytes -= static_cast<std::size_t>(done);
  }
}

void AtomicFile::commit() {
  flush();
  if (::fsync(descriptor_) != 0) fail("cannot be brought to disk");
  const int closed = ::close(descriptor_);
  descriptor_ = -1;
  if (closed != 0) fail("cannot be brought to disk");
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail("cannot be replaced");
  temporary_.clear();
  // The rename itself must survive a power cut: it is kept in the folder.
  const std::string folder = std::filesystem::path(target_).parent_path().string();
  const int descriptor =
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor >= 0) {
    ::fsync(descriptor);
    ::close(descriptor);
  }
}

void AtomicFile::fail(std::string_view action) const {
  throw IoError(fmt::format("'{}': {}: {}", path_, action, std::strerror(errno)), loc_.user());
}

void write_file(const std::string& path, std::string_view contents, Loc loc) {
  AtomicFile file(path, loc);
  file.write(contents);
  file.commit();
}

}  // namespace dyad::io
