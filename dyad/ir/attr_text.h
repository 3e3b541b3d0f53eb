#pragma once

#include <string>
#include <string_view>

#include "dyad/ir/attrs.h"

namespace dyad {

/// Collects `axes = [1], keepdim = true` from an attribute struct. How a tensor reads depends on
/// where the text goes, so that part may be replaced.
class AttrPrinter : public AttrVisitor {
 public:
  void visit(std::string_view name, bool& value) override;
  void visit(std::string_view name, std::int64_t& value) override;
  void visit(std::string_view name, double& value) override;
  void visit(std::string_view name, std::string& value) override;
  void visit(std::string_view name, DType& value) override;
  void visit(std::string_view name, Dim& value) override;
  void visit(std::string_view name, Ints& value) override;
  void visit(std::string_view name, Shape& value) override;
  void visit(std::string_view name, Tensor& value) override;

  [[nodiscard]] const std::string& text() const noexcept { return text_; }

 protected:
  /// The type, and the element when there is just one; `none` for no tensor.
  [[nodiscard]] virtual std::string tensor_text(const Tensor& tensor);
  /// Takes one attribute's text.
  virtual void add(std::string_view name, std::string_view value);

 private:
  std::string text_;
};

}  // namespace dyad
