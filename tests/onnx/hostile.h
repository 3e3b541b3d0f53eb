#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "dyad/onnx/load.h"

namespace dyad::testing {

/// The most memory that the process holds at once while the object lives, beyond what it held
/// before. One at a time.
class MemoryGrowth {
 public:
  MemoryGrowth();
  [[nodiscard]] std::size_t bytes() const;

 private:
  std::size_t before_;
};

/// What became of bytes from nobody knows where.
struct Attempt {
  bool loaded = false, ran = false;
  std::string error;       ///< the text of the error that ended it, if one did
  std::size_t growth = 0;  ///< bytes that the process took at most, beyond what it had
};

/// Reads a model, and runs it when it takes no inputs that must be fed. Errors of other kinds than
/// Dyad's own, InternalError, and text that is no printable UTF-8, fail the test; so does a model
/// that takes more than 256 MB of memory, or 10 seconds of the processor.
Attempt try_model(std::string_view bytes, const onnx::LoadOptions& options = {});
/// The text of the error of a model that must not be read.
std::string refusal(std::string_view bytes, const onnx::LoadOptions& options = {});

}  // namespace dyad::testing
