#include "dyad/onnx/tensor_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>

#include "dyad/base/error.h"
#include "dyad/core/create.h"
#include "dyad/core/element.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/core/text.h"
#include "dyad/io/input_file.h"
#include "dyad/onnx/unsupported.h"

namespace dyad::onnx {
namespace {

namespace fs = std::filesystem;

/// A tensor of a model, for messages.
struct Reading {
  const pb::TensorProto& proto;
  Loc loc;

  [[noreturn]] void fail(const std::string& rule) const {
    throw OnnxError(fmt::format("tensor \"{}\": {}", proto.name(), rule), loc);
  }
};

/// The number of elements; sizes are not to be trusted.
std::uint64_t count_elements(const Reading& of) {
  std::uint64_t count = 1;
  bool empty = false;
  for (const std::int64_t size : of.proto.dims()) {
    if (size < 0) of.fail(fmt::format("a size is {}; sizes are 0 or more", size));
    empty |= size == 0;
    if (size != 0 && __builtin_mul_overflow(count, static_cast<std::uint64_t>(size), &count)) {
      of.fail("its sizes multiply to more than 64 bits hold");
    }
  }
  if (count > std::uint64_t{1} << 59) of.fail("its sizes multiply to more than memory can hold");
  return empty ? 0 : count;
}

Shape shape_of(const pb::TensorProto& proto) {
  Shape shape;
  for (const std::int64_t size : proto.dims()) shape.push_back(size);
  return shape;
}

void check_length(const Reading& of, std::uint64_t found, std::uint64_t wanted,
                  std::string_view unit) {
  if (found == wanted) return;
  of.fail(fmt::format("its sizes ask for {} {}, but it holds {}", wanted, unit, found));
}

/// Bits of an element that shares its byte with others in a file; 8 for those that do not.
std::uint64_t width_of(DType dtype) {
  if (dtype == DType::i4 || dtype == DType::u4 || dtype == DType::f4e2m1) return 4;
  return dtype == DType::i2 || dtype == DType::u2 ? 2 : 8;
}

/// Elements of the small dtypes from packed bytes, the first in the lowest bits.
Tensor from_packed(const Reading& of, DType dtype, std::uint64_t count, std::string_view bytes) {
  const std::uint64_t width = width_of(dtype), in_byte = 8 / width;
  check_length(of, bytes.size(), (count + in_byte - 1) / in_byte, "bytes");
  Tensor made = make_empty(dtype, shape_of(of.proto));
  visit_element(dtype, [&]<class T>(std::type_identity<T>) {
    if constexpr (contains(kSmall, dtype_of<T>)) {
      T* const to = reinterpret_cast<T*>(made.impl()->data);
      for (std::uint64_t i = 0; i < count; ++i) {
        const auto byte = static_cast<std::uint8_t>(bytes[i / in_byte]);
        const auto code = static_cast<std::uint8_t>(byte >> (width * (i % in_byte)));
        if constexpr (is_small_int<T>) {
          to[i] = {static_cast<std::int8_t>(to_int(T{static_cast<std::int8_t>(code)}))};
        } else {
          to[i] = {static_cast<std::uint8_t>(code & ((1u << width) - 1))};
        }
      }
    }
  });
  return made;
}

/// Elements that the message lists as numbers of one kind.
template <class List>
Tensor from_numbers(const Reading& of, DType dtype, std::uint64_t count, const List& numbers) {
  check_length(of, static_cast<std::uint64_t>(numbers.size()), count, "elements");
  Tensor made = make_empty(dtype, shape_of(of.proto));
  visit_dtype(dtype, [&]<class T>(std::type_identity<T>) {
    T* to = reinterpret_cast<T*>(made.impl()->data);
    for (const auto number : numbers) {
      constexpr bool is_bits = std::is_integral_v<typename List::value_type> &&
                               (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>);
      if constexpr (is_bits) {
        *to++ = T{static_cast<std::uint16_t>(number)};
      } else if constexpr (std::is_unsigned_v<typename List::value_type>) {
        *to++ = convert_element<T>(static_cast<std::int64_t>(number));  // wraps back in u64
      } else {
        *to++ = convert_element<T>(number);
      }
    }
  });
  return made;
}

/// Complex elements: their parts one after the other.
Tensor from_parts(const Reading& of, DType dtype, std::uint64_t count) {
  const bool wide = dtype == DType::c128;
  const auto found =
      static_cast<std::uint64_t>(wide ? of.proto.double_data_size() : of.proto.float_data_size());
  check_length(of, found, 2 * count, "numbers");
  Tensor made = make_empty(dtype, shape_of(of.proto));
  if (count == 0) return made;
  const void* const from = wide ? static_cast<const void*>(of.proto.double_data().data())
                                : static_cast<const void*>(of.proto.float_data().data());
  std::memcpy(made.impl()->data, from, count * size_of(dtype));
  return made;
}

/// Whatever is not 0 is true.
Tensor from_bools(const Reading& of, std::string_view bytes) {
  Tensor made = make_empty(DType::boolean, shape_of(of.proto));
  std::ranges::transform(bytes, made.impl()->data,
                         [](char byte) { return std::byte{byte != '\0'}; });
  return made;
}

std::uint64_t entry(const Reading& of, std::string_view key, std::uint64_t otherwise) {
  for (const pb::StringStringEntryProto& pair : of.proto.external_data()) {
    if (pair.key() != key) continue;
    std::uint64_t value = 0;
    const char* end = pair.value().data() + pair.value().size();
    const auto [stop, error] = std::from_chars(pair.value().data(), end, value);
    if (error != std::errc() || stop != end) {
      of.fail(fmt::format("{} of its external data is '{}', which is no number of bytes", key,
                          pair.value()));
    }
    return value;
  }
  return otherwise;
}

Tensor from_file(const Reading& of, DType dtype, std::uint64_t count, ExternalData& external) {
  std::string location;
  for (const pb::StringStringEntryProto& pair : of.proto.external_data()) {
    if (pair.key() == "location") location = pair.value();
  }
  if (location.empty()) of.fail("its external data has no location");
  const Ref<Storage> file = external.open(location, of.proto.name(), of.loc);
  const std::uint64_t in_byte = 8 / width_of(dtype);
  const std::uint64_t offset = entry(of, "offset", 0),
                      bytes = (count * size_of(dtype) + in_byte - 1) / in_byte;
  const std::uint64_t length = entry(of, "length", bytes);
  check_length(of, length, bytes, "bytes");
  if (offset > file->bytes() || bytes > file->bytes() - offset) {
    of.fail(fmt::format("its data is at {} + {} bytes of '{}', which has {}", offset, bytes,
                        location, file->bytes()));
  }
  const std::byte* const data = file->data() + offset;
  const bool is_mapped = !contains(kSmall, dtype) && dtype != DType::boolean &&
                         reinterpret_cast<std::uintptr_t>(data) % size_of(dtype) == 0;
  if (!is_mapped && !external.count_copy(file, count * size_of(dtype))) {
    of.fail(fmt::format("tensors in '{}' lie over one another and take far more memory than it has",
                        location));
  }
  const std::string_view held(reinterpret_cast<const char*>(data), bytes);
  if (contains(kSmall, dtype)) return from_packed(of, dtype, count, held);
  if (dtype == DType::boolean) return from_bools(of, held);
  return io::mapped_tensor(file, offset, dtype, shape_of(of.proto));
}

bool leaves_folder(const fs::path& path) {
  if (path.is_absolute() || path.has_root_path()) return true;
  return std::ranges::any_of(path, [](const fs::path& part) { return part == ".."; });
}

}  // namespace

Ref<Storage> ExternalData::open(const std::string& location, const std::string& tensor, Loc loc) {
  const auto known = files_.find(location);
  if (known != files_.end()) return known->second;
  if (!folder_) {
    throw OnnxError(fmt::format("tensor \"{}\" is in the file '{}', but a model in memory has no "
                                "folder; load it by its path",
                                tensor, location),
                    loc);
  }
  if (location.find('\0') != std::string::npos) {
    throw OnnxError(fmt::format("tensor \"{}\" is in the file '{}', which is no name of a file",
                                tensor, location),
                    loc);
  }
  const fs::path relative(location), whole = fs::path(*folder_) / relative;
  std::error_code ignored;
  // A link that leads elsewhere leaves the folder too.
  const fs::path real = fs::weakly_canonical(whole, ignored);
  const fs::path home = fs::weakly_canonical(fs::path(*folder_), ignored);
  const auto [end, rest] = std::mismatch(home.begin(), home.end(), real.begin(), real.end());
  if (leaves_folder(relative) || end != home.end()) {
    throw OnnxError(fmt::format("tensor \"{}\" is in the file '{}', which is outside the model's "
                                "folder; external data is read from that folder alone",
                                tensor, location),
                    loc);
  }
  return files_[location] = io::InputFile(whole.string(), loc).map();
}

bool ExternalData::count_copy(const Ref<Storage>& file, std::uint64_t bytes) {
  constexpr std::uint64_t kMostCopies = 16;  // elements of 2 bits take 4 times what they have
  std::uint64_t& copied = copied_[&*file];
  copied += bytes;
  return copied / kMostCopies <= file->bytes();
}

DType read_dtype(std::int64_t number, const std::string& what, Loc loc) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (to_onnx(dtype) == number && number != pb::TensorProto::UNDEFINED) return dtype;
  }
  throw UnsupportedError(
      fmt::format("{} has the element type {}, which Dyad does not have", what, number), loc);
}

Tensor read_tensor(const pb::TensorProto& proto, ExternalData& external, Loc loc) {
  const Reading of{proto, loc};
  const DType dtype =
      read_dtype(proto.data_type(), fmt::format("tensor \"{}\"", proto.name()), loc);
  const std::uint64_t count = count_elements(of);
  if (dtype == DType::string) {
    check_length(of, static_cast<std::uint64_t>(proto.string_data_size()), count, "strings");
    return strings(std::vector<std::string>(proto.string_data().begin(), proto.string_data().end()),
                   shape_of(proto), loc);
  }
  if (proto.data_location() == pb::TensorProto::EXTERNAL) {
    return from_file(of, dtype, count, external);
  }
  if (contains(kSmall, dtype)) {
    if (proto.has_raw_data()) return from_packed(of, dtype, count, proto.raw_data());
    std::string bytes;  // each number is one
    for (const std::int32_t byte : proto.int32_data()) bytes += static_cast<char>(byte);
    return from_packed(of, dtype, count, bytes);
  }
  if (proto.has_raw_data()) {
    check_length(of, proto.raw_data().size(), count * size_of(dtype), "bytes");
    if (dtype == DType::boolean) return from_bools(of, proto.raw_data());
    Tensor made = make_empty(dtype, shape_of(proto));
    if (count > 0) std::memcpy(made.impl()->data, proto.raw_data().data(), count * size_of(dtype));
    return made;
  }
  if (is_complex(dtype)) return from_parts(of, dtype, count);
  if (proto.float_data_size() > 0) return from_numbers(of, dtype, count, proto.float_data());
  if (proto.double_data_size() > 0) return from_numbers(of, dtype, count, proto.double_data());
  if (proto.int64_data_size() > 0) return from_numbers(of, dtype, count, proto.int64_data());
  if (proto.uint64_data_size() > 0) return from_numbers(of, dtype, count, proto.uint64_data());
  return from_numbers(of, dtype, count, proto.int32_data());
}

Tensor take_tensor(pb::TensorProto& proto) {
  constexpr std::size_t kMany = 4096;
  if (proto.data_location() == pb::TensorProto::EXTERNAL || proto.raw_data().size() < kMany) {
    return {};
  }
  DType dtype = DType::f32;
  std::uint64_t count = 0;
  try {
    dtype = read_dtype(proto.data_type(), proto.name(), {});
    count = count_elements({proto, {}});
  } catch (const OnnxError&) {
    return {};
  }
  const bool as_elements = dtype != DType::string && dtype != DType::boolean &&
                           !contains(kSmall, dtype) &&
                           proto.raw_data().size() == count * size_of(dtype) &&
                           reinterpret_cast<std::uintptr_t>(proto.raw_data().data()) % 16 == 0;
  if (!as_elements) return {};
  const std::shared_ptr<std::string> bytes(proto.release_raw_data());
  const Ref<Storage> storage = Storage::adopt(bytes->data(), bytes->size(), [bytes] {});
  return io::mapped_tensor(storage, 0, dtype, shape_of(proto));
}

Tensor read_sparse_tensor(const pb::SparseTensorProto& proto, ExternalData& external,
                          std::size_t most, Loc loc) {
  const Tensor values = read_tensor(proto.values(), external, loc);
  const Tensor positions = read_tensor(proto.indices(), external, loc);
  pb::TensorProto whole;
  *whole.mutable_dims() = proto.dims();
  whole.set_name(proto.values().name());
  const Reading of{whole, loc};
  const auto count = static_cast<std::int64_t>(count_elements(of));
  const std::int64_t entries = values.impl()->numel(), rank = proto.dims_size();
  const bool linear = positions.rank() == 1;
  if (values.rank() != 1 || positions.dtype() != i64 || positions.rank() < 1 ||
      positions.rank() > 2 || positions.shape()[0].number() != entries ||
      (!linear && positions.shape()[1].number() != rank)) {
    of.fail(
        fmt::format("a sparse tensor needs values[n] and i64 indices [n] or [n, {}], but has "
                    "{} and {}",
                    rank, type_string(values), type_string(positions)));
  }
  if (values.dtype() == DType::string) of.fail("a sparse tensor holds numbers, not strings");
  // What the message asks for may be far more than what it holds.
  const std::size_t size = size_of(values.dtype());
  if (static_cast<std::size_t>(count) > most / size) {
    of.fail(
        fmt::format("a sparse tensor of {} elements takes more than the {} bytes that "
                    "LoadLimits::constants allows",
                    count, most));
  }
  Tensor made = make_empty(values.dtype(), shape_of(whole));
  std::memset(made.impl()->data, 0, static_cast<std::size_t>(count) * size);
  const std::int64_t* position = positions.data<std::int64_t>();
  for (std::int64_t i = 0; i < entries; ++i) {
    std::int64_t at = 0;
    for (std::int64_t axis = 0; axis < (linear ? 1 : rank); ++axis) {
      const std::int64_t limit = linear ? count : proto.dims(static_cast<int>(axis));
      if (*position < 0 || *position >= limit) {
        of.fail(
            fmt::format("position {} of a sparse tensor is outside 0 to {}", *position, limit - 1));
      }
      at = at * limit + *position++;
    }
    std::memcpy(made.impl()->data + static_cast<std::size_t>(at) * size,
                values.impl()->data + static_cast<std::size_t>(i) * size, size);
  }
  return made;
}

std::optional<Type> read_type(const pb::TypeProto& proto, const std::string& value, Loc loc) {
  const std::string what = fmt::format("\"{}\"", value);
  if (proto.has_sequence_type()) {
    auto element = read_type(proto.sequence_type().elem_type(), value, loc);
    if (!element) return {};
    return Type::sequence_of(std::move(*element));
  }
  if (proto.has_optional_type()) {
    auto element = read_type(proto.optional_type().elem_type(), value, loc);
    if (!element) return {};
    return Type::optional_of(std::move(*element));
  }
  if (!proto.has_tensor_type() || proto.tensor_type().elem_type() == 0) return {};
  const pb::TypeProto::Tensor& tensor = proto.tensor_type();
  const DType dtype = read_dtype(tensor.elem_type(), what, loc);
  if (!tensor.has_shape()) return {};
  Shape shape;
  for (int i = 0; i < tensor.shape().dim_size(); ++i) {
    const pb::TensorShapeProto::Dimension& dim = tensor.shape().dim(i);
    if (dim.has_dim_value() && dim.dim_value() >= 0) {
      shape.push_back(dim.dim_value());
    } else {
      // Exporters write -1 and "?" for sizes that they do not know, which need not be equal.
      const bool named = dim.has_dim_param() && !dim.dim_param().empty() && dim.dim_param() != "?";
      shape.push_back(Dim::symbol(named ? dim.dim_param() : fmt::format("{}_dim{}", value, i)));
    }
  }
  return Type(dtype, shape);
}

}  // namespace dyad::onnx
