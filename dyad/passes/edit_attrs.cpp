#include "dyad/passes/edit_attrs.h"

#include "dyad/ir/partial_attr_visitor.h"

namespace dyad::passes {
namespace {

template <class T>
class Getter final : public PartialAttrVisitor {
 public:
  using PartialAttrVisitor::visit;
  explicit Getter(std::string_view name) : name_(name) {}
  void visit(std::string_view name, T& value) override {
    if (name == name_) found = value;
  }
  std::optional<T> found;

 private:
  std::string_view name_;
};

template <class T>
class Setter final : public PartialAttrVisitor {
 public:
  using PartialAttrVisitor::visit;
  Setter(std::string_view name, const T& value) : name_(name), value_(value) {}
  void visit(std::string_view name, T& value) override {
    if (name == name_) value = value_;
  }

 private:
  std::string_view name_;
  const T& value_;
};

template <class T>
std::optional<T> get(const Node& node, std::string_view name) {
  Getter<T> getter(name);
  node.attrs().visit(getter);
  return getter.found;
}

template <class T>
Ref<Attrs> set(const Node& node, std::string_view name, const T& value) {
  const AttrsInfo& info = node.attrs().info();
  return Attrs::edited(info, node.attrs().data(), [&](void* data) {
    Setter<T> setter(name, value);
    info.visit(data, setter);
  });
}

}  // namespace

std::optional<std::int64_t> int_attr(const Node& node, std::string_view name) {
  return get<std::int64_t>(node, name);
}
std::optional<Ints> ints_attr(const Node& node, std::string_view name) {
  return get<Ints>(node, name);
}
std::optional<double> number_attr(const Node& node, std::string_view name) {
  return get<double>(node, name);
}

Ref<Attrs> with_attr(const Node& node, std::string_view name, std::int64_t value) {
  return set(node, name, value);
}
Ref<Attrs> with_attr(const Node& node, std::string_view name, const Ints& value) {
  return set(node, name, value);
}
Ref<Attrs> with_attr(const Node& node, std::string_view name, const Shape& value) {
  return set(node, name, value);
}

}  // namespace dyad::passes
