#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "dyad/base/inline_vector.h"
#include "dyad/base/reflect.h"
#include "dyad/core/shape.h"
#include "dyad/core/tensor.h"

namespace dyad::exec {

/// What tensors and host numbers an argument or result of a function consists of: tensors, numbers,
/// enums, and vectors, arrays, pairs, tuples, optionals, maps by name and aggregates of them; an
/// argument of texts, sizes and shapes, too.
namespace pack {

template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};
template <>
struct IsVector<Shape> : std::true_type {};
template <>
struct IsVector<Ints> : std::true_type {};
template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <class T>
struct IsMap : std::false_type {};
template <class T, class... Rest>
struct IsMap<std::map<std::string, T, Rest...>> : std::true_type {};
template <class T>
concept Text = std::convertible_to<T, std::string_view> && !std::is_null_pointer_v<T>;
template <class T>
concept TupleLike = requires { std::tuple_size<T>::value; };
template <class T>
concept Number = std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_same_v<T, Dim>;

/// What a number tells of a call.
enum class NumberKind : std::uint8_t {
  boolean,
  integer,
  natural,  ///< an integer without sign
  f32,
  f64,
  length,    ///< of a vector
  presence,  ///< whether an optional has a value
  defined,   ///< whether a tensor is defined
  text,      ///< what stands for a text
  key,       ///< what stands for the name of a map's element
  types,     ///< what stands for the C++ types of all arguments
};

template <class T>
consteval NumberKind kind_of_number() {
  if constexpr (std::same_as<T, bool>) {
    return NumberKind::boolean;
  } else if constexpr (std::same_as<T, Dim>) {
    return NumberKind::integer;
  } else if constexpr (std::same_as<T, float>) {
    return NumberKind::f32;
  } else if constexpr (std::is_floating_point_v<T>) {
    return NumberKind::f64;
  } else {
    return std::is_unsigned_v<T> ? NumberKind::natural : NumberKind::integer;
  }
}

/// Where a part stands: the element or member of what is around it.
struct Place {
  const Place* outer = nullptr;  ///< none of the whole
  std::size_t index = 0;
  std::string_view member = {};  ///< its name, of an aggregate's member
};

/// `argument 1`, `argument 1[0].weight`: the name of a part of a tuple of arguments.
[[nodiscard]] std::string name_of(const Place& place);

/// A number that stands for a text.
[[nodiscard]] std::int64_t bits_of(std::string_view text) noexcept;

/// A number that stands for a C++ type; files keep it.
template <class T>
[[nodiscard]] std::int64_t bits_of_type() noexcept {
  static const auto kBits = static_cast<std::int64_t>(typeid(T).hash_code());
  return kBits;
}

/// ValueError that the text at `place` is a null pointer.
[[noreturn]] void fail_null_text(const Place& place);

/// Calls `on_tensor(Tensor&, const Place&)` and `on_number(std::int64_t bits, NumberKind, const
/// Place&)` for the parts of `value`, in order. The lengths of vectors, the presence of optionals,
/// the names in maps and texts count as numbers.
template <class T, class OnTensor, class OnNumber>
void visit(T& value, OnTensor&& on_tensor, OnNumber&& on_number, const Place& place = {}) {
  using Plain = std::remove_cv_t<T>;
  if constexpr (std::same_as<Plain, Tensor>) {
    on_tensor(value, place);
  } else if constexpr (std::is_floating_point_v<Plain>) {
    on_number(std::bit_cast<std::int64_t>(static_cast<double>(value)), kind_of_number<Plain>(),
              place);
  } else if constexpr (std::same_as<Plain, Dim>) {
    on_number(value.number(), kind_of_number<Plain>(), place);
  } else if constexpr (Number<Plain>) {
    on_number(static_cast<std::int64_t>(value), kind_of_number<Plain>(), place);
  } else if constexpr (Text<Plain>) {
    if constexpr (std::is_pointer_v<Plain>) {
      if (value == nullptr) fail_null_text(place);
    }
    on_number(bits_of(value), NumberKind::text, place);
  } else if constexpr (IsMap<Plain>::value) {
    on_number(static_cast<std::int64_t>(value.size()), NumberKind::length, place);
    for (auto& [name, element] : value) {
      on_number(bits_of(name), NumberKind::key, place);
      visit(element, on_tensor, on_number, Place{&place, 0, name});
    }
  } else if constexpr (IsVector<Plain>::value) {
    on_number(static_cast<std::int64_t>(value.size()), NumberKind::length, place);
    Place inner{&place};
    for (auto&& element : value) {
      if constexpr (std::same_as<Plain, std::vector<bool>>) {
        on_number(element ? 1 : 0, NumberKind::boolean, inner);
      } else {
        visit(element, on_tensor, on_number, inner);
      }
      ++inner.index;
    }
  } else if constexpr (std::same_as<Plain, std::nullopt_t>) {
    on_number(0, NumberKind::presence, place);
  } else if constexpr (IsOptional<Plain>::value) {
    on_number(value.has_value() ? 1 : 0, NumberKind::presence, place);
    if (value) visit(*value, on_tensor, on_number, place);
  } else if constexpr (TupleLike<Plain>) {
    Place inner{&place};
    const auto next = [&](auto& element) {
      visit(element, on_tensor, on_number, inner);
      ++inner.index;
    };
    std::apply([&](auto&... elements) { (next(elements), ...); }, value);
  } else {
    static_assert(reflect::Aggregate<Plain>,
                  "a compiled function takes and returns tensors, numbers, and vectors, tuples, "
                  "optionals, maps by name (std::map) and aggregates of them");
    reflect::for_each_member(value, [&](std::string_view name, auto& member) {
      visit(member, on_tensor, on_number, Place{&place, 0, name});
    });
  }
}

/// The tensors of `value` that are defined, in order.
template <class T>
[[nodiscard]] std::vector<Tensor> defined_tensors(T& value) {
  std::vector<Tensor> tensors;
  visit(
      value,
      [&](Tensor& tensor, const Place&) {
        if (tensor.defined()) tensors.push_back(tensor);
      },
      [](std::int64_t, NumberKind, const Place&) {});
  return tensors;
}

/// A tensor that stands for one that is defined.
[[nodiscard]] Tensor any_tensor();

/// What tells one call from another: the tensors of a value that are defined, and everything else
/// of it as numbers, among them for each tensor whether it is defined.
struct Parts {
  std::vector<Tensor> tensors;
  Ints numbers;
};

/// Takes the tensors out of `value`, where others stand for them, so that those that the caller has
/// given away have no other owner; replace_defined() puts them back.
template <class T>
[[nodiscard]] Parts take_parts(T& value) {
  Parts parts;
  parts.tensors.reserve(4);
  const Tensor defined = any_tensor();
  visit(
      value,
      [&](Tensor& tensor, const Place&) {
        parts.numbers.push_back(tensor.defined() ? 1 : 0);
        if (tensor.defined()) parts.tensors.push_back(std::exchange(tensor, defined));
      },
      [&](std::int64_t bits, NumberKind, const Place&) { parts.numbers.push_back(bits); });
  return parts;
}

/// Bit i: tensor i has no other owner, nor has its memory, and no gradient is to come to it.
[[nodiscard]] std::uint64_t given_away(std::span<const Tensor> tensors) noexcept;

/// The names of a call's parts, in their order.
struct Names {
  struct Number {
    std::string name;
    NumberKind kind;
  };
  std::vector<std::string> tensors;
  std::vector<Number> numbers;
};

/// `argument 1 was 2, is 3`: of a number that differs between two calls.
[[nodiscard]] std::string difference(const Names::Number& number, std::int64_t before,
                                     std::int64_t now);

/// The names of the parts of a tuple of arguments.
template <class T>
[[nodiscard]] Names names_of(T& arguments) {
  Names names;
  visit(
      arguments,
      [&](Tensor& tensor, const Place& place) {
        names.numbers.push_back({name_of(place), NumberKind::defined});
        if (tensor.defined()) names.tensors.push_back(name_of(place));
      },
      [&](std::int64_t, NumberKind kind, const Place& place) {
        names.numbers.push_back({name_of(place), kind});
      });
  return names;
}

/// Puts `tensors` in their places.
template <class T>
void replace_defined(T& value, std::span<const Tensor> tensors) {
  visit(
      value,
      [&, next = std::size_t{0}](Tensor& tensor, const Place&) mutable {
        if (tensor.defined()) tensor = tensors[next++];
      },
      [](std::int64_t, NumberKind, const Place&) {});
}

/// True when a result holds a host number or text, which a replay could not compute.
template <class T>
consteval bool holds_number() {
  if constexpr (std::same_as<T, Tensor>) {
    return false;
  } else if constexpr (Number<T> || Text<T>) {
    return true;
  } else if constexpr (IsMap<T>::value) {
    return holds_number<typename T::mapped_type>();
  } else if constexpr (IsVector<T>::value || IsOptional<T>::value) {
    return holds_number<typename T::value_type>();
  } else if constexpr (TupleLike<T>) {
    return []<std::size_t... I>(std::index_sequence<I...>) {
      return (holds_number<std::remove_cvref_t<std::tuple_element_t<I, T>>>() || ...);
    }(std::make_index_sequence<std::tuple_size_v<T>>{});
  } else if constexpr (reflect::Aggregate<T>) {
    return holds_number<reflect::MembersOf<T>>();
  } else {
    return false;  // visit() says what it may be
  }
}

}  // namespace pack
}  // namespace dyad::exec
