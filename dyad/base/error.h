#pragma once

#include <stdexcept>
#include <string>

#include "dyad/base/loc.h"

namespace dyad {

/// Base of every exception that Dyad throws. `what()` is the message, then a line `at file:line`
/// for the user's source line and, when a static graph fails at run time, `declared at file:line`
/// for the node.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, Loc where = {}, Loc declared = {});

  /// The message without places.
  [[nodiscard]] const std::string& message() const noexcept { return message_; }
  [[nodiscard]] Loc where() const noexcept { return where_; }
  [[nodiscard]] Loc declared() const noexcept { return declared_; }

 private:
  std::string message_;
  Loc where_;
  Loc declared_;
};

/// Sizes, ranks or axes that do not fit the operator.
class ShapeError : public Error {
  using Error::Error;
};
/// A dtype that the operator does not take.
class DTypeError : public Error {
  using Error::Error;
};
/// An axis, index or key out of range.
class IndexError : public Error {
  using Error::Error;
};
/// An argument whose value is not allowed.
class ValueError : public Error {
  using Error::Error;
};
/// A device that is missing or does not match.
class DeviceError : public Error {
  using Error::Error;
};
/// Wrong use of a graph: foreign or symbolic values, missing feeds, malformed text.
class GraphError : public Error {
  using Error::Error;
};
/// Wrong use of gradients: stale saved tensors, no graph to differentiate.
class GradError : public Error {
  using Error::Error;
};
/// A NaN or infinity found by detect_anomaly.
class AnomalyError : public Error {
  using Error::Error;
};
/// A model that ONNX cannot express or a file that is not valid ONNX.
class OnnxError : public Error {
  using Error::Error;
};
/// A file that is missing, truncated, or not what it claims to be.
class IoError : public Error {
  using Error::Error;
};
/// A run stopped by request from another thread.
class CancelledError : public Error {
  using Error::Error;
};
/// Memory that could not be had.
class MemoryError : public Error {
  using Error::Error;
};
/// A broken invariant of Dyad itself: a bug to report.
class InternalError : public Error {
  using Error::Error;
};

}  // namespace dyad
