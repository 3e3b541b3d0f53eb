#include "dyad/io/npy.h"

#include <fmt/format.h>

#include "dyad/base/error.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/data/packed.h"
#include "dyad/io/atomic_file.h"
#include "dyad/io/zip.h"

namespace dyad::io {
namespace {

std::string_view descr_of(const Tensor& tensor, Loc loc) {
  switch (tensor.dtype()) {
    case DType::f64:
      return "<f8";
    case DType::f32:
      return "<f4";
    case DType::f16:
      return "<f2";
    case DType::i64:
      return "<i8";
    case DType::i32:
      return "<i4";
    case DType::i16:
      return "<i2";
    case DType::i8:
      return "|i1";
    case DType::u64:
      return "<u8";
    case DType::u32:
      return "<u4";
    case DType::u16:
      return "<u2";
    case DType::u8:
      return "|u1";
    case DType::c128:
      return "<c16";
    case DType::c64:
      return "<c8";
    case DType::boolean:
      return "|b1";
    default:
      break;
  }
  const DType dtype = tensor.dtype();
  const bool integer = contains(kSmallInteger, dtype);
  const std::string_view way_out = dtype == DType::string ? ""
                                   : integer              ? "; convert it with to(i8)"
                                   : dtype == f4e2m1
                                       ? "; convert it with to(f32)"
                                       : "; convert it with to(f32), or save as safetensors";
  throw DTypeError(fmt::format("the npy format has no {}, found {}{}", name_of(dtype),
                               type_string(tensor), way_out),
                   loc.user());
}

/// Everything before the elements: format 1.0, padded so that they are aligned to 64.
std::string header_of(const Tensor& tensor, Loc loc) {
  const auto sizes = tensor.impl()->shape.numbers();
  std::string text =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}",
                  descr_of(tensor, loc), fmt::join(sizes, ", "), sizes.size() == 1 ? "," : "");
  constexpr std::size_t kPrefix = 10, kAlign = 64;
  const std::size_t total = (kPrefix + text.size() + 1 + kAlign - 1) / kAlign * kAlign;
  text.resize(total - kPrefix - 1, ' ');
  text += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(text.size() & 0xff);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

std::string_view bytes_of(const Tensor& packed, Loc loc) {
  return {static_cast<const char*>(packed.raw_data(loc)),
          static_cast<std::size_t>(packed.impl()->numel()) * size_of(packed.dtype())};
}

}  // namespace

void save_npy(const std::string& path, const Tensor& tensor, Loc loc) {
  const Tensor packed = data::packed(tensor, loc);
  AtomicFile file(path, loc);
  file.write(header_of(packed, loc));
  file.write(bytes_of(packed, loc));
  file.commit();
}

void save_npz(const std::string& path, const TensorDict& tensors, Loc loc) {
  AtomicFile file(path, loc);
  ZipWriter zip(file);
  for (const auto& [name, tensor] : tensors) {
    if (name.empty()) throw ValueError("save_npz: a tensor needs a name", loc.user());
    const Tensor packed = data::packed(tensor, loc);
    const std::string header = header_of(packed, loc);
    zip.add(name + ".npy", {header, bytes_of(packed, loc)});
  }
  zip.finish();
  file.commit();
}

TensorDict load_npz(const std::string& path, Loc loc) {
  const InputFile file(path, loc);
  TensorDict tensors;
  for (const ZipMember& member : read_zip_directory(file)) {
    constexpr std::string_view kSuffix = ".npy";
    std::string name = member.name;
    if (!name.ends_with(kSuffix)) {
      file.fail(fmt::format("expected members named *.npy, found {}", data::shown(name)));
    }
    name.resize(name.size() - kSuffix.size());
    if (tensors.contains(name)) {
      file.fail(fmt::format("expected each member once, found {} twice", data::shown(name)));
    }
    const auto source = open_range(file, member.name, zip_member_data(file, member));
    tensors.add(std::move(name), data::read_npy(*source));
  }
  return tensors;
}

}  // namespace dyad::io
