#include "dyad/io/zip.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>

// The layout is that of APPNOTE.TXT 6.3, PKWARE's description of the format.
namespace dyad::io {
namespace {

constexpr std::uint32_t kLocalHeader = 0x04034b50, kDirectoryEntry = 0x02014b50, kEnd = 0x06054b50,
                        kEnd64 = 0x06064b50, kEnd64Locator = 0x07064b50;
constexpr std::uint32_t kIn64 = 0xffffffff;  // the number is in the zip64 record
constexpr std::uint16_t kStored = 0, kDeflated = 8, kZip64Field = 1;

/// Little-endian numbers appended to a string.
class Packer {
 public:
  Packer& put(std::uint64_t value, int bytes) {
    for (; bytes > 0; --bytes, value >>= 8) text_ += static_cast<char>(value);
    return *this;
  }
  Packer& put(std::string_view text) {
    text_ += text;
    return *this;
  }
  [[nodiscard]] const std::string& text() const noexcept { return text_; }

 private:
  std::string text_;
};

std::uint64_t number_at(std::string_view text, std::size_t at, int bytes) {
  std::uint64_t value = 0;
  for (int i = bytes; i-- > 0;) {
    value = value << 8 | static_cast<unsigned char>(text[at + static_cast<std::size_t>(i)]);
  }
  return value;
}

std::string read_text(const InputFile& file, std::uint64_t offset, std::uint64_t bytes,
                      std::string_view what) {
  if (offset > file.size() || bytes > file.size() - offset) {
    file.fail(fmt::format("at byte {}: expected {} bytes of {}, but the file ends at {}", offset,
                          bytes, what, file.size()));
  }
  std::string text(bytes, '\0');
  file.read(offset, text.data(), text.size(), what);
  return text;
}

struct Directory {
  std::uint64_t offset, bytes, members;
};

/// Reads the record at the end of the archive, or the zip64 one that it points to.
Directory find_directory(const InputFile& file) {
  constexpr std::uint64_t kEndBytes = 22, kMaxComment = 0xffff, kLocatorBytes = 20,
                          kEnd64Bytes = 56;
  if (file.size() < kEndBytes) {
    file.fail(fmt::format("expected a zip archive of at least {} bytes, found {}", kEndBytes,
                          file.size()));
  }
  const std::uint64_t tail = std::min(file.size(), kEndBytes + kMaxComment);
  const std::uint64_t begin = file.size() - tail;
  const std::string text = read_text(file, begin, tail, "the end of the archive");
  std::size_t at = text.size() - kEndBytes;
  // The record ends with a comment of a length that it gives: it must reach the end of the file.
  while (number_at(text, at, 4) != kEnd ||
         number_at(text, at + 20, 2) != text.size() - at - kEndBytes) {
    if (at-- == 0) {
      file.fail(
          "expected the end record of a zip archive, found none: the file is cut or no "
          "archive");
    }
  }
  const std::uint64_t disks = number_at(text, at + 4, 2) | number_at(text, at + 6, 2);
  Directory found{number_at(text, at + 16, 4), number_at(text, at + 12, 4),
                  number_at(text, at + 10, 2)};
  const std::uint64_t end = begin + at;
  if (found.offset == kIn64 || found.bytes == kIn64 || found.members == 0xffff) {
    if (end < kLocatorBytes) file.fail("expected a zip64 locator, found the start of the file");
    const std::string locator =
        read_text(file, end - kLocatorBytes, kLocatorBytes, "the zip64 locator");
    if (number_at(locator, 0, 4) == kEnd64Locator) {
      const std::uint64_t at64 = number_at(locator, 8, 8);
      const std::string record = read_text(file, at64, kEnd64Bytes, "the zip64 end record");
      if (number_at(record, 0, 4) != kEnd64) {
        file.fail(fmt::format("at byte {}: expected a zip64 end record", at64));
      }
      found = {number_at(record, 48, 8), number_at(record, 40, 8), number_at(record, 32, 8)};
    }
  } else if (disks != 0) {
    file.fail("expected a zip archive in one file, found a part of one");
  }
  if (found.offset > end || found.bytes > end - found.offset) {
    file.fail(fmt::format("expected {} bytes of directory at byte {}, but the end record is at {}",
                          found.bytes, found.offset, end));
  }
  return found;
}

/// Replaces the numbers that the entry says are in its zip64 field.
void apply_zip64(const InputFile& file, std::string_view extra, ZipMember& member) {
  const auto wants = [](std::uint64_t value) { return value == kIn64; };
  if (!wants(member.data.unpacked) && !wants(member.data.packed) && !wants(member.header)) return;
  for (std::size_t at = 0; at + 4 <= extra.size();) {
    const std::uint64_t id = number_at(extra, at, 2), bytes = number_at(extra, at + 2, 2);
    at += 4;
    if (bytes > extra.size() - at) break;
    if (id == kZip64Field) {
      std::size_t next = at;
      for (std::uint64_t* value : {&member.data.unpacked, &member.data.packed, &member.header}) {
        if (!wants(*value)) continue;
        if (next + 8 > at + bytes) break;
        *value = number_at(extra, next, 8);
        next += 8;
      }
      return;
    }
    at += bytes;
  }
  // Without the field the value is meant: 4 GB less one byte.
  if (member.header > file.size()) {
    file.fail(fmt::format("member {}: expected a header inside the file, found it at byte {}",
                          data::shown(member.name), member.header));
  }
}

}  // namespace

void ZipWriter::add(const std::string& name, std::initializer_list<std::string_view> parts) {
  Member member{name, file_.offset(), 0, 0};
  for (const std::string_view part : parts) {
    member.size += part.size();
    member.crc = static_cast<std::uint32_t>(
        crc32_z(member.crc, reinterpret_cast<const Bytef*>(part.data()), part.size()));
  }
  // Like NumPy, every local header has the zip64 field.
  file_.write(Packer()
                  .put(kLocalHeader, 4)
                  .put(45, 2)
                  .put(0x800, 2)  // names are UTF-8
                  .put(kStored, 2)
                  .put(0x00210000, 4)  // 1980-01-01 00:00
                  .put(member.crc, 4)
                  .put(kIn64, 4)
                  .put(kIn64, 4)
                  .put(name.size(), 2)
                  .put(20, 2)
                  .put(name)
                  .put(kZip64Field, 2)
                  .put(16, 2)
                  .put(member.size, 8)
                  .put(member.size, 8)
                  .text());
  for (const std::string_view part : parts) file_.write(part);
  members_.push_back(std::move(member));
}

void ZipWriter::finish() {
  const std::uint64_t begin = file_.offset();
  for (const Member& member : members_) {
    Packer extra;
    const bool large = member.size >= kIn64, far = member.offset >= kIn64;
    if (large) extra.put(member.size, 8).put(member.size, 8);
    if (far) extra.put(member.offset, 8);
    const bool has_extra = large || far;
    Packer entry;
    entry.put(kDirectoryEntry, 4)
        .put(45, 2)
        .put(45, 2)
        .put(0x800, 2)
        .put(kStored, 2)
        .put(0x00210000, 4)
        .put(member.crc, 4)
        .put(large ? kIn64 : member.size, 4)
        .put(large ? kIn64 : member.size, 4)
        .put(member.name.size(), 2)
        .put(has_extra ? extra.text().size() + 4 : 0, 2)
        .put(0, 2 + 2 + 2 + 4)
        .put(far ? kIn64 : member.offset, 4)
        .put(member.name);
    if (has_extra) entry.put(kZip64Field, 2).put(extra.text().size(), 2).put(extra.text());
    file_.write(entry.text());
  }
  const std::uint64_t end = file_.offset(), count = members_.size();
  const bool needs64 = begin >= kIn64 || end - begin >= kIn64 || count >= 0xffff;
  if (needs64) {
    file_.write(Packer()
                    .put(kEnd64, 4)
                    .put(44, 8)
                    .put(45, 2)
                    .put(45, 2)
                    .put(0, 8)
                    .put(count, 8)
                    .put(count, 8)
                    .put(end - begin, 8)
                    .put(begin, 8)
                    .put(kEnd64Locator, 4)
                    .put(0, 4)
                    .put(end, 8)
                    .put(1, 4)
                    .text());
  }
  file_.write(Packer()
                  .put(kEnd, 4)
                  .put(0, 4)
                  .put(needs64 ? 0xffff : count, 2)
                  .put(needs64 ? 0xffff : count, 2)
                  .put(needs64 ? kIn64 : end - begin, 4)
                  .put(needs64 ? kIn64 : begin, 4)
                  .put(0, 2)
                  .text());
}

std::vector<ZipMember> read_zip_directory(const InputFile& file) {
  constexpr std::size_t kEntryBytes = 46;
  const Directory directory = find_directory(file);
  const std::string text =
      read_text(file, directory.offset, directory.bytes, "the archive's directory");
  if (directory.members > text.size() / kEntryBytes) {
    file.fail(fmt::format("at byte {}: expected {} members, but the directory has {} bytes",
                          directory.offset, directory.members, text.size()));
  }
  std::vector<ZipMember> members;
  std::size_t at = 0;
  std::uint64_t left = file.size();
  for (std::uint64_t i = 0; i < directory.members; ++i) {
    if (text.size() - at < kEntryBytes || number_at(text, at, 4) != kDirectoryEntry) {
      file.fail(fmt::format("at byte {}: expected entry {} of the archive's directory",
                            directory.offset + at, i));
    }
    const std::uint64_t flags = number_at(text, at + 8, 2), method = number_at(text, at + 10, 2);
    const std::uint64_t name = number_at(text, at + 28, 2), extra = number_at(text, at + 30, 2),
                        comment = number_at(text, at + 32, 2);
    if (name + extra + comment > text.size() - at - kEntryBytes) {
      file.fail(fmt::format("at byte {}: entry {} reaches past the archive's directory",
                            directory.offset + at, i));
    }
    ZipMember member{.name = text.substr(at + kEntryBytes, name),
                     .header = number_at(text, at + 42, 4),
                     .data = {.offset = 0,
                              .packed = number_at(text, at + 20, 4),
                              .unpacked = number_at(text, at + 24, 4),
                              .deflated = method == kDeflated,
                              .crc = static_cast<std::uint32_t>(number_at(text, at + 16, 4))}};
    if ((flags & 1) != 0 || (method != kStored && method != kDeflated)) {
      file.fail(fmt::format("member {}: expected it stored or deflated, found {}",
                            data::shown(member.name),
                            (flags & 1) != 0 ? "it encrypted" : fmt::format("method {}", method)));
    }
    apply_zip64(file, std::string_view(text).substr(at + kEntryBytes + name, extra), member);
    if (method == kStored && member.data.packed != member.data.unpacked) {
      file.fail(fmt::format("member {}: expected {} stored bytes, found {}",
                            data::shown(member.name), member.data.unpacked, member.data.packed));
    }
    // Members that share their bytes could unpack to any amount of memory.
    if (member.data.packed > left) {
      file.fail(
          fmt::format("member {}: expected at most {} bytes beside the other members, found {}",
                      data::shown(member.name), left, member.data.packed));
    }
    left -= member.data.packed;
    members.push_back(std::move(member));
    at += kEntryBytes + name + extra + comment;
  }
  return members;
}

FileRange zip_member_data(const InputFile& file, const ZipMember& member) {
  constexpr std::size_t kHeaderBytes = 30;
  const std::string text = read_text(file, member.header, kHeaderBytes,
                                     fmt::format("the header of {}", data::shown(member.name)));
  if (number_at(text, 0, 4) != kLocalHeader) {
    file.fail(fmt::format("at byte {}: expected the header of {}", member.header,
                          data::shown(member.name)));
  }
  FileRange range = member.data;
  range.offset = member.header + kHeaderBytes + number_at(text, 26, 2) + number_at(text, 28, 2);
  if (range.offset > file.size() || range.packed > file.size() - range.offset) {
    file.fail(fmt::format("at byte {}: expected {} bytes of {}, but the file ends at {}",
                          range.offset, range.packed, data::shown(member.name), file.size()));
  }
  return range;
}

}  // namespace dyad::io
