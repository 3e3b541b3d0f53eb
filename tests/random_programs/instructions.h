#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "program.h"

namespace dyad::testing {

/// What an instruction finds when it runs.
class Frame {
 public:
  Frame(std::vector<Tensor>& values, const Statement& statement)
      : values_(values), statement_(statement) {}

  [[nodiscard]] const Statement& statement() const noexcept { return statement_; }
  [[nodiscard]] std::size_t inputs() const noexcept { return statement_.in.size(); }
  /// Input `i`.
  [[nodiscard]] Tensor& operator[](std::size_t i) const {
    return values_[static_cast<std::size_t>(statement_.in[i])];
  }
  [[nodiscard]] std::vector<Tensor> all() const;
  /// Number `i`, which may be a size.
  [[nodiscard]] Dim size(std::size_t i) const;
  /// Number `i`, which is none.
  [[nodiscard]] std::int64_t whole(std::size_t i) const { return statement_.numbers[i].n; }
  [[nodiscard]] double real(std::size_t i) const { return statement_.reals[i]; }
  /// The numbers from `first` on, as sizes and as they are.
  [[nodiscard]] Shape sizes(std::size_t first = 0) const;
  [[nodiscard]] Ints wholes(std::size_t first = 0) const;
  /// Runs body `i`.
  [[nodiscard]] std::vector<Tensor> run(std::size_t i, const std::vector<Tensor>& arguments) const;

 private:
  std::vector<Tensor>& values_;
  const Statement& statement_;
};

/// Runs a body's statements; its results.
std::vector<Tensor> run_body(const Body& body, const std::vector<Tensor>& arguments,
                             std::vector<Tensor>& values);

/// What an instruction finds when a statement of it is being made up: values that exist, with an
/// example of each, and random choices. What it makes up is tried, so it may be wrong.
class Draft {
 public:
  virtual ~Draft() = default;
  using Fits = std::function<bool(const Tensor&)>;

  explicit Draft(Numbers& from) : numbers(from) {}
  /// An input that fits; false when there is none.
  virtual bool input(const Fits& fits) = 0;
  /// The example of input `i`.
  [[nodiscard]] virtual const Tensor& example(std::size_t i) const = 0;
  /// A body for the statement, of which result `k` has the type of input `like[k]`: its parameters
  /// look as `parameters`.
  virtual void body(const std::vector<Tensor>& parameters,
                    const std::vector<std::size_t>& like) = 0;
  virtual Statement& statement() = 0;

  /// An axis of input `i`; false when it has none.
  bool axis(std::size_t i = 0);
  /// Some of its axes, each once.
  bool axes(std::size_t i = 0);
  void whole(std::int64_t low, std::int64_t high) {
    statement().numbers.push_back({numbers.between(low, high), -1});
  }
  void number(std::int64_t n) { statement().numbers.push_back({n, -1}); }
  /// The size of input `i` along `along`, told by that input.
  void size(std::size_t i, std::int64_t along) {
    statement().numbers.push_back({along, statement().in[i]});
  }
  void real(const std::vector<double>& from) { statement().reals.push_back(numbers.pick(from)); }

  Numbers& numbers;
};

/// How a statement is written down.
enum class Form : std::uint8_t {
  call,
  write,
  cond,
  while_loop,
  while_cond,
  scan,
  host_if,
  host_for
};

/// Something that a statement can do.
struct Instruction {
  std::string name;
  /// C++, in which $0 is input 0, $* all of them, #0 number 0, #* all, #1* those from 1 on, %0 real
  /// number 0 and @ the dtype.
  std::string text;
  int weight = 1;  ///< how often it is taken
  std::function<std::vector<Tensor>(const Frame&)> run;
  std::function<bool(Draft&)> draft;
  int outputs = 1;
  Form form = Form::call;
  bool library = false;   ///< its bits may depend on the machine: a library computes it
  bool stateful = false;  ///< only programs from kFirstStateful on have it
  bool layered = false;   ///< only programs from kFirstLayered on have it
  bool wide = false;      ///< only programs from kFirstWide on have it
  bool picks = false;     ///< it picks by comparing: a last bit may change all of its result
};

using Instructions = std::vector<Instruction>;
/// Every instruction, in an order that does not change: stateful ones follow those that any program
/// may have, then come layered ones, wide ones are last.
const Instructions& instructions();
/// How many of them the program of that seed may have.
std::size_t instructions_of(std::uint64_t seed);
/// Where those begin and end that only programs of its kind have; wide programs have those of
/// layered ones, too.
std::pair<std::size_t, std::size_t> special_instructions(std::uint64_t seed);

// The parts of the list.
void add_pointwise(Instructions& list);
void add_shapes(Instructions& list);
void add_reductions(Instructions& list);
void add_products(Instructions& list);
void add_indexing(Instructions& list);
void add_sources(Instructions& list);
void add_writes(Instructions& list);
void add_control(Instructions& list);
void add_stateful(Instructions& list);
/// Those of layered programs.
void add_nested_control(Instructions& list);
void add_layers(Instructions& list);
void add_functions(Instructions& list);
/// Those of wide programs.
void add_wide_pointwise(Instructions& list);
void add_wide_shapes(Instructions& list);
void add_wide_reductions(Instructions& list);
void add_wide_sources(Instructions& list);
void add_wide_products(Instructions& list);
void add_wide_layers(Instructions& list);

// Which values fit.
bool any_value(const Tensor& x);
bool is_float(const Tensor& x);
/// What libraries compute in: other floating numbers are converted.
bool is_f32_or_f64(const Tensor& x);
bool is_whole(const Tensor& x);
bool is_bool(const Tensor& x);
bool is_number(const Tensor& x);
Draft::Fits with_rank(int low, int high, const Draft::Fits& fits = any_value);
/// Of a shape that broadcasts with that of `other`.
Draft::Fits broadcasts_with(const Tensor& other, const Draft::Fits& fits = any_value);
Draft::Fits same_type(const Tensor& other);

/// Whole numbers of any size, input 1, as places along the axis of input 0 that number 0 names: a
/// tensor of indices is seldom in range by itself.
Tensor places(const Frame& f);
inline constexpr const char* kPlaces = "remainder(to($1, i64), size_tensor($0.size(#0)))";
/// Draws these: an input that fits, the axis, and numbers of so many axes; -1: of as many as the
/// input.
bool places_draft(Draft& d, int rank, const Draft::Fits& fits = any_value);
/// And input 2, which goes there: of the dtype of input 0 and as many axes.
bool parts_draft(Draft& d, int rank, const Draft::Fits& fits = any_value);

}  // namespace dyad::testing
