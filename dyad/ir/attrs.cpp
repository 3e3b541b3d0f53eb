#include "dyad/ir/attrs.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <string>
#include <vector>

#include "dyad/core/tensor_impl.h"
#include "dyad/ir/attr_text.h"
#include "dyad/ir/literal.h"

namespace dyad {
namespace {

bool is_small(const Tensor& t) {
  return t.defined() && t.is_concrete() && t.impl()->numel() <= kSmallConstant;
}

/// Where the members are, in order; two structs of one type have the same list.
class Collector final : public AttrVisitor {
 public:
  void visit(std::string_view, bool& value) override { members.push_back(&value); }
  void visit(std::string_view, std::int64_t& value) override { members.push_back(&value); }
  void visit(std::string_view, double& value) override { members.push_back(&value); }
  void visit(std::string_view, std::string& value) override { members.push_back(&value); }
  void visit(std::string_view, DType& value) override { members.push_back(&value); }
  void visit(std::string_view, Dim& value) override { members.push_back(&value); }
  void visit(std::string_view, Ints& value) override { members.push_back(&value); }
  void visit(std::string_view, Shape& value) override { members.push_back(&value); }
  void visit(std::string_view, Tensor& value) override { members.push_back(&value); }
  std::vector<const void*> members;
};

bool same_elements(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined() || !a.is_concrete() || !b.is_concrete()) return false;
  return a.dtype() == b.dtype() && a.shape().same_as(b.shape()) &&
         packed_elements(a) == packed_elements(b);
}

class Comparer final : public AttrVisitor {
 public:
  Comparer(std::vector<const void*> others, bool all_elements)
      : others_(std::move(others)), all_elements_(all_elements) {}
  void visit(std::string_view, bool& value) override { check(value == next<bool>()); }
  void visit(std::string_view, std::int64_t& value) override {
    check(value == next<std::int64_t>());
  }
  void visit(std::string_view, double& value) override {
    check(std::bit_cast<std::uint64_t>(value) == std::bit_cast<std::uint64_t>(next<double>()));
  }
  void visit(std::string_view, std::string& value) override { check(value == next<std::string>()); }
  void visit(std::string_view, DType& value) override { check(value == next<DType>()); }
  void visit(std::string_view, Dim& value) override { check(value.same_as(next<Dim>())); }
  void visit(std::string_view, Ints& value) override { check(value == next<Ints>()); }
  void visit(std::string_view, Shape& value) override { check(value.same_as(next<Shape>())); }
  void visit(std::string_view, Tensor& value) override {
    const auto& other = next<Tensor>();
    check(value.is_same(other) ||
          ((all_elements_ || (is_small(value) && is_small(other))) && same_elements(value, other)));
  }
  bool equal = true;

 private:
  template <class T>
  const T& next() {
    return *static_cast<const T*>(others_[at_++]);
  }
  void check(bool same) { equal = equal && same; }
  std::vector<const void*> others_;
  std::size_t at_ = 0;
  bool all_elements_;
};

class Hasher final : public AttrVisitor {
 public:
  void visit(std::string_view, bool& value) override { mix(value); }
  void visit(std::string_view, std::int64_t& value) override { mix_word(value); }
  void visit(std::string_view, double& value) override {
    mix_word(std::bit_cast<std::int64_t>(value));
  }
  void visit(std::string_view, std::string& value) override {
    mix(std::hash<std::string>()(value));
  }
  void visit(std::string_view, DType& value) override { mix(static_cast<std::size_t>(value)); }
  void visit(std::string_view, Dim& value) override { mix_word(value.word()); }
  void visit(std::string_view, Ints& value) override {
    mix(value.size());
    for (const std::int64_t i : value) mix_word(i);
  }
  void visit(std::string_view, Shape& value) override {
    mix(value.size());
    for (const Dim d : value) mix_word(d.word());
  }
  void visit(std::string_view name, Tensor& value) override {
    if (!is_small(value)) return mix(std::hash<const void*>()(value.impl()));
    mix(static_cast<std::size_t>(value.dtype()));
    Shape shape = value.shape();
    visit(name, shape);
    for (const std::byte b : packed_elements(value)) mix(static_cast<std::size_t>(b));
  }
  std::size_t hash = 0x9E3779B97F4A7C15u;

 private:
  void mix_word(std::int64_t value) { mix(static_cast<std::size_t>(value)); }
  void mix(std::size_t value) {
    hash = (hash ^ value) * 0x100000001B3u;
    hash ^= hash >> 29;
  }
};

/// Readers leave the values as they are (AttrVisitor), so reading a const struct is sound.
void read(const AttrsInfo& info, const void* attrs, AttrVisitor& reader) {
  info.visit(const_cast<void*>(attrs), reader);
}

}  // namespace

Ref<Attrs> no_attrs() {
  static const NoAttrs none;
  return Attrs::copy_of(attrs_info<NoAttrs>, &none);
}

std::string to_string(const AttrsInfo& info, const void* attrs) {
  if (attrs == nullptr) return "";
  AttrPrinter printer;
  read(info, attrs, printer);
  return printer.text().empty() ? "" : "{" + printer.text() + "}";
}

bool attrs_equal(const AttrsInfo& info, const void* a, const void* b, bool all_elements) {
  if (a == b) return true;
  Collector of_b;
  read(info, b, of_b);
  Comparer comparer(std::move(of_b.members), all_elements);
  read(info, a, comparer);
  return comparer.equal;
}

std::size_t attrs_hash(const AttrsInfo& info, const void* attrs) {
  Hasher hasher;
  if (attrs != nullptr) read(info, attrs, hasher);
  return hasher.hash;
}

}  // namespace dyad
