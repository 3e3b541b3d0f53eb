#include "dyad/io/input_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "dyad/base/error.h"
#include "dyad/core/tensor_impl.h"

namespace dyad::io {
namespace {

/// A member of an archive: checks its CRC-32 when its last byte has been read.
class RangeSource final : public data::ByteSource {
 public:
  RangeSource(const InputFile& file, std::string name, const FileRange& range)
      : ByteSource(fmt::format("{}:{}", file.path(), name), file.loc()),
        file_(file),
        range_(range),
        buffer_(std::size_t{64} << 10) {
    if (range_.deflated && inflateInit2(&stream_, -15) != Z_OK) {
      throw MemoryError(fmt::format("'{}': no memory for the decompressor", this->name()),
                        file.loc().user());
    }
  }
  ~RangeSource() override {
    if (range_.deflated) inflateEnd(&stream_);
  }

  std::uint64_t remaining_limit() const override {
    const std::uint64_t packable = range_.packed > UINT64_MAX / data::kMaxDeflateRatio
                                       ? UINT64_MAX
                                       : range_.packed * data::kMaxDeflateRatio;
    const std::uint64_t most =
        range_.deflated ? std::min(range_.unpacked, packable) : range_.unpacked;
    return most - std::min(most, offset());
  }

 protected:
  std::size_t read_some(void* into, std::size_t bytes) override {
    const std::size_t want =
        static_cast<std::size_t>(std::min<std::uint64_t>(bytes, range_.unpacked - offset()));
    if (want == 0) return 0;
    const std::size_t got = range_.deflated ? inflate_some(into, want) : copy_some(into, want);
    crc_ = static_cast<std::uint32_t>(crc32_z(crc_, static_cast<const Bytef*>(into), got));
    if (offset() + got == range_.unpacked && crc_ != range_.crc) {
      fail(fmt::format("expected the checksum {:08x}, found {:08x}: the data is damaged",
                       range_.crc, crc_));
    }
    return got;
  }

 private:
  std::size_t copy_some(void* into, std::size_t want) {
    file_.read(range_.offset + consumed_, into, want, name());
    consumed_ += want;
    return want;
  }
  std::size_t inflate_some(void* into, std::size_t want) {
    stream_.next_out = static_cast<Bytef*>(into);
    stream_.avail_out = static_cast<uInt>(std::min<std::size_t>(want, 1u << 30));
    const uInt room = stream_.avail_out;
    while (stream_.avail_out == room) {
      if (stream_.avail_in == 0 && consumed_ < range_.packed) {
        const auto step = static_cast<std::size_t>(
            std::min<std::uint64_t>(buffer_.size(), range_.packed - consumed_));
        file_.read(range_.offset + consumed_, buffer_.data(), step, name());
        consumed_ += step;
        stream_.next_in = buffer_.data();
        stream_.avail_in = static_cast<uInt>(step);
      }
      const int code = inflate(&stream_, Z_NO_FLUSH);
      if (stream_.avail_out != room) break;
      if (code != Z_OK) {
        fail(fmt::format("at byte {}: expected {} unpacked bytes, but the deflate stream {}",
                         offset(), range_.unpacked,
                         code == Z_STREAM_END || code == Z_BUF_ERROR ? "ends" : "is damaged"));
      }
    }
    return room - stream_.avail_out;
  }

  const InputFile& file_;
  FileRange range_;
  std::vector<unsigned char> buffer_;
  z_stream stream_{};
  std::uint64_t consumed_ = 0;
  std::uint32_t crc_ = 0;
};

}  // namespace

// O_NONBLOCK: opening a pipe must not wait for a writer.
InputFile::InputFile(std::string path, Loc loc)
    : path_(std::move(path)),
      loc_(loc),
      descriptor_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (descriptor_ < 0) fail(fmt::format("cannot be opened: {}", std::strerror(errno)));
  struct stat info{};
  if (::fstat(descriptor_, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(descriptor_);
    fail("expected a regular file, found a folder or device");
  }
  size_ = static_cast<std::uint64_t>(info.st_size);
}

InputFile::~InputFile() { ::close(descriptor_); }

void InputFile::read(std::uint64_t offset, void* into, std::size_t bytes,
                     std::string_view what) const {
  auto* out = static_cast<char*>(into);
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t got =
        ::pread(descriptor_, out + done, bytes - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      fail(fmt::format("at byte {}: {} cannot be read: {}", offset + done, what,
                       std::strerror(errno)));
    }
    if (got == 0) {
      fail(fmt::format("at byte {}: expected {} bytes of {}, found the end after {}", offset, bytes,
                       what, done));
    }
    done += static_cast<std::size_t>(got);
  }
}

Ref<Storage> InputFile::map() const {
  if (size_ == 0) return Storage::allocate(0);
  void* memory = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE, descriptor_, 0);
  if (memory == MAP_FAILED) {
    fail(fmt::format("cannot be mapped into memory: {}", std::strerror(errno)));
  }
  return Storage::adopt(memory, size_, [memory, size = size_] { ::munmap(memory, size); });
}

void InputFile::fail(const std::string& message) const {
  throw IoError(fmt::format("'{}': {}", path_, message), loc_.user());
}

std::unique_ptr<data::ByteSource> open_range(const InputFile& file, std::string name,
                                             const FileRange& range) {
  return std::make_unique<RangeSource>(file, std::move(name), range);
}

Tensor mapped_tensor(const Ref<Storage>& file, std::uint64_t offset, DType dtype,
                     const Shape& shape) {
  std::byte* data = file->data() + offset;
  if (reinterpret_cast<std::uintptr_t>(data) % size_of(dtype) != 0) {
    Tensor copy = make_empty(dtype, shape);
    const auto bytes = static_cast<std::size_t>(copy.impl()->numel()) * size_of(dtype);
    if (bytes != 0) std::memcpy(copy.raw_data(), data, bytes);
    return copy;
  }
  Ref<TensorImpl> impl(new TensorImpl(dtype, shape));
  // A storage of its own, as writes to a tensor are counted there.
  impl->storage =
      Storage::adopt(data, static_cast<std::size_t>(impl->numel()) * size_of(dtype), [file] {});
  impl->data = data;
  return Tensor(std::move(impl));
}

}  // namespace dyad::io
