#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "dyad/base/reflect.h"
#include "dyad/core/tensor.h"

namespace dyad::exec {

/// What tensors and host numbers an argument or result of a function consists of: tensors, numbers,
/// enums, and vectors, arrays, pairs, tuples, optionals and aggregates of them.
namespace pack {

template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};
template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <class T>
concept TupleLike = requires { std::tuple_size<T>::value; };
template <class T>
concept Number = std::is_arithmetic_v<T> || std::is_enum_v<T>;

/// Calls `on_tensor(Tensor&)` and `on_number(std::int64_t bits)` for the parts of `value`, in
/// order. The lengths of vectors and the presence of optionals count as numbers.
template <class T, class OnTensor, class OnNumber>
void visit(T& value, OnTensor&& on_tensor, OnNumber&& on_number) {
  using Plain = std::remove_cv_t<T>;
  if constexpr (std::same_as<Plain, Tensor>) {
    on_tensor(value);
  } else if constexpr (std::is_floating_point_v<Plain>) {
    on_number(std::bit_cast<std::int64_t>(static_cast<double>(value)));
  } else if constexpr (Number<Plain>) {
    on_number(static_cast<std::int64_t>(value));
  } else if constexpr (IsVector<Plain>::value) {
    on_number(static_cast<std::int64_t>(value.size()));
    for (auto& element : value) visit(element, on_tensor, on_number);
  } else if constexpr (IsOptional<Plain>::value) {
    on_number(value.has_value() ? 1 : 0);
    if (value) visit(*value, on_tensor, on_number);
  } else if constexpr (TupleLike<Plain>) {
    std::apply([&](auto&... elements) { (visit(elements, on_tensor, on_number), ...); }, value);
  } else {
    static_assert(reflect::Aggregate<Plain>,
                  "a compiled function takes and returns tensors, numbers, and vectors, tuples, "
                  "optionals and "
                  "aggregates of them");
    reflect::for_each_member(
        value, [&](std::string_view, auto& member) { visit(member, on_tensor, on_number); });
  }
}

/// The tensors of `value` that are defined, in order.
template <class T>
[[nodiscard]] std::vector<Tensor> defined_tensors(T& value) {
  std::vector<Tensor> tensors;
  visit(
      value,
      [&](Tensor& tensor) {
        if (tensor.defined()) tensors.push_back(tensor);
      },
      [](std::int64_t) {});
  return tensors;
}

/// What tells one call from another: the tensors of a value that are defined, and everything else
/// of it as numbers, among them for each tensor whether it is defined.
struct Parts {
  std::vector<Tensor> tensors;
  std::vector<std::int64_t> numbers;
};

template <class T>
[[nodiscard]] Parts parts_of(T& value) {
  Parts parts;
  visit(
      value,
      [&](Tensor& tensor) {
        parts.numbers.push_back(tensor.defined() ? 1 : 0);
        if (tensor.defined()) parts.tensors.push_back(tensor);
      },
      [&](std::int64_t bits) { parts.numbers.push_back(bits); });
  return parts;
}

/// Puts `tensors` in their places.
template <class T>
void replace_defined(T& value, std::span<const Tensor> tensors) {
  visit(
      value,
      [&, next = std::size_t{0}](Tensor& tensor) mutable {
        if (tensor.defined()) tensor = tensors[next++];
      },
      [](std::int64_t) {});
}

/// True when a result holds a host number, which a replay could not compute.
template <class T>
consteval bool holds_number() {
  if constexpr (std::same_as<T, Tensor>) {
    return false;
  } else if constexpr (Number<T>) {
    return true;
  } else if constexpr (IsVector<T>::value || IsOptional<T>::value) {
    return holds_number<typename T::value_type>();
  } else if constexpr (TupleLike<T>) {
    return []<std::size_t... I>(std::index_sequence<I...>) {
      return (holds_number<std::remove_cvref_t<std::tuple_element_t<I, T>>>() || ...);
    }(std::make_index_sequence<std::tuple_size_v<T>>{});
  } else {
    return false;
  }
}

}  // namespace pack
}  // namespace dyad::exec
