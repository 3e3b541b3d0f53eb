#include "dyad/data/byte_source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include "dyad/base/error.h"
#include "dyad/core/tensor_impl.h"

namespace dyad::data {
namespace {

/// A file through zlib, which passes plain files on as they are.
class FileSource final : public ByteSource {
 public:
  FileSource(const std::string& path, Loc loc) : ByteSource(path, loc) {
    // O_NONBLOCK: opening a pipe must not wait for a writer.
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) fail(fmt::format("cannot be opened: {}", std::strerror(errno)));
    struct stat info{};
    unsigned char magic[2] = {};
    const bool known = ::fstat(descriptor, &info) == 0;
    if (!known || !S_ISREG(info.st_mode)) {
      ::close(descriptor);
      fail("expected a regular file, found a folder or device");
    }
    compressed_ = ::pread(descriptor, magic, 2, 0) == 2 && magic[0] == 0x1f && magic[1] == 0x8b;
    bytes_ = static_cast<std::uint64_t>(info.st_size);
    file_ = gzdopen(descriptor, "rb");
    if (!file_) {
      ::close(descriptor);
      throw MemoryError(fmt::format("'{}': no memory for the decompressor", path), loc.user());
    }
    gzbuffer(file_, 128 * 1024);
  }
  ~FileSource() override {
    if (file_) gzclose(file_);
  }

  std::uint64_t remaining_limit() const override {
    const std::uint64_t most = compressed_ ? bytes_ * kMaxDeflateRatio : bytes_;
    return most - std::min(most, offset());
  }

 protected:
  std::size_t read_some(void* into, std::size_t bytes) override {
    const auto step = static_cast<unsigned>(std::min<std::size_t>(bytes, 1u << 30));
    const int got = gzread(file_, into, step);
    int code = Z_OK;
    const char* text = gzerror(file_, &code);
    if (got < 0 || (got == 0 && code != Z_OK && code != Z_STREAM_END)) {
      const std::string reason = code == Z_ERRNO ? std::strerror(errno) : text;
      fail(fmt::format("at byte {}: the {} is damaged or ends too early ({})", offset(),
                       compressed_ ? "gzip stream" : "file", reason));
    }
    return static_cast<std::size_t>(got);
  }

 private:
  gzFile file_ = nullptr;
  bool compressed_ = false;
  std::uint64_t bytes_ = 0;
};

void swap_bytes(std::byte* data, std::size_t bytes, std::size_t element) {
  for (std::size_t at = 0; at < bytes; at += element) std::reverse(data + at, data + at + element);
}

}  // namespace

void ByteSource::read(void* into, std::size_t bytes, std::string_view what) {
  auto* out = static_cast<std::byte*>(into);
  const std::uint64_t begin = offset_;
  std::size_t done = 0;
  while (done < bytes) {
    const std::size_t got = read_up_to(out + done, bytes - done);
    if (got == 0) {
      fail(fmt::format("at byte {}: expected {} bytes of {}, found the end after {}", begin, bytes,
                       what, done));
    }
    done += got;
  }
}

std::size_t ByteSource::read_up_to(void* into, std::size_t bytes) {
  if (bytes == 0) return 0;
  const std::size_t got = read_some(into, bytes);
  offset_ += got;
  return got;
}

void ByteSource::expect_end(std::string_view what) {
  std::byte extra{};
  const std::uint64_t end = offset_;
  if (read_up_to(&extra, 1) != 0) {
    fail(fmt::format("at byte {}: expected the end after {}, found more data", end, what));
  }
}

void ByteSource::fail(const std::string& message) const {
  throw IoError(fmt::format("'{}': {}", name_, message), loc_.user());
}

std::unique_ptr<ByteSource> open_file(const std::string& path, Loc loc) {
  return std::make_unique<FileSource>(path, loc);
}

std::uint64_t checked_bytes(const ByteSource& source, DType dtype,
                            std::span<const std::uint64_t> sizes, std::string_view what) {
  constexpr std::size_t kMaxRank = 8;
  if (sizes.size() > kMaxRank) {
    source.fail(fmt::format("at byte {}: expected {} of at most {} axes, found {}", source.offset(),
                            what, kMaxRank, sizes.size()));
  }
  constexpr std::uint64_t kMost = std::uint64_t{1} << 62;
  std::uint64_t bytes = size_of(dtype);
  for (const std::uint64_t size : sizes) {
    if (size == 0) return 0;
  }
  for (const std::uint64_t size : sizes) {
    if (size >= kMost / bytes) {
      source.fail(fmt::format("at byte {}: {} of {}[{}] needs more bytes than can be addressed",
                              source.offset(), what, name_of(dtype), fmt::join(sizes, ", ")));
    }
    bytes *= size;
  }
  return bytes;
}

void check_bools(const ByteSource& source, const std::byte* data, std::size_t bytes,
                 std::uint64_t offset) {
  const auto* bad = std::find_if(data, data + bytes, [](std::byte b) { return b > std::byte{1}; });
  if (bad != data + bytes) {
    source.fail(fmt::format("at byte {}: expected a bool (0 or 1), found {}",
                            offset + static_cast<std::uint64_t>(bad - data),
                            static_cast<int>(*bad)));
  }
}

Tensor read_elements(ByteSource& source, DType dtype, std::span<const std::uint64_t> sizes,
                     bool big_endian, std::string_view what) {
  const std::uint64_t bytes = checked_bytes(source, dtype, sizes, what);
  if (bytes > source.remaining_limit()) {
    source.fail(fmt::format("at byte {}: {} of {}[{}] needs {} bytes, but at most {} can follow",
                            source.offset(), what, name_of(dtype), fmt::join(sizes, ", "), bytes,
                            source.remaining_limit()));
  }
  Shape shape;
  for (const std::uint64_t size : sizes) {
    if (size > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) / 4) {
      source.fail(fmt::format("at byte {}: a size of {} is too large", source.offset(), size));
    }
    shape.push_back(Dim(static_cast<std::int64_t>(size)));
  }
  Tensor tensor = make_empty(dtype, shape);
  auto* data = static_cast<std::byte*>(tensor.raw_data());
  const std::uint64_t begin = source.offset();
  source.read(data, bytes, what);
  if (dtype == DType::boolean) check_bools(source, data, bytes, begin);
  // A complex number is two, each in its own order of bytes.
  const std::size_t width = size_of(real_dtype(dtype));
  if (big_endian && width > 1) swap_bytes(data, bytes, width);
  return tensor;
}

std::string shown(std::string_view text) {
  constexpr std::size_t kMost = 60;
  std::string out = "'";
  for (const char c : text.substr(0, kMost)) {
    if (c == '\'' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + (text.size() > kMost ? "'..." : "'");
}

}  // namespace dyad::data
