#include "dyad/exec/pack.h"

#include <fmt/format.h>

#include <algorithm>

#include "dyad/base/error.h"
#include "dyad/base/hash.h"
#include "dyad/core/tensor_impl.h"

namespace dyad::exec::pack {

Tensor any_tensor() {
  static thread_local const Tensor one =
      make_empty(DType::f32, {});  // threads do not share a count
  return one;
}

std::uint64_t given_away(std::span<const Tensor> tensors) noexcept {
  std::uint64_t given = 0;
  for (std::size_t i = 0; i < std::min<std::size_t>(tensors.size(), 64); ++i) {
    if (!tensors[i].is_concrete()) continue;
    const TensorImpl& tensor = *tensors[i].impl();
    if (tensor.use_count() == 1 && tensor.storage->use_count() == 1 && tensor.storage->is_own() &&
        !tensors[i].tracks_grad())
      given |= std::uint64_t{1} << i;
  }
  return given;
}

std::int64_t bits_of(std::string_view text) noexcept {
  return static_cast<std::int64_t>(fnv1a(std::as_bytes(std::span(text))));
}

void fail_null_text(const Place& place) {
  throw ValueError(
      fmt::format("{} of a compiled function is a null pointer, no text", name_of(place)));
}

std::string name_of(const Place& place) {
  if (!place.outer) return "the arguments";
  if (!place.outer->outer) return fmt::format("argument {}", place.index);
  const std::string around = name_of(*place.outer);
  return place.member.empty() ? fmt::format("{}[{}]", around, place.index)
                              : fmt::format("{}.{}", around, place.member);
}

std::string difference(const Names::Number& number, std::int64_t before, std::int64_t now) {
  const auto told = [&](const auto& was, const auto& is) {
    return fmt::format("{} was {}, is {}", number.name, was, is);
  };
  switch (number.kind) {
    case NumberKind::boolean:
      return told(before != 0, now != 0);
    case NumberKind::integer:
      return told(before, now);
    case NumberKind::natural:
      return told(static_cast<std::uint64_t>(before), static_cast<std::uint64_t>(now));
    case NumberKind::f32:
      return told(static_cast<float>(std::bit_cast<double>(before)),
                  static_cast<float>(std::bit_cast<double>(now)));
    case NumberKind::f64:
      return told(std::bit_cast<double>(before), std::bit_cast<double>(now));
    case NumberKind::length:
      return fmt::format("{} had {} element{}, has {}", number.name, before, before == 1 ? "" : "s",
                         now);
    case NumberKind::presence:
      return number.name + (now != 0 ? " had no value, has one" : " had a value, has none");
    case NumberKind::text:
      return number.name + " was another text";
    case NumberKind::key:
      return number.name + " had other names";
    case NumberKind::types:
      return "the arguments had other C++ types";
    case NumberKind::defined:
      return told(now != 0 ? "undefined" : "a tensor", now != 0 ? "a tensor" : "undefined");
  }
  return {};
}

}  // namespace dyad::exec::pack
