#pragma once

#include <functional>
#include <string>
#include <vector>

#include "dyad/ops/ops.h"

namespace dyad::testing {

/// The type of an error.
enum class Kind { shape, dtype, index, value };

/// Makes a tensor of a dtype and shape in the mode under test.
using Make = std::function<Tensor(DType, Shape)>;

/// A call that must be refused, with the whole text of its error.
struct BadCall {
  Kind kind;
  std::string message;
  std::function<void(const Make&)> call;
};

/// Checks calls, made in a function of `file`, when an operator is called and while a graph is
/// made: the error, its text, and that it names a line of the file.
void expect_errors(const std::vector<BadCall>& calls, const std::string& file);

// What a line of a table of bad calls is written with.
#define CALL(...)        \
  [](const Make& make) { \
    (void)make;          \
    (void)(__VA_ARGS__); \
  }
#define F(...) make(f32, Shape{__VA_ARGS__})
#define I(...) make(i64, Shape{__VA_ARGS__})

}  // namespace dyad::testing
