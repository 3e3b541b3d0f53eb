#include "dyad/ir/attr_text.h"

#include "dyad/core/tensor_impl.h"
#include "dyad/ir/literal.h"

namespace dyad {

void AttrPrinter::add(std::string_view name, std::string_view value) {
  if (!text_.empty()) text_ += ", ";
  text_ += name;
  text_ += " = ";
  text_ += value;
}

void AttrPrinter::visit(std::string_view name, bool& value) { add(name, value ? "true" : "false"); }
void AttrPrinter::visit(std::string_view name, std::int64_t& value) {
  add(name, std::to_string(value));
}
void AttrPrinter::visit(std::string_view name, double& value) { add(name, number_text(value)); }
void AttrPrinter::visit(std::string_view name, std::string& value) { add(name, quote(value)); }
void AttrPrinter::visit(std::string_view name, DType& value) { add(name, name_of(value)); }
void AttrPrinter::visit(std::string_view name, Dim& value) { add(name, to_string(value)); }
void AttrPrinter::visit(std::string_view name, Ints& value) {
  std::string list = "[";
  for (const std::int64_t i : value) list += (list.size() > 1 ? ", " : "") + std::to_string(i);
  add(name, list + "]");
}
void AttrPrinter::visit(std::string_view name, Shape& value) { add(name, to_string(value)); }
void AttrPrinter::visit(std::string_view name, Tensor& value) {
  add(name, value.defined() ? tensor_text(value) : "none");
}

std::string AttrPrinter::tensor_text(const Tensor& tensor) {
  std::string type = type_string(tensor);
  if (!tensor.is_concrete() || tensor.impl()->numel() != 1) return type;
  return type + " " + element_text(tensor.dtype(), tensor.impl()->data);
}

}  // namespace dyad
