#include "dyad/io/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "dyad/base/error.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/data/packed.h"
#include "dyad/io/atomic_file.h"
#include "dyad/io/input_file.h"
#include "dyad/io/safetensors_header.h"

namespace dyad::io {
namespace {

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
    packed.push_back(data::packed(tensor, loc));
    SafetensorsEntry entry{.name = name, .dtype = tensor.dtype(), .sizes = {}};
    for (const std::int64_t size : tensor.shape().numbers()) {
      entry.sizes.push_back(static_cast<std::uint64_t>(size));
    }
    entries.push_back(std::move(entry));
  }
  // Wide elements first: then all are aligned, whatever their number.
  std::vector<std::size_t> order(entries.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const std::size_t wide = size_of(entries[a].dtype), other = size_of(entries[b].dtype);
    return wide != other ? wide > other : a < b;
  });
  std::uint64_t at = 0;
  for (const std::size_t i : order) {
    entries[i].begin = at;
    at += static_cast<std::uint64_t>(packed[i].impl()->numel()) * size_of(entries[i].dtype);
    entries[i].end = at;
  }
  const std::string header = safetensors_header_text(entries, metadata, loc);
  AtomicFile file(path, loc);
  file.write(header);
  for (const std::size_t i : order) {
    file.write(packed[i].raw_data(), entries[i].end - entries[i].begin);
  }
  file.commit();
}

TensorDict load_safetensors(const std::string& path, const LoadOptions& options, Loc loc) {
  return read_safetensors(path, options, loc).tensors;
}

Safetensors read_safetensors(const std::string& path, const LoadOptions& options, Loc loc) {
  const InputFile file(path, loc);
  SafetensorsHeader header = read_safetensors_header(file);
  const Ref<Storage> map = options.map ? file.map() : Ref<Storage>();
  Safetensors loaded;
  for (const SafetensorsEntry& entry : header.entries) {
    loaded.tensors.add(entry.name, load_tensor(file, map, entry, header.bytes + entry.begin));
  }
  loaded.metadata = std::move(header.metadata);
  return loaded;
}

}  // namespace dyad::io
