#pragma once

#include "dyad/ir/attrs.h"

namespace dyad {

/// A visitor that some kinds of attributes interest: it passes over those that it does not
/// override.
class PartialAttrVisitor : public AttrVisitor {
 public:
  void visit(std::string_view, bool&) override {}
  void visit(std::string_view, std::int64_t&) override {}
  void visit(std::string_view, double&) override {}
  void visit(std::string_view, std::string&) override {}
  void visit(std::string_view, DType&) override {}
  void visit(std::string_view, Dim&) override {}
  void visit(std::string_view, Ints&) override {}
  void visit(std::string_view, Shape&) override {}
  void visit(std::string_view, Tensor&) override {}
};

}  // namespace dyad
