#include "generate.h"

#include <algorithm>

#include "dyad/base/error.h"
#include "dyad/core/generator.h"
#include "dyad/ops/ops.h"
#include "instructions.h"

namespace dyad::testing {
namespace {

using Tensors = std::vector<Tensor>;

constexpr std::int64_t kMostElements = 20000;
constexpr int kMostRank = 5;

bool fits_in(const Tensor& x, bool with_complex) {
  return x.defined() && x.rank() <= kMostRank && x.numel().number() <= kMostElements &&
         (with_complex || !is_complex(x.dtype())) && x.dtype() != DType::string;
}

/// Makes up statements one after the other, trying each on the data of every size that the calls
/// have.
class Maker {
 public:
  explicit Maker(std::uint64_t seed) : numbers_(seed) { program_.seed = seed; }

  Program make() {
    make_calls();
    make_inputs();
    std::vector<std::size_t> all;
    for (const Call& call : different_calls()) {
      all.push_back(tries_.size());
      ended_.push_back(false);
      Tensors& values = tries_.emplace_back();
      for (int i = 0; i < static_cast<int>(program_.inputs.size()); ++i)
        values.push_back(given_input(program_, i, make_input(program_, i, call), values));
    }
    program_.values = static_cast<int>(program_.inputs.size());
    for (int value = 0; value < program_.values; ++value) visible_.push_back(value);
    const auto length = numbers_.chance(15) ? numbers_.between(15, 30) : numbers_.between(2, 12);
    fill(program_.body, all, length, 2);
    for (auto left = numbers_.between(1, 4); left > 0; --left) {
      const int result = recent();
      if (std::ranges::find(program_.body.results, result) == program_.body.results.end())
        program_.body.results.push_back(result);
    }
    return std::move(program_);
  }

 private:
  class Draw;
  friend class Draw;

  /// Sizes of up to three dimensions; the first calls have the same ones, so that a recording is
  /// replayed, and the last call those of the first.
  void make_calls() {
    const auto size = [&]() -> std::int64_t {
      if (large_) return numbers_.between(40, 140);
      return numbers_.chance(8) ? 0 : numbers_.chance(15) ? 1 : numbers_.between(2, 7);
    };
    large_ = numbers_.chance(2);
    const bool vary = numbers_.chance(60);
    std::vector<std::int64_t> first{size(), size(), size()};
    std::vector<std::vector<std::int64_t>> kinds{first};
    for (int kind = 1; kind < 3; ++kind) {
      std::vector<std::int64_t> sizes = first;
      for (std::int64_t& of : sizes) {
        if (vary && numbers_.chance(60)) of = size();
      }
      kinds.push_back(std::move(sizes));
    }
    for (const int kind : {0, 0, 0, 1, 2, 0}) {
      program_.calls.push_back({kinds[static_cast<std::size_t>(kind)], numbers_.word() >> 20});
    }
  }

  std::vector<Call> different_calls() const {
    std::vector<Call> found;
    for (const Call& call : program_.calls) {
      if (std::ranges::none_of(found, [&](const Call& c) { return c.sizes == call.sizes; }))
        found.push_back(call);
    }
    return found;
  }

  void make_inputs() {
    program_.gradients = numbers_.pick(
        std::vector{Gradients::none, Gradients::inside, Gradients::step, Gradients::outside});
    const bool differentiated = program_.gradients != Gradients::none;
    const auto count = numbers_.between(1, 4);
    for (int i = 0; i < count; ++i) {
      Input input;
      std::vector<DType> others{f64, f64, i64, i64, i32, boolean, boolean, f16, bf16, u8, i8, i16};
      if (is_wide(program_.seed)) others.insert(others.end(), {c64, c64, c128});
      input.dtype = numbers_.chance(differentiated ? 75 : 45) ? f32 : numbers_.pick(others);
      const auto rank =
          numbers_.pick(is_wide(program_.seed) ? std::vector{1, 1, 2, 2, 2, 3, 3, 3, 4, 4}
                                               : std::vector{0, 1, 1, 2, 2, 2, 2, 3, 3, 4});
      for (int axis = 0; axis < rank; ++axis) {
        // Fixed sizes are small, those of a call's dimensions vary.
        input.shape.push_back(numbers_.chance(60)   ? ~static_cast<int>(numbers_.below(3))
                              : numbers_.chance(10) ? 1
                                                    : static_cast<int>(numbers_.between(2, 5)));
      }
      // Many functions take tensors of one type.
      if (is_wide(program_.seed) && i > 0 && numbers_.chance(40)) {
        const Input& other = numbers_.pick(program_.inputs);
        input.dtype = other.dtype;
        input.shape = other.shape;
      }
      if (large_ && rank > 2) input.shape.resize(2);
      input.captured = numbers_.chance(35);
      if (input.captured) fix_sizes(input);
      input.requires_grad = differentiated &&
                            (is_floating(input.dtype) || is_complex(input.dtype)) &&
                            numbers_.chance(70);
      input.order = numbers_.pick(std::vector{Order::row_major, Order::row_major, Order::row_major,
                                              Order::transposed, Order::stepped});
      input.content =
          numbers_.pick(std::vector{Content::ordinary, Content::ordinary, Content::ordinary,
                                    Content::whole, Content::special});
      program_.inputs.push_back(std::move(input));
    }
    if (is_stateful(program_.seed)) add_state();
  }

  /// How inputs are related to each other and to the caller's other tensors, and what the caller
  /// does between the calls.
  void add_state() {
    std::vector<Input>& inputs = program_.inputs;
    if (program_.gradients == Gradients::outside && numbers_.chance(25))
      program_.gradients = Gradients::twice;
    program_.after = numbers_.pick(
        std::vector{After::nothing, After::nothing, After::write_results, After::update});
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      Input& input = inputs[i];
      input.requires_grad =
          input.requires_grad || (is_floating(input.dtype) && numbers_.chance(40));
      input.kept = !input.captured && numbers_.chance(35);
      input.computed = !input.captured && !input.kept && input.requires_grad && numbers_.chance(20);
      if (input.kept) fix_sizes(input);
    }
    if (!numbers_.chance(15)) return;
    const auto of =
        static_cast<std::size_t>(numbers_.below(static_cast<std::int64_t>(inputs.size())));
    Input view = inputs[of];
    view.view_of = static_cast<int>(of);
    view.captured = view.captured && numbers_.chance(50);
    view.kept = view.computed = view.requires_grad = false;
    if (view.shape.size() > 1) std::swap(view.shape.front(), view.shape.back());
    inputs.push_back(std::move(view));
  }

  /// What lives on has one shape.
  void fix_sizes(Input& input) const {
    for (int& size : input.shape) {
      if (size < 0)
        size = static_cast<int>(program_.calls[0].sizes[static_cast<std::size_t>(~size)]);
    }
  }

  int recent() {
    const auto count = static_cast<std::int64_t>(visible_.size());
    const auto back = std::min(numbers_.below(count), numbers_.below(count));
    return visible_[static_cast<std::size_t>(count - 1 - back)];
  }

  /// Adds statements to a body, tried on the values of `where`.
  void fill(Body& body, const std::vector<std::size_t>& where, std::int64_t length, int depth);
  bool statement(Body& body, const std::vector<std::size_t>& where, int depth);
  bool statement_of(const Instruction& op, Body& body, const std::vector<std::size_t>& where,
                    int depth);
  bool works(const Statement& statement, const std::vector<std::size_t>& where);

  /// One of the instructions from `first` to `end`, each as often as its weight says.
  const Instruction& draw_instruction(std::size_t first, std::size_t end) {
    const Instructions& all = instructions();
    int total = 0;
    for (std::size_t i = first; i < end; ++i) total += all[i].weight;
    auto at = static_cast<int>(numbers_.below(total));
    std::size_t i = first;
    while (at >= all[i].weight) at -= all[i++].weight;
    return all[i];
  }
  const Instruction& draw_instruction() {
    const auto [first, end] = special_instructions(program_.seed);
    const bool special = first != end && numbers_.chance(is_wide(program_.seed) ? 60 : 35);
    return special ? draw_instruction(first, end)
                   : draw_instruction(0, special_instructions(0).first);
  }

  Numbers numbers_;
  Program program_;
  bool large_ = false;
  std::vector<int> visible_;
  std::vector<Tensors> tries_;  // for each kind of call, all values
  std::vector<bool> ended_;     // whether a call of that kind has failed
};

class Maker::Draw final : public Draft {
 public:
  Draw(Maker& maker, Statement& statement, const std::vector<std::size_t>& where, int depth)
      : Draft(maker.numbers_), maker_(maker), statement_(statement), where_(where), depth_(depth) {}

  bool input(const Fits& fits) override {
    for (int tries = 0; tries < 12; ++tries) {
      const int value = maker_.recent();
      if (!fits(example_of(value))) continue;
      statement_.in.push_back(value);
      return true;
    }
    return false;
  }
  const Tensor& example(std::size_t i) const override { return example_of(statement_.in[i]); }

  void body(const Tensors& parameters, const std::vector<std::size_t>& like) override {
    Body made;
    const std::size_t seen = maker_.visible_.size();
    for (const Tensor& parameter : parameters) {
      made.parameters.push_back(maker_.program_.values++);
      for (Tensors& values : maker_.tries_)
        values.resize(static_cast<std::size_t>(maker_.program_.values));
      maker_.tries_[where_[0]].back() = parameter;
      maker_.visible_.push_back(made.parameters.back());
    }
    maker_.fill(made, {where_[0]}, numbers.between(0, 4), depth_ - 1);
    for (std::size_t k = 0; k < like.size(); ++k) {
      // The latest value of that type, often; there is one: what went in.
      const Draft::Fits fits = same_type(example(like[k]));
      int result = statement_.in[like[k]];
      for (std::size_t i = maker_.visible_.size(); i-- > seen;) {
        const Tensor& made_here = example_of(maker_.visible_[i]);
        if (fits(made_here) && (result == statement_.in[like[k]] || numbers.chance(30)))
          result = maker_.visible_[i];
      }
      made.results.push_back(result);
    }
    maker_.visible_.resize(seen);
    statement_.bodies.push_back(std::move(made));
  }
  Statement& statement() override { return statement_; }

 private:
  const Tensor& example_of(int value) const {
    return maker_.tries_[where_[0]][static_cast<std::size_t>(value)];
  }

  Maker& maker_;
  Statement& statement_;
  const std::vector<std::size_t>& where_;
  int depth_;
};

void Maker::fill(Body& body, const std::vector<std::size_t>& where, std::int64_t length,
                 int depth) {
  for (std::int64_t made = 0, tries = 0; made < length && tries < 12 * length; ++tries)
    made += statement(body, where, depth) ? 1 : 0;
}

bool Maker::statement(Body& body, const std::vector<std::size_t>& where, int depth) {
  const Instruction& op = draw_instruction();
  // What many wide ones take is seldom drawn.
  for (int tries = op.wide ? 4 : 1; tries > 0; --tries) {
    if (statement_of(op, body, where, depth)) return true;
  }
  return false;
}

bool Maker::statement_of(const Instruction& op, Body& body, const std::vector<std::size_t>& where,
                         int depth) {
  const bool nests = op.form != Form::call && op.form != Form::write;
  if (nests && depth == 0) return false;
  const int before = program_.values;
  const std::size_t seen = visible_.size();
  Statement made;
  made.op = &op;
  made.out.resize(static_cast<std::size_t>(op.outputs));
  Draw draw(*this, made, where, depth);
  if (!op.draft(draw)) {
    program_.values = before;
    visible_.resize(seen);
    return false;
  }
  for (int& out : made.out) out = program_.values++;
  if (!works(made, where)) {
    program_.values = before;
    visible_.resize(seen);
    return false;
  }
  for (const int out : made.out) visible_.push_back(out);
  body.statements.push_back(std::move(made));
  return true;
}

bool Maker::works(const Statement& made, const std::vector<std::size_t>& where) {
  for (const std::size_t one : where) {
    if (ended_[one]) continue;
    Tensors& values = tries_[one];
    values.resize(static_cast<std::size_t>(program_.values));
    try {
      Tensors results = made.op->run(Frame(values, made));
      if (results.size() < made.out.size()) return false;
      for (std::size_t i = 0; i < made.out.size(); ++i) {
        if (!fits_in(results[i], is_wide(program_.seed))) return false;
        values[static_cast<std::size_t>(made.out[i])] = results[i];
      }
    } catch (const Error&) {
      // What fails is a program too, now and then: the same error is to come out of it.
      if (one == 0 || where.size() == 1 || !numbers_.chance(2)) return false;
      ended_[one] = true;
    }
  }
  return true;
}

}  // namespace

Program generate(std::uint64_t seed) {
  manual_seed(seed);
  return Maker(seed).make();
}

}  // namespace dyad::testing
