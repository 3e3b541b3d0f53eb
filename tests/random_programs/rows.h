#pragma once

#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "helpers.h"
#include "instructions.h"

namespace dyad::testing {

/// What the expression of a row may name.
struct Operands {
  Tensor &x, &y, &z;             ///< the inputs
  std::int64_t i, j, k;          ///< the numbers
  Dim l, m, n;                   ///< the same, as sizes
  double a, b;                   ///< the real numbers
  Ints axes;                     ///< all numbers
  Shape sizes;                   ///< the same, as sizes
  DType dtype;                   ///< that of the statement
  std::vector<Tensor> operands;  ///< all inputs
};
Operands operands_of(const Frame& f);

/// How many tensors an operator gives that gives an R.
template <class R>
constexpr int results_of() {
  if constexpr (std::is_same_v<R, Tensor>) {
    return 1;
  } else if constexpr (requires { std::tuple_size<R>::value; }) {
    return static_cast<int>(std::tuple_size_v<R>);
  } else if constexpr (requires { R{Tensor(), Tensor(), Tensor(), Tensor()}; }) {
    return 4;
  } else if constexpr (requires { R{Tensor(), Tensor(), Tensor()}; }) {
    return 3;
  } else {
    return 2;
  }
}

template <class R>
std::vector<Tensor> list_of(const R& results) {
  if constexpr (results_of<R>() == 1) {
    return {results};
  } else if constexpr (results_of<R>() == 2) {
    const auto& [a, b] = results;
    return {a, b};
  } else if constexpr (results_of<R>() == 3) {
    const auto& [a, b, c] = results;
    return {a, b, c};
  } else {
    const auto& [a, b, c, d] = results;
    return {a, b, c, d};
  }
}

/// An expression over Operands, as a function and as the text of an instruction.
struct Expression {
  template <class Call>
  Expression(const char* code, Call call)
      : code(code),
        outputs(results_of<std::invoke_result_t<Call, const Operands&>>()),
        run([call](const Frame& f) { return list_of(call(operands_of(f))); }) {}

  std::string code;  ///< in the names of Operands
  int outputs;
  std::function<std::vector<Tensor>(const Frame&)> run;
};
/// The same with $0, #0 and so on in their places.
std::string instruction_text(const std::string& code);

/// An expression, written once: it is run, and printed as C++.
#define DYAD_ROW(...)                                                                              \
  ::dyad::testing::Expression(#__VA_ARGS__, [](const ::dyad::testing::Operands& of) {              \
    [[maybe_unused]] const auto& [x, y, z, i, j, k, l, m, n, a, b, axes, sizes, dtype, operands] = \
        of;                                                                                        \
    return __VA_ARGS__;                                                                            \
  })

/// What a row draws: inputs and numbers, one after the other.
class Rule {
 public:
  explicit Rule(std::function<bool(Draft&)> draw) : draw_(std::move(draw)) {}
  bool operator()(Draft& d) const { return draw_(d); }
  /// This, then that.
  [[nodiscard]] Rule operator+(Rule then) const;

 private:
  std::function<bool(Draft&)> draw_;
};

/// An input of so many axes.
Rule value(int low = 0, int high = 4, const Draft::Fits& fits = any_value);
inline Rule floats(int low = 0, int high = 4) { return value(low, high, is_float); }
inline Rule numbers(int low = 0, int high = 4) { return value(low, high, is_number); }
inline Rule wholes(int low = 0, int high = 4) { return value(low, high, is_whole); }
inline Rule bools(int low = 0, int high = 4) { return value(low, high, is_bool); }
inline Rule wide_floats(int low = 0, int high = 4) { return value(low, high, is_f32_or_f64); }
Rule complexes(int low = 0, int high = 4);
Rule of_dtype(DType dtype, int low = 0, int high = 4);
/// An input of the type of input 0, or of its dtype and so many axes.
Rule alike();
Rule alike(int low, int high);
/// An input that broadcasts with input 0.
Rule beside(const Draft::Fits& fits = is_float);
/// An input of the dtype of input 0 whose axes have these sizes of input 0, counted from the end
/// when negative.
Rule sized(std::vector<int> axes);
/// Two images, or vectors, and so on, of which input 1 can be the weight of a convolution of input
/// 0: channels are equal.
Rule convolved(int rank);
/// Numbers: an axis of input 0, some of them, one from low to high, the size of input 0 along one.
Rule axis();
Rule axes();
Rule whole(std::int64_t low, std::int64_t high);
Rule size(int axis);
Rule real(std::vector<double> from);
Rule dtypes(std::vector<DType> from);

/// An instruction of wide programs.
struct Row {
  Expression expression;
  Rule rule;
  int weight = 1;
};
/// What is said of all rows of a table.
struct Table {
  bool library = false;
  bool picks = false;
};
void add_rows(Instructions& list, const std::vector<Row>& rows, const Table& table = {});

}  // namespace dyad::testing
