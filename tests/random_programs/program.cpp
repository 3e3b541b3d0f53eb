#include "program.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "dyad/autograd/grad_mode.h"
#include "dyad/core/create.h"
#include "dyad/ops/ops.h"
#include "instructions.h"

namespace dyad::testing {
namespace {

/// Element number `i` of an input, before it is converted to the input's dtype.
double element(const Input& input, Numbers& numbers) {
  switch (input.content) {
    case Content::whole:
      return static_cast<double>(numbers.between(-3, 4));
    case Content::special:
      if (numbers.chance(40)) {
        const double kinds[] = {0.0,
                                -0.0,
                                1.0,
                                -1.0,
                                std::numeric_limits<double>::infinity(),
                                -std::numeric_limits<double>::infinity(),
                                std::numeric_limits<double>::quiet_NaN(),
                                1e-40,
                                3e38,
                                -7e9};
        return kinds[numbers.below(10)];
      }
      [[fallthrough]];
    case Content::ordinary:
      break;
  }
  // Sixteenths now and then: equal elements, exact sums.
  const double fine = static_cast<double>(numbers.below(1 << 20)) / (1 << 18) - 2;
  return numbers.chance(20) ? std::round(fine * 16) / 16 : fine;
}

}  // namespace

std::uint64_t Numbers::word() noexcept {
  // splitmix64 (Steele, Lea and Flood, 2014)
  std::uint64_t z = state_ += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

Shape shape_of(const Input& input, const Call& call) {
  Shape shape;
  for (const int size : input.shape) {
    shape.push_back(size < 0 ? call.sizes[static_cast<std::size_t>(~size)] : size);
  }
  return shape;
}

Tensor make_input(const Program& program, int index, const Call& call) {
  const Input& input = program.inputs[static_cast<std::size_t>(index)];
  const Shape shape = shape_of(input, call);
  Numbers numbers(call.data * 1000 + static_cast<std::uint64_t>(index));
  const bool pairs = is_complex(input.dtype);
  std::vector<double> values(static_cast<std::size_t>(shape.numel().number()) * (pairs ? 2 : 1));
  for (double& value : values) value = element(input, numbers);
  const NoGrad apart;
  Shape parts = shape;
  if (pairs) parts.push_back(2);
  Tensor made = to(tensor(values, parts), pairs ? real_dtype(input.dtype) : input.dtype);
  if (pairs) made = view_as_complex(made);
  if (input.order == Order::transposed && made.rank() > 1) {
    made = contiguous(transpose(made, 0, -1)).transpose(0, -1);
  } else if (input.order == Order::stepped) {
    made = stack({made, made}, -1).select(-1, 0);
  }
  if (input.requires_grad) made.requires_grad();
  return made;
}

Tensor given_input(const Program& program, int index, const Tensor& made,
                   const std::vector<Tensor>& given) {
  const Input& input = program.inputs[static_cast<std::size_t>(index)];
  if (input.computed) return made * 1.5;
  if (input.view_of < 0) return made;
  const Tensor& of = given[static_cast<std::size_t>(input.view_of)];
  return of.rank() > 1 ? of.detach().transpose(0, -1) : of.detach();
}

namespace {

/// Drops what is dead in a body, of which `live` holds the values that are needed after it.
void drop_dead(Body& body, std::set<int>& live) {
  live.insert(body.results.begin(), body.results.end());
  for (std::size_t i = body.statements.size(); i-- > 0;) {
    Statement& statement = body.statements[i];
    const bool needed = statement.op->form == Form::write || statement.op->form == Form::host_if ||
                        statement.op->form == Form::host_for || statement.op->name == "item" ||
                        std::ranges::any_of(statement.out, [&](int v) { return live.contains(v); });
    if (!needed && statement.bodies.empty()) {
      body.statements.erase(body.statements.begin() + static_cast<std::ptrdiff_t>(i));
      continue;
    }
    // Bodies may be run several times, so what one leaves is needed where it begins.
    for (Body& inner : statement.bodies) drop_dead(inner, live);
    live.insert(statement.in.begin(), statement.in.end());
    for (const Number& number : statement.numbers) {
      if (number.of >= 0) live.insert(number.of);
    }
  }
}

}  // namespace

bool any_statement(const Body& body, const std::function<bool(const Statement&)>& what) {
  return std::ranges::any_of(body.statements, [&](const Statement& one) {
    return what(one) || std::ranges::any_of(one.bodies, [&](const Body& inner) {
             return any_statement(inner, what);
           });
  });
}

void drop_dead_statements(Program& program) {
  std::set<int> live;
  drop_dead(program.body, live);
}

int count_statements(const Body& body) {
  int count = 0;
  for (const Statement& statement : body.statements) {
    ++count;
    for (const Body& inner : statement.bodies) count += count_statements(inner);
  }
  return count;
}

}  // namespace dyad::testing
