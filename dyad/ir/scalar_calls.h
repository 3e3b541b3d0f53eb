#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "dyad/ir/scalar.h"

namespace dyad::scalar {

/// A call of an elementary function in a program: one of its inputs, after those that it has of its
/// own, stands for what the function gives.
struct ElementaryCall {
  std::string_view function;  ///< "exp", "tanh"...: its name in scalar_math.h
  std::vector<std::uint32_t> args;
  std::uint32_t result = 0;
};

/// While one lives, the elementary functions of scalar_math.h are noted as calls in the programs
/// that its thread records, not written out: for who has functions of that name, as ONNX does. Such
/// programs read no bits of floats.
class CallRecorder {
 public:
  CallRecorder() noexcept;
  ~CallRecorder();
  CallRecorder(const CallRecorder&) = delete;
  CallRecorder& operator=(const CallRecorder&) = delete;

  [[nodiscard]] std::span<const ElementaryCall> calls() const noexcept { return calls_; }
  /// The innermost one of this thread, or null.
  [[nodiscard]] static CallRecorder* current() noexcept;
  /// A value that stands for the result; equal calls are one.
  Scalar call(std::string_view function, std::initializer_list<Scalar> args);

 private:
  std::vector<ElementaryCall> calls_;
  CallRecorder* outer_;
};

/// The result of a call that is noted; nothing when none are.
[[nodiscard]] std::optional<Scalar> recorded_call(std::string_view function,
                                                  std::initializer_list<Scalar> args);

}  // namespace dyad::scalar
