#include "dyad/io/safetensors.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <string_view>

#include "dyad/base/error.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/data/packed.h"
#include "dyad/io/atomic_file.h"
#include "dyad/io/input_file.h"
#include "dyad/io/safetensors_header.h"

namespace dyad::io {
namespace {

constexpr std::size_t kCacheLine = 64;
constexpr std::size_t kCrcDigits = 8;
constexpr std::uint64_t kReadStep = 1u << 20;

uLong add_crc(uLong crc, const void* data, std::size_t bytes) {
  return crc32_z(crc, static_cast<const Bytef*>(data), bytes);
}
std::string crc_text(uLong crc) { return fmt::format("{:08x}", crc); }

/// Where the digits of the checksum are in a header.
std::size_t checksum_position(std::string_view header) {
  const std::string before = fmt::format("\"{}\":\"", kChecksumKey);
  const std::size_t at = header.find(before);
  return at == header.npos ? at : at + before.size();
}

/// The checksum is of all bytes of the file, its own digits taken as 0.
void check_crc(const InputFile& file, std::uint64_t header_bytes, const std::string& said) {
  std::string bytes(header_bytes, '\0');
  file.read(0, bytes.data(), bytes.size(), "header");
  const std::size_t digits = checksum_position(bytes);
  if (digits == bytes.npos || said.size() != kCrcDigits) {
    file.fail(fmt::format("expected {} digits of a checksum as '{}', found {}", kCrcDigits,
                          kChecksumKey, data::shown(said)));
  }
  bytes.replace(digits, kCrcDigits, crc_text(0));
  uLong crc = add_crc(0, bytes.data(), bytes.size());
  for (std::uint64_t at = header_bytes; at < file.size();) {
    bytes.resize(std::min(kReadStep, file.size() - at));
    file.read(at, bytes.data(), bytes.size(), "data");
    crc = add_crc(crc, bytes.data(), bytes.size());
    at += bytes.size();
  }
  if (crc_text(crc) != said) {
    file.fail(
        fmt::format("expected bytes whose checksum is {}, as the file says, found {}: it was "
                    "altered or damaged",
                    said, crc_text(crc)));
  }
}

Tensor load_tensor(const InputFile& file, const Ref<Storage>& map, const SafetensorsEntry& entry,
                   std::uint64_t offset) {
  Shape shape;
  for (const std::uint64_t size : entry.sizes)
    shape.push_back(Dim(static_cast<std::int64_t>(size)));
  const std::uint64_t bytes = entry.end - entry.begin;
  Tensor tensor;
  if (map) {
    tensor = mapped_tensor(map, offset, entry.dtype, shape);
  } else {
    tensor = make_empty(entry.dtype, shape);
    file.read(offset, tensor.raw_data(), bytes, fmt::format("tensor {}", data::shown(entry.name)));
  }
  if (entry.dtype == DType::boolean) {
    const auto* data = static_cast<const std::byte*>(tensor.raw_data());
    const auto* bad =
        std::find_if(data, data + bytes, [](std::byte b) { return b > std::byte{1}; });
    if (bad != data + bytes) {
      file.fail(fmt::format(
          "tensor {}, at byte {}: expected a bool (0 or 1), found {}", data::shown(entry.name),
          offset + static_cast<std::uint64_t>(bad - data), static_cast<int>(*bad)));
    }
  }
  return tensor;
}

}  // namespace

void save_safetensors(const std::string& path, const TensorDict& tensors, const Metadata& metadata,
                      Loc loc) {
  std::vector<SafetensorsEntry> entries;
  std::vector<Tensor> packed;
  for (const auto& [name, tensor] : tensors) {
    if (name == "__metadata__") {
      throw ValueError(
          "save_safetensors: '__metadata__' cannot name a tensor: it is where the "
          "format keeps metadata",
          loc.user());
    }
    if (!tensor.defined()) {
      throw ValueError(fmt::format("save_safetensors: tensor '{}' is undefined", name), loc.user());
    }
    packed.push_back(data::packed(tensor, loc));
    SafetensorsEntry entry{.name = name, .dtype = tensor.dtype(), .sizes = {}};
    for (const std::int64_t size : tensor.impl()->shape.numbers()) {
      entry.sizes.push_back(static_cast<std::uint64_t>(size));
    }
    entries.push_back(std::move(entry));
  }
  const auto bytes_of = [&](std::size_t i) {
    return static_cast<std::uint64_t>(packed[i].impl()->numel()) * size_of(entries[i].dtype);
  };
  // Wide elements first: then all are aligned, whatever their number. In Dyad's own files whole
  // cache lines come before them, aligned to lines.
  const bool checked = metadata.contains(kChecksumKey);
  const auto rank_of = [&](std::size_t i) {
    const bool lines = checked && bytes_of(i) % kCacheLine == 0;
    return lines ? kCacheLine : size_of(entries[i].dtype);
  };
  std::vector<std::size_t> order(entries.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return rank_of(a) > rank_of(b); });
  std::uint64_t at = 0;
  for (const std::size_t i : order) {
    entries[i].begin = at;
    at += bytes_of(i);
    entries[i].end = at;
  }
  Metadata written = metadata;
  if (checked) written[kChecksumKey] = crc_text(0);
  std::string header = safetensors_header_text(entries, written, checked ? kCacheLine : 8, loc);
  if (checked) {
    uLong crc = add_crc(0, header.data(), header.size());
    for (const std::size_t i : order) crc = add_crc(crc, packed[i].raw_data(), bytes_of(i));
    header.replace(checksum_position(header), kCrcDigits, crc_text(crc));
  }
  AtomicFile file(path, loc);
  file.write(header);
  for (const std::size_t i : order) file.write(packed[i].raw_data(), bytes_of(i));
  file.commit();
}

TensorDict load_safetensors(const std::string& path, const LoadOptions& options, Loc loc) {
  return read_safetensors(path, options, loc).tensors;
}

Safetensors read_safetensors(const std::string& path, const LoadOptions& options, Loc loc) {
  const InputFile file(path, loc);
  SafetensorsHeader header = read_safetensors_header(file);
  if (const auto said = header.metadata.find(kChecksumKey); said != header.metadata.end()) {
    if (options.check) check_crc(file, header.bytes, said->second);
  }
  const Ref<Storage> map = options.map ? file.map() : Ref<Storage>();
  Safetensors loaded;
  for (const SafetensorsEntry& entry : header.entries) {
    loaded.tensors.add(entry.name, load_tensor(file, map, entry, header.bytes + entry.begin));
  }
  loaded.metadata = std::move(header.metadata);
  return loaded;
}

}  // namespace dyad::io
