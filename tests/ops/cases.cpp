#include "cases.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <type_traits>

#include "dyad/core/element.h"
#include "dyad/core/evaluator.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/ir/literal.h"
#include "dyad/ir/partial_attr_visitor.h"
#include "dyad/ops/registry.h"
#include "function_cases.h"

namespace dyad::testing {
namespace {

std::map<std::string, CaseFunction>& function_cases() {
  static std::map<std::string, CaseFunction> functions;
  return functions;
}

Tensor tensor_of(const json& text) {
  if (text.is_null()) return {};
  const DType dtype = parse_dtype(text[0].get<std::string>());
  Tensor made = make_empty(dtype, shape_of(text[1]));
  std::byte* element = made.impl()->data;
  for (const json& value : text[2]) {
    visit_element(dtype, [&]<class T>(std::type_identity<T>) {
      T converted{};
      if (value.is_array()) {
        converted = convert_element<T>(std::complex(number_of(value[0]), number_of(value[1])));
      } else if (value.is_number_unsigned()) {
        converted = convert_element<T>(value.get<std::uint64_t>());
      } else if (value.is_number_integer()) {
        converted = convert_element<T>(value.get<std::int64_t>());
      } else {
        converted = convert_element<T>(number_of(value));
        // Conversion saturates, but f8e5m2 has infinities.
        if constexpr (std::is_same_v<T, SmallFloat<DType::f8e5m2>>) {
          converted = {small_float_code(dtype, static_cast<float>(number_of(value)), false)};
        }
      }
      std::memcpy(element, &converted, sizeof(T));
    });
    element += size_of(dtype);
  }
  return made;
}

/// Sets attributes from an object of the same member names.
class JsonAttrs final : public AttrVisitor {
 public:
  explicit JsonAttrs(const json& values) : values_(values) {}
  void visit(std::string_view name, bool& value) override {
    if (has(name)) value = get(name).get<bool>();
  }
  void visit(std::string_view name, std::int64_t& value) override {
    value = get(name).get<std::int64_t>();
  }
  void visit(std::string_view name, double& value) override {
    if (has(name)) value = number_of(get(name));
  }
  void visit(std::string_view name, std::string& value) override {
    if (has(name)) value = get(name).get<std::string>();
  }
  void visit(std::string_view name, DType& value) override {
    value = parse_dtype(get(name).get<std::string>());
  }
  void visit(std::string_view name, Dim& value) override { value = get(name).get<std::int64_t>(); }
  void visit(std::string_view name, Ints& value) override {
    value.clear();
    for (const json& item : get(name)) value.push_back(item.get<std::int64_t>());
  }
  void visit(std::string_view name, Shape& value) override { value = shape_of(get(name)); }
  void visit(std::string_view name, Tensor& value) override {
    if (has(name)) value = tensor_of(get(name));
  }

 private:
  bool has(std::string_view name) const { return values_.contains(name); }
  const json& get(std::string_view name) const { return values_.at(std::string(name)); }
  const json& values_;
};

/// A call of the row through the evaluator that is current then.
std::function<Tensors(const Tensors&)> call_of(const OpInfo& op, Ref<Attrs> attrs) {
  return [&op, attrs = std::move(attrs)](const Tensors& inputs) {
    std::vector<const Tensor*> refs;
    for (const Tensor& input : inputs) refs.push_back(&input);
    Tensors outputs(op.outputs.size());
    Evaluator::current().apply(op, refs, attrs->data(), outputs, std::source_location::current());
    return outputs;
  };
}

Case case_of(const json& text) {
  Case c;
  c.name = text["op"].get<std::string>();
  c.op = find_op(c.name);
  for (const json& input : text["in"]) c.inputs.push_back(tensor_of(input));
  for (const json& output : text["out"]) c.outputs.push_back(tensor_of(output));
  c.tolerance = text.value("tol", 1.0);
  c.floor = text.value("floor", 0.0);
  c.grad = text.value("grad", false);
  c.onnx_since = text.value("onnx", 0);
  const json attrs = text.value("attrs", json::object());
  Types types;
  for (const Tensor& input : c.inputs) types.push_back(type_of(input));
  if (c.op != nullptr) {
    c.attrs = Attrs::edited(*c.op->attrs, nullptr, [&](void* values) {
      if (attrs.empty()) return;
      JsonAttrs reader(attrs);
      c.op->attrs->visit(values, reader);
    });
    c.call = call_of(*c.op, c.attrs);
    c.text = call_string(*c.op, types, c.attrs->data());
  } else if (const CaseFunction function = find_function_case(c.name)) {
    c.call = [function, attrs](const Tensors& inputs) { return function(attrs, inputs); };
    c.text = c.name + "(";
    for (const Type& type : types) c.text += to_string(type) + ", ";
    c.text += attrs.dump() + ")";
  } else {
    throw std::runtime_error("tests/ops/data: no operator and no function " + c.name);
  }
  return c;
}

/// The names that DYAD_OPS lists; none when it is not set.
std::set<std::string> chosen_names() {
  const char* const list = std::getenv("DYAD_OPS");
  std::set<std::string> names;
  std::istringstream text(list != nullptr ? list : "");
  for (std::string name; std::getline(text, name, ',');) names.insert(name);
  return names;
}

double epsilon(DType dtype) {
  switch (real_dtype(dtype)) {
    case DType::f64:
      return 0x1p-52;
    case DType::f32:
      return 0x1p-23;
    case DType::f16:
      return 0x1p-10;
    case DType::bf16:
      return 0x1p-7;
    default:
      return 0;
  }
}
/// The distance of the smallest numbers.
double smallest(DType dtype) {
  switch (real_dtype(dtype)) {
    case DType::f64:
      return 0x1p-1074;
    case DType::f32:
      return 0x1p-149;
    case DType::f16:
      return 0x1p-24;
    case DType::bf16:
      return 0x1p-133;
    default:
      return 0;
  }
}

/// Counts the attributes `axis` and `axes` from the end.
class FromTheEnd final : public PartialAttrVisitor {
 public:
  using PartialAttrVisitor::visit;
  explicit FromTheEnd(int rank) : rank_(rank) {}
  void visit(std::string_view name, std::int64_t& value) override {
    if (name == "axis" && value >= 0) value -= rank_;
  }
  void visit(std::string_view name, Ints& value) override {
    if (name != "axes") return;
    for (std::int64_t& axis : value) axis -= axis >= 0 ? rank_ : 0;
  }

 private:
  int rank_;
};

/// Sizes as symbols, equal ones as the same symbol; ones stay, they broadcast.
Shape symbols(const Shape& shape) {
  Shape made;
  for (const Dim size : shape) {
    made.push_back(size.number() == 1 ? size : Dim::symbol("d" + std::to_string(size.number())));
  }
  return made;
}

}  // namespace

void interpret_kernels() { setenv("DYAD_KERNELS", "interpreter", /*overwrite=*/0); }

double number_of(const json& value) {
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  if (!value.is_string()) return value.get<double>();
  const std::string text = value.get<std::string>();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  return text == "inf" ? std::numeric_limits<double>::infinity()
                       : -std::numeric_limits<double>::infinity();
}

Ints ints_of(const json& values) {
  Ints made;
  for (const json& value : values) made.push_back(value.get<std::int64_t>());
  return made;
}

Shape shape_of(const json& sizes) { return Shape(ints_of(sizes)); }

double number(const json& attrs, const char* name) { return number_of(attrs.at(name)); }
std::int64_t integer(const json& attrs, const char* name) {
  return attrs.at(name).get<std::int64_t>();
}
bool flag(const json& attrs, const char* name) { return attrs.at(name).get<bool>(); }
std::string text(const json& attrs, const char* name) { return attrs.at(name).get<std::string>(); }
Ints ints(const json& attrs, const char* name) { return ints_of(attrs.at(name)); }
Shape shape(const json& attrs, const char* name) { return shape_of(attrs.at(name)); }
DType dtype_at(const json& attrs, const char* name) { return parse_dtype(text(attrs, name)); }

Reduction reduction_of(const json& attrs) {
  const std::string name = text(attrs, "reduction");
  return name == "mean" ? Reduction::mean : name == "sum" ? Reduction::sum : Reduction::none;
}

Tensor z(const Tensor& x) { return view_as_complex(x); }
Tensor parts(const Tensor& x) { return view_as_real(x); }

FunctionCases::FunctionCases(std::initializer_list<Entry> entries) {
  for (const Entry& entry : entries) function_cases()[entry.name] = entry.call;
}

CaseFunction find_function_case(const std::string& name) {
  const auto found = function_cases().find(name);
  return found == function_cases().end() ? nullptr : found->second;
}

std::vector<std::string> function_case_names() {
  std::vector<std::string> names;
  for (const auto& [name, call] : function_cases()) names.push_back(name);
  return names;
}

bool only_some_cases() { return !chosen_names().empty(); }

const std::vector<Case>& reference_cases() {
  static const std::vector<Case> cases = [] {
    ops::register_builtin_ops();
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator("tests/ops/data")) {
      if (entry.path().extension() == ".json") files.push_back(entry.path());
    }
    if (files.empty()) throw std::runtime_error("run from the root of the repository");
    std::ranges::sort(files);
    const std::set<std::string> chosen = chosen_names();
    std::vector<Case> read;
    std::size_t number = 0;
    for (const auto& path : files) {
      for (const json& text : json::parse(std::ifstream(path))) {
        ++number;
        if (!chosen.empty() && !chosen.contains(text["op"].get<std::string>())) continue;
        read.push_back(case_of(text));
        read.back().number = number - 1;
      }
    }
    return read;
  }();
  return cases;
}

std::optional<Case> with_negative_axes(const Case& c) {
  if (c.op == nullptr || c.inputs.empty() || !c.inputs[0].defined() || c.inputs[0].rank() == 0)
    return {};
  // An axis that is added counts itself.
  FromTheEnd visitor(c.inputs[0].rank() + (c.op->name == "unsqueeze" ? 1 : 0));
  Case made = c;
  made.attrs = Attrs::edited(*c.op->attrs, c.attrs->data(),
                             [&](void* attrs) { c.op->attrs->visit(attrs, visitor); });
  made.call = call_of(*c.op, made.attrs);
  Types types;
  for (const Tensor& input : c.inputs) types.push_back(type_of(input));
  made.text = call_string(*c.op, types, made.attrs->data());
  if (made.text == c.text) return {};
  return made;
}

Tensor laid_out(const Tensor& x, Layout layout) {
  if (!x.defined()) return x;
  const Shape& shape = x.shape();
  Strides strides(shape.size(), 0);
  std::int64_t step = layout == Layout::stepped ? 2 : 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::size_t axis = layout == Layout::column_major ? i : shape.size() - 1 - i;
    strides[axis] = step;
    step *= std::max<std::int64_t>(shape.numbers()[axis], 1);
    if (layout == Layout::stepped) ++step;  // a gap after each row
  }
  const Tensor memory = make_empty(x.dtype(), {step + 3});
  const std::size_t size = size_of(x.dtype());
  std::fill_n(memory.impl()->data, static_cast<std::size_t>(step + 3) * size, std::byte{0x5A});
  const Tensor made = make_view(memory, shape, strides, 2);
  const std::vector<std::byte> from = packed_elements(x);
  Ints index(shape.size(), 0);
  for (std::size_t at = 0; at < from.size(); at += size) {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < shape.size(); ++i) offset += index[i] * strides[i];
    std::copy_n(from.data() + at, size,
                made.impl()->data + static_cast<std::ptrdiff_t>(offset) * std::ptrdiff_t(size));
    for (std::size_t i = shape.size(); i-- > 0;) {
      if (++index[i] < shape.numbers()[i]) break;
      index[i] = 0;
    }
  }
  return made;
}

std::vector<double> elements(const Tensor& x) {
  const std::vector<std::byte> packed = packed_elements(x);
  std::vector<double> values;
  visit_element(x.dtype(), [&]<class T>(std::type_identity<T>) {
    for (std::size_t at = 0; at < packed.size(); at += sizeof(T)) {
      T element;
      std::memcpy(&element, packed.data() + at, sizeof(T));
      if constexpr (is_complex_element<T>) {
        values.insert(values.end(), {element.real(), element.imag()});
      } else {
        values.push_back(convert_element<double>(element));
      }
    }
  });
  return values;
}

Tensor f64_tensor(const std::vector<double>& values, const Shape& shape) {
  Tensor made = make_empty(f64, shape);
  std::copy(values.begin(), values.end(), made.data<double>());
  return made;
}

std::string difference(const Case& c, const Tensor& got, const Tensor& want) {
  if (got.dtype() != want.dtype() || !got.shape().same_as(want.shape())) {
    return "got " + type_string(got) + ", not " + type_string(want);
  }
  const std::vector<double> a = elements(got), b = elements(want);
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (a[i] == b[i]) continue;
    const double allowed =
        c.tolerance * (epsilon(want.dtype()) * std::max(std::abs(b[i]), c.floor) +
                       (c.tolerance > 0 ? 2 * smallest(want.dtype()) : 0));
    if (std::abs(a[i] - b[i]) <= allowed) continue;
    return "element " + std::to_string(i) + " is " + number_text(a[i]) + ", not " +
           number_text(b[i]);
  }
  return {};
}

Graph graph_of(const Case& c, bool symbolic) {
  Graph graph;
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    const Tensor& x = c.inputs[i];
    inputs.push_back(x.defined() ? graph.placeholder("x" + std::to_string(i), x.dtype(),
                                                     symbolic ? symbols(x.shape()) : x.shape())
                                 : Tensor());
  }
  (void)graph.define([&] { return run(c, inputs); });
  return graph;
}

}  // namespace dyad::testing
