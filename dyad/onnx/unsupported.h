#pragma once

#include <string>
#include <utility>
#include <vector>

#include "dyad/base/error.h"

namespace dyad::onnx {

/// A valid model that needs what Dyad does not have: operators, element types, forms of them.
class UnsupportedError : public OnnxError {
  using OnnxError::OnnxError;
};

/// The same of nodes; a line for each says operator, version, name and reason.
class RefusedNodes : public UnsupportedError {
 public:
  RefusedNodes(const std::string& message, std::vector<std::string> lines, Loc where)
      : UnsupportedError(message, where), lines_(std::move(lines)) {}
  [[nodiscard]] const std::vector<std::string>& lines() const noexcept { return lines_; }

 private:
  std::vector<std::string> lines_;
};

}  // namespace dyad::onnx
