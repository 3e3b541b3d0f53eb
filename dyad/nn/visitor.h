#pragma once

#include <array>
#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "dyad/base/reflect.h"
#include "dyad/nn/parameter.h"
#include "dyad/ops/conv.h"

namespace dyad::nn {

/// Meets every member of a model with its full name (`block.0.weight`). Derive from it to see or
/// replace parameters, buffers and modes.
class Visitor {
 public:
  virtual ~Visitor() = default;

  /// A member, met under its name: what a class that is no aggregate calls in its `visit`.
  template <class T>
  void operator()(std::string_view name, T& member);

  virtual void on_parameter(const std::string& name, Parameter& parameter) = 0;
  virtual void on_buffer(const std::string& name, Buffer& buffer) = 0;
  virtual void on_mode(Mode& /*mode*/) {}
  /// A layer or model, as an object of class `type`: for visitors that look for one class.
  virtual void on_object(const std::type_info& /*type*/, void* /*layer*/) {}
  /// Around the members of a layer or model; `type` is its class.
  virtual void on_enter(const std::string& /*name*/, std::string_view /*type*/) {}
  virtual void on_leave() {}

 protected:
  Visitor() = default;
  Visitor(const Visitor&) = default;
  Visitor& operator=(const Visitor&) = default;

 private:
  template <class M>
  friend void visit(M& model, Visitor& visitor);
  [[nodiscard]] std::string full_name(std::string_view name) const {
    return prefix_.empty() ? std::string(name) : prefix_ + "." + std::string(name);
  }
  std::string prefix_;
};

/// A class that shows its members itself: `void visit(nn::Visitor& v) { v("weight", weight_); }`.
template <class T>
concept ShowsMembers = requires(T& layer, Visitor& visitor) { layer.visit(visitor); };

/// Types of members that are settings: neither learned nor saved. Specialise it for a type of yours
/// that is no aggregate.
template <class T>
inline constexpr bool is_setting =
    std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_empty_v<T> || std::is_pointer_v<T> ||
    std::is_convertible_v<T, std::string_view> || std::same_as<T, Pair> || std::same_as<T, Dim> ||
    std::same_as<T, Shape> || std::same_as<T, Ints>;
template <class R, class... A>
inline constexpr bool is_setting<std::function<R(A...)>> = true;

namespace detail {

template <class T>
inline constexpr bool is_list = false;
template <class T>
inline constexpr bool is_list<std::vector<T>> = true;
template <class T, std::size_t N>
inline constexpr bool is_list<std::array<T, N>> = true;

template <class T>
inline constexpr bool may_be_empty = false;
template <class T>
inline constexpr bool may_be_empty<std::optional<T>> = true;
template <class T>
inline constexpr bool may_be_empty<std::unique_ptr<T>> = true;

template <class T>
inline constexpr bool is_tuple = false;
template <class... T>
inline constexpr bool is_tuple<std::tuple<T...>> = true;
template <class A, class B>
inline constexpr bool is_tuple<std::pair<A, B>> = true;

template <class T>
inline constexpr bool never = false;

/// `Linear`, `(anonymous namespace)::Model` without its namespaces.
template <class T>
constexpr std::string_view class_name() {
  std::string_view text = __PRETTY_FUNCTION__;
  text = text.substr(text.find("T = ") + 4);
  text = text.substr(0, text.find_first_of(";]<"));
  const std::size_t colon = text.rfind("::");
  return colon == text.npos ? text : text.substr(colon + 2);
}

}  // namespace detail

/// A layer or model: an aggregate, or a class that shows its members.
template <class T>
concept Module = ShowsMembers<T> || reflect::Aggregate<T>;

/// Shows every member of `model` to `visitor`, in order of declaration, nested ones included:
/// parameters, buffers, layers, models, and vectors, arrays, tuples, optionals and unique_ptrs of
/// them. Numbers, enums, strings, sizes and functions are settings and passed over.
template <class M>
void visit(M& model, Visitor& visitor) {
  static_assert(
      Module<M>,
      "a model is an aggregate (no constructors, no private members, no virtual functions) "
      "of layers, or a class with `void visit(nn::Visitor& v)` that shows its members");
  if constexpr (ShowsMembers<M>) {
    model.visit(visitor);
  } else {
    reflect::for_each_member(model,
                             [&](std::string_view name, auto& member) { visitor(name, member); });
  }
}

template <class T>
void Visitor::operator()(std::string_view name, T& member) {
  if constexpr (std::same_as<T, Parameter>) {
    if (member.defined()) on_parameter(full_name(name), member);
  } else if constexpr (std::same_as<T, Buffer>) {
    if (member.defined()) on_buffer(full_name(name), member);
  } else if constexpr (std::same_as<T, Mode>) {
    on_mode(member);
  } else if constexpr (std::derived_from<T, Tensor>) {
    static_assert(detail::never<T>,
                  "a tensor in a model is an nn::Parameter (learned) or an nn::Buffer (kept): say "
                  "which by the type of the member");
  } else if constexpr (detail::may_be_empty<T>) {
    if (member) (*this)(name, *member);
  } else if constexpr (detail::is_list<T> || detail::is_tuple<T>) {
    std::string outer = std::exchange(prefix_, full_name(name));
    std::size_t index = 0;
    if constexpr (detail::is_list<T>) {
      for (auto& element : member) (*this)(std::to_string(index++), element);
    } else {
      std::apply([&](auto&... element) { ((*this)(std::to_string(index++), element), ...); },
                 member);
    }
    prefix_ = std::move(outer);
  } else if constexpr (ShowsMembers<T> || (!is_setting<T> && reflect::Aggregate<T>)) {
    std::string outer = std::exchange(prefix_, full_name(name));
    on_object(typeid(T), &member);
    on_enter(prefix_, detail::class_name<T>());
    nn::visit(member, *this);
    on_leave();
    prefix_ = std::move(outer);
  } else {
    static_assert(
        is_setting<T>,
        "this member of a model is no layer, tensor or setting: make it an aggregate, give "
        "it `void visit(nn::Visitor& v)`, or specialise nn::is_setting for its type");
  }
}

}  // namespace dyad::nn
