#pragma once

#include <cstddef>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "dyad/base/inline_vector.h"
#include "dyad/base/intrusive_ptr.h"
#include "dyad/base/reflect.h"
#include "dyad/core/dtype.h"
#include "dyad/core/tensor.h"

namespace dyad {

/// An operator without attributes.
struct NoAttrs {};

/// The attributes behind a pointer, which may be null for an operator that has none.
template <class A>
[[nodiscard]] const A& attrs_at(const void* attrs) noexcept {
  if constexpr (std::is_empty_v<A>) {
    static constexpr A kNone{};
    return kNone;
  } else {
    return *static_cast<const A*>(attrs);
  }
}

/// Meets every attribute of an operator, by name. From it come printing, parsing, comparison,
/// hashing, substitution of symbols and export: an attribute struct says its members once. Visitors
/// that only read leave the values as they are.
class AttrVisitor {
 public:
  virtual ~AttrVisitor() = default;
  virtual void visit(std::string_view name, bool& value) = 0;
  virtual void visit(std::string_view name, std::int64_t& value) = 0;
  virtual void visit(std::string_view name, double& value) = 0;
  virtual void visit(std::string_view name, std::string& value) = 0;
  virtual void visit(std::string_view name, DType& value) = 0;
  virtual void visit(std::string_view name, Dim& value) = 0;
  virtual void visit(std::string_view name, Ints& value) = 0;
  virtual void visit(std::string_view name, Shape& value) = 0;
  virtual void visit(std::string_view name, Tensor& value) = 0;
};

/// What is known of an attribute struct without its type.
struct AttrsInfo {
  std::size_t size;
  void* (*make)();                   ///< default values, on the heap
  void* (*copy)(const void* attrs);  ///< on the heap
  void (*destroy)(void* attrs) noexcept;
  void (*visit)(void* attrs, AttrVisitor& visitor);
};

template <reflect::Aggregate A>
inline constexpr AttrsInfo attrs_info{
    .size = sizeof(A),
    .make = [] { return static_cast<void*>(new A()); },
    .copy =
        [](const void* attrs) { return static_cast<void*>(new A(*static_cast<const A*>(attrs))); },
    .destroy = [](void* attrs) noexcept { delete static_cast<A*>(attrs); },
    .visit =
        [](void* attrs, AttrVisitor& visitor) {
          reflect::for_each_member(
              *static_cast<A*>(attrs),
              [&](std::string_view name, auto& member) { visitor.visit(name, member); });
        },
};

/// Attributes kept by a node or a tape record: immutable, shared.
class Attrs : public RefCounted<Attrs> {
 public:
  /// A copy of `attrs`, which is of the struct that `info` describes.
  static Ref<Attrs> copy_of(const AttrsInfo& info, const void* attrs) {
    return Ref<Attrs>(new Attrs(info, info.copy(attrs)));
  }
  /// Default values changed by `edit` (a parser, a substitution).
  template <class F>
  static Ref<Attrs> edited(const AttrsInfo& info, const void* from, F&& edit) {
    Ref<Attrs> made(new Attrs(info, from ? info.copy(from) : info.make()));
    edit(made->data_);
    return made;
  }
  ~Attrs() { info_.destroy(data_); }
  Attrs(const Attrs&) = delete;
  Attrs& operator=(const Attrs&) = delete;

  [[nodiscard]] const void* data() const noexcept { return data_; }
  [[nodiscard]] const AttrsInfo& info() const noexcept { return info_; }
  template <class A>
  [[nodiscard]] const A& as() const noexcept {
    return *static_cast<const A*>(data_);
  }
  void visit(AttrVisitor& reader) const { info_.visit(data_, reader); }

 private:
  Attrs(const AttrsInfo& info, void* data) noexcept : info_(info), data_(data) {}
  const AttrsInfo& info_;
  void* data_;
};

/// The attributes of an operator without any.
[[nodiscard]] Ref<Attrs> no_attrs();

/// `{axes = [1], keepdim = true}`, or nothing for NoAttrs; tensors print as their type and, when
/// scalar, value.
[[nodiscard]] std::string to_string(const AttrsInfo& info, const void* attrs);
/// Same struct, same values (tensors: the same object, or equal elements when both are concrete and
/// of at most 16 elements; `all_elements` compares larger ones too).
[[nodiscard]] bool attrs_equal(const AttrsInfo& info, const void* a, const void* b,
                               bool all_elements = false);
/// Equal for structs that attrs_equal finds equal.
[[nodiscard]] std::size_t attrs_hash(const AttrsInfo& info, const void* attrs);

}  // namespace dyad
