#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "dyad/base/loc.h"
#include "dyad/core/tensor.h"

namespace dyad::data {

/// A stream of bytes from outside: never trusted. Every failure is an IoError that names the
/// source, the offset, what was expected and what was found.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  /// What messages call it: a path, or `weights.npz:bias.npy`.
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// Bytes read so far (after decompression).
  [[nodiscard]] std::uint64_t offset() const noexcept { return offset_; }
  /// The most bytes that can still come: what a size in the file is checked against before memory
  /// is taken for it. Exact for plain files, the best that deflate can do for compressed ones.
  [[nodiscard]] virtual std::uint64_t remaining_limit() const = 0;

  /// Exactly `bytes` bytes; `what` names them in the error when the source ends earlier.
  void read(void* into, std::size_t bytes, std::string_view what);
  /// Up to `bytes` bytes, 0 at the end.
  std::size_t read_up_to(void* into, std::size_t bytes);
  /// IoError unless the source ends here; a damaged trailer of a compressed file shows here.
  void expect_end(std::string_view what);

  /// Throws IoError `'name': message`.
  [[noreturn]] void fail(const std::string& message) const;

 protected:
  ByteSource(std::string name, Loc loc) : name_(std::move(name)), loc_(loc) {}
  /// Up to `bytes` bytes, 0 at the end; fails when the source is damaged.
  virtual std::size_t read_some(void* into, std::size_t bytes) = 0;

 private:
  std::string name_;
  Loc loc_;
  std::uint64_t offset_ = 0;
};

/// Opens a regular file; gzip is recognised by its first two bytes and unpacked on the way.
[[nodiscard]] std::unique_ptr<ByteSource> open_file(const std::string& path, Loc loc);

/// Deflate cannot pack more than this many bytes into one.
inline constexpr std::uint64_t kMaxDeflateRatio = 1032;

/// The next elements of `source` as a tensor. Sizes are checked against what the source can hold
/// before memory is taken; bool bytes must be 0 or 1. `big_endian` says how multi-byte elements are
/// stored.
[[nodiscard]] Tensor read_elements(ByteSource& source, DType dtype,
                                   std::span<const std::uint64_t> sizes, bool big_endian,
                                   std::string_view what);

/// Bytes of a tensor with these sizes; fails on `source` when the rank is above 8 or the product
/// does not fit 2^62.
[[nodiscard]] std::uint64_t checked_bytes(const ByteSource& source, DType dtype,
                                          std::span<const std::uint64_t> sizes,
                                          std::string_view what);

/// IoError on `source` unless each of `bytes` bytes is 0 or 1, as bool requires.
void check_bools(const ByteSource& source, const std::byte* data, std::size_t bytes,
                 std::uint64_t offset);

/// Text from a file made safe for a message: control characters escaped, at most 60 characters.
[[nodiscard]] std::string shown(std::string_view text);

}  // namespace dyad::data
