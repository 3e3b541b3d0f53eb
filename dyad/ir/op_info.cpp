#include "dyad/ir/op_info.h"

#include <algorithm>
#include <string>

#include "dyad/base/error.h"
#include "dyad/ir/attr_text.h"

namespace dyad {
namespace {

std::string input_name(const OpInfo& op, std::size_t i) {
  const ArgInfo* info = input_info(op, i);
  if (info == nullptr) return "input " + std::to_string(i);
  if (!info->variadic) return std::string(info->name);
  return std::string(info->name) + "[" + std::to_string(i - (op.inputs.size() - 1)) + "]";
}

std::string names_of(DTypeSet set) {
  std::string names;
  int count = 0;
  for (int i = 0; i < kDTypeCount; ++i) {
    if (!contains(set, static_cast<DType>(i))) continue;
    names += (count++ ? " " : "") + std::string(name_of(static_cast<DType>(i)));
  }
  return (count > 1 ? "one of " : "") + names;
}

/// What to cast to: the dtype of another input if that is allowed, else f32, else the first
/// allowed one.
DType suggested(const OpInfo& op, std::span<const Type> inputs, DTypeSet set) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const ArgInfo* info = input_info(op, i);
    if (info && info->dtypes == set && inputs[i].is_tensor() && contains(set, inputs[i].dtype())) {
      return inputs[i].dtype();
    }
  }
  if (contains(set, DType::f32)) return DType::f32;
  int first = 0;
  while (first + 1 < kDTypeCount && !contains(set, static_cast<DType>(first))) ++first;
  return static_cast<DType>(first);
}

void check_count(const InferIn& in) {
  const auto declared = in.op.inputs;
  const bool variadic = !declared.empty() && declared.back().variadic;
  std::size_t least = 0;
  for (std::size_t i = 0; i < declared.size(); ++i) {
    if (!declared[i].optional && !declared[i].variadic) least = i + 1;
  }
  if (in.inputs.size() >= least && (variadic || in.inputs.size() <= declared.size())) return;
  std::string names;
  for (const ArgInfo& arg : declared) {
    names += (names.empty() ? "" : ", ") + std::string(arg.name);
    if (arg.optional) names += "?";
    if (arg.variadic) names += "...";
  }
  const std::string takes =
      declared.empty()
          ? "no inputs"
          : std::to_string(variadic ? least : declared.size()) + (variadic ? " or more" : "") +
                (declared.size() == 1 && !variadic ? " input (" : " inputs (") + names + ")";
  fail_value(in,
             "the operator takes " + takes + " but was given " + std::to_string(in.inputs.size()));
}

void check_dtypes(const InferIn& in) {
  for (std::size_t i = 0; i < in.inputs.size(); ++i) {
    const Type& type = in.inputs[i];
    const ArgInfo& info = *input_info(in.op, i);
    if (type.is_none()) {
      if (info.optional) continue;
      fail_value(in, input_name(in.op, i) + " is an undefined tensor, but the operator needs it");
    }
    if (!type.is_tensor() || contains(info.dtypes, type.dtype())) continue;
    const std::string name = input_name(in.op, i);
    const DType target = suggested(in.op, in.inputs, info.dtypes);
    fail_dtype(in, name + " must be " + names_of(info.dtypes) + " but is " +
                       std::string(name_of(type.dtype())) + "; cast it with " + name + ".to(" +
                       std::string(name_of(target)) + ")");
  }
}

template <class E>
[[noreturn]] void fail(const InferIn& in, const std::string& rule) {
  const std::string_view called = LocScope::function();
  const std::string prefix =
      called.empty() || called == in.op.name ? "" : std::string(called) + ": ";
  throw E(prefix + call_string(in.op, in.inputs, in.attrs) + ": " + rule, in.loc.user());
}

/// `name = value` of each attribute.
class AttrList final : public AttrPrinter {
 public:
  std::vector<std::string> texts;

 protected:
  void add(std::string_view name, std::string_view value) override {
    texts.push_back(std::string(name) + " = " + std::string(value));
  }
};

/// The attributes that differ from their defaults: messages are about what the caller wrote.
std::vector<std::string> unusual_attributes(const AttrsInfo& info, const void* attrs) {
  if (!attrs) return {};
  AttrList given, usual;
  info.visit(const_cast<void*>(attrs), given);  // a reading visitor
  Attrs::edited(info, nullptr, [&](void* defaults) { info.visit(defaults, usual); });
  std::vector<std::string> unusual;
  for (std::size_t i = 0; i < given.texts.size(); ++i) {
    if (given.texts[i] != usual.texts[i]) unusual.push_back(given.texts[i]);
  }
  return unusual;
}

}  // namespace

const ArgInfo* input_info(const OpInfo& op, std::size_t i) noexcept {
  if (i < op.inputs.size()) return &op.inputs[i];
  if (!op.inputs.empty() && op.inputs.back().variadic) return &op.inputs.back();
  return nullptr;
}

Types infer_types(const OpInfo& op, std::span<const Type> inputs, const void* attrs, Loc loc) {
  const InferIn in{.op = op, .inputs = inputs, .attrs = attrs, .loc = loc};
  check_count(in);
  check_dtypes(in);
  return op.infer(in);
}

std::string call_string(const OpInfo& op, std::span<const Type> inputs, const void* attrs) {
  std::string text;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    text += (i ? ", " : "") + input_name(op, i) + ": " + to_string(inputs[i]);
  }
  for (const std::string& attribute : unusual_attributes(*op.attrs, attrs)) {
    text += (text.empty() ? "" : ", ") + attribute;
  }
  return std::string(op.name) + "(" + text + ")";
}

void fail_shape(const InferIn& in, const std::string& rule) { fail<ShapeError>(in, rule); }
void fail_dtype(const InferIn& in, const std::string& rule) { fail<DTypeError>(in, rule); }
void fail_value(const InferIn& in, const std::string& rule) { fail<ValueError>(in, rule); }

}  // namespace dyad
