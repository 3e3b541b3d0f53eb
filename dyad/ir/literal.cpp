#include "dyad/ir/literal.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "dyad/base/utf8.h"
#include "dyad/core/element.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/core/text.h"

namespace dyad {
namespace {

template <class T>
T load(const std::byte* from) noexcept {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class T>
std::string shortest(T value) {
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  if (std::isnan(value)) return "nan";
  std::array<char, 40> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  std::string out(text.data(), end);
  if (out.find_first_of(".e") == std::string::npos) out += ".0";
  return out;
}

/// `nan`, or with the bits when they are not those that reading `nan` gives.
std::string nan_text(std::uint64_t bits, std::uint64_t canonical) {
  if (bits == canonical) return "nan";
  std::array<char, 20> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), bits, 16).ptr;
  return "nan:0x" + std::string(text.data(), end);
}

}  // namespace

std::string number_text(double value) { return shortest(value); }

std::string quote(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const char c = text[0];
    const std::size_t length = printable_length(text);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (length > 0) {
      out += text.substr(0, length);
    } else {
      append_escaped(out, c);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out + '"';
}

std::vector<std::byte> packed_elements(const Tensor& tensor) {
  const TensorImpl& t = *tensor.impl();
  const std::size_t width = size_of(t.dtype);
  const auto count = static_cast<std::size_t>(t.numel());
  std::vector<std::byte> out(count * width);
  if (out.empty()) return out;
  if (t.contiguous) {
    std::memcpy(out.data(), t.data, out.size());
    return out;
  }
  std::byte* to = out.data();
  for_each_offset(t.shape, t.strides, [&](std::int64_t offset) {
    std::memcpy(to, t.data + offset * static_cast<std::int64_t>(width), width);
    to += width;
  });
  return out;
}

std::string element_text(DType dtype, const std::byte* element) {
  if (dtype == DType::string) return quote(load<Text>(element).view());
  return visit_element(dtype, [&]<class T>(std::type_identity<T>) -> std::string {
    const T value = load<T>(element);
    if constexpr (is_complex_element<T>) {
      const DType part = real_dtype(dtype);
      return element_text(part, element) + "::" + element_text(part, element + size_of(part));
    } else if constexpr (is_small_int<T>) {
      return std::to_string(to_int(value));
    } else if constexpr (std::is_same_v<T, bool>) {
      return value ? "true" : "false";
    } else if constexpr (std::is_integral_v<T>) {
      return std::to_string(value);
    } else if constexpr (std::is_same_v<T, double>) {
      return std::isnan(value) ? nan_text(load<std::uint64_t>(element), 0x7FF8000000000000u)
                               : shortest(value);
    } else if constexpr (std::is_same_v<T, float>) {
      return std::isnan(value) ? nan_text(load<std::uint32_t>(element), 0x7FC00000u)
                               : shortest(value);
    } else {
      const float single = to_float(value);
      if (!std::isnan(single)) return shortest(single);
      return nan_text(value.bits, convert_element<T>(std::nanf("")).bits);
    }
  });
}

}  // namespace dyad
