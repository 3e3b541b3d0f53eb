#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dyad/core/tensor.h"

namespace dyad::testing {

struct Instruction;
struct Statement;

/// A number in a statement: itself, or the size of a value along an axis.
struct Number {
  std::int64_t n = 0;  ///< the number, or the axis
  int of = -1;         ///< the value whose size is meant; below 0: none
  [[nodiscard]] bool operator==(const Number&) const = default;
};

/// Statements with parameters and results: a branch, a loop's body, or the whole program.
struct Body {
  std::vector<int> parameters;
  std::vector<Statement> statements;
  std::vector<int> results;
};

/// One line of a program: an instruction applied to values, which are numbered through the program.
struct Statement {
  const Instruction* op = nullptr;
  std::vector<int> in;
  std::vector<int> out;
  std::vector<Number> numbers;
  std::vector<double> reals;
  DType dtype = DType::f32;
  std::vector<Body> bodies;
};

/// How the elements of an input lie in memory.
enum class Order : std::uint8_t { row_major, transposed, stepped };
/// What its elements are like.
enum class Content : std::uint8_t { ordinary, whole, special };

/// A tensor that the function is given, or that it uses from outside.
struct Input {
  DType dtype = DType::f32;
  std::vector<int> shape;  ///< below 0: the size of the call's dimension ~n; otherwise the size
  bool captured = false;   ///< from outside; lives on from call to call
  bool requires_grad = false;
  Order order = Order::row_major;
  Content content = Content::ordinary;
  bool kept = false;      ///< an argument that lives on: two of them are passed in turn
  bool computed = false;  ///< from a leaf, by the caller
  int view_of = -1;       ///< an earlier input whose memory it lies in; below 0: its own
};

/// The sizes and the data of one call.
struct Call {
  std::vector<std::int64_t> sizes;
  std::uint64_t data = 0;
};

/// Which gradients are taken, and where.
enum class Gradients : std::uint8_t {
  none,
  inside,   ///< grad() in the function, whose results they join
  step,     ///< backward() in the function, then captured tensors are moved against their gradients
  outside,  ///< backward() from the results, after the call
  twice,    ///< the same from the gradients of the results
};

/// What the caller does after each call.
enum class After : std::uint8_t {
  nothing,
  write_results,  ///< in place
  update,         ///< moves what lives on against its gradients, which it forgets now and then
};

/// Programs of the seeds from here on have state beside their values: leaves that keep gradients,
/// arguments that live on, memory that the caller has too, seeds.
inline constexpr std::uint64_t kFirstStateful = 1'000'000;
/// Those from here on have layers, transforms and decompositions instead.
inline constexpr std::uint64_t kFirstLayered = 2'000'000;
[[nodiscard]] constexpr bool is_stateful(std::uint64_t seed) noexcept {
  return seed >= kFirstStateful && seed < kFirstLayered;
}
/// Those from here on have most functions of the library, those of layered ones among them, and
/// complex numbers.
inline constexpr std::uint64_t kFirstWide = 3'000'000;
[[nodiscard]] constexpr bool is_layered(std::uint64_t seed) noexcept {
  return seed >= kFirstLayered && seed < kFirstWide;
}
[[nodiscard]] constexpr bool is_wide(std::uint64_t seed) noexcept { return seed >= kFirstWide; }

/// A function of tensors and the calls that are made of it.
struct Program {
  std::uint64_t seed = 0;
  std::vector<Input> inputs;  ///< values 0, 1, ...
  Body body;
  std::vector<Call> calls;
  Gradients gradients = Gradients::none;
  After after = After::nothing;
  int values = 0;  ///< how many there are in all
};

/// The shape that an input has in a call.
[[nodiscard]] Shape shape_of(const Input& input, const Call& call);
/// The tensor that input `index` of the program is in that call: its elements follow from the
/// call's data and the index alone.
[[nodiscard]] Tensor make_input(const Program& program, int index, const Call& call);

/// What the function is given for input `index`, which was made as `made`, and the inputs before it
/// as `given`.
[[nodiscard]] Tensor given_input(const Program& program, int index, const Tensor& made,
                                 const std::vector<Tensor>& given);

/// Statements in all, those in bodies included.
[[nodiscard]] int count_statements(const Body& body);

/// Whether one of them is so.
[[nodiscard]] bool any_statement(const Body& body,
                                 const std::function<bool(const Statement&)>& what);

/// Takes out the statements that no result, no write and no choice of the host depends on.
void drop_dead_statements(Program& program);

/// Numbers from a seed, the same with every compiler.
class Numbers {
 public:
  explicit Numbers(std::uint64_t seed) noexcept : state_(seed) { state_ = word() ^ seed; }
  std::uint64_t word() noexcept;
  /// 0 to count - 1.
  std::int64_t below(std::int64_t count) noexcept {
    return static_cast<std::int64_t>(word() % static_cast<std::uint64_t>(count));
  }
  std::int64_t between(std::int64_t low, std::int64_t high) noexcept {
    return low + below(high - low + 1);
  }
  bool chance(int percent) noexcept { return below(100) < percent; }
  template <class T>
  const T& pick(const std::vector<T>& from) noexcept {
    return from[static_cast<std::size_t>(below(static_cast<std::int64_t>(from.size())))];
  }

 private:
  std::uint64_t state_;
};

}  // namespace dyad::testing
