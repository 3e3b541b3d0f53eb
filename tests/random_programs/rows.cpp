#include "rows.h"

#include <cctype>
#include <map>

namespace dyad::testing {
namespace {

/// Where no input is.
Tensor& nothing() {
  static Tensor none;
  return none;
}

bool is_letter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::int64_t size_along(const Tensor& x, int axis) {
  const auto sizes = x.shape().numbers();
  return sizes[static_cast<std::size_t>(axis < 0 ? axis + x.rank() : axis)];
}

}  // namespace

Operands operands_of(const Frame& f) {
  const Statement& statement = f.statement();
  const auto input = [&](std::size_t i) -> Tensor& { return i < f.inputs() ? f[i] : nothing(); };
  const auto whole = [&](std::size_t i) {
    return i < statement.numbers.size() ? f.whole(i) : std::int64_t{0};
  };
  const auto size = [&](std::size_t i) {
    return i < statement.numbers.size() ? f.size(i) : Dim(0);
  };
  const auto real = [&](std::size_t i) { return i < statement.reals.size() ? f.real(i) : 0.0; };
  return {input(0), input(1), input(2), whole(0),   whole(1),  whole(2),        size(0), size(1),
          size(2),  real(0),  real(1),  f.wholes(), f.sizes(), statement.dtype, f.all()};
}

std::string instruction_text(const std::string& code) {
  static const std::map<std::string, std::string> places{
      {"x", "$0"}, {"y", "$1"},      {"z", "$2"},       {"i", "#0"},    {"j", "#1"},
      {"k", "#2"}, {"l", "#0"},      {"m", "#1"},       {"n", "#2"},    {"a", "%0"},
      {"b", "%1"}, {"axes", "{#*}"}, {"sizes", "{#*}"}, {"dtype", "@"}, {"operands", "{$*}"}};
  std::string text;
  for (std::size_t at = 0; at < code.size();) {
    if (code[at] == '"') {
      const std::size_t end = code.find('"', at + 1) + 1;
      text += code.substr(at, end - at);
      at = end;
      continue;
    }
    std::size_t end = at;
    while (end < code.size() && is_letter(code[end])) ++end;
    if (end == at) {
      text += code[at++];
      continue;
    }
    const std::string word = code.substr(at, end - at);
    const auto place = places.find(word);
    const bool member = at > 0 && code[at - 1] == '.';
    text += place == places.end() || member ? word : place->second;
    at = end;
  }
  return text;
}

Rule Rule::operator+(Rule then) const {
  return Rule(
      [first = draw_, second = std::move(then.draw_)](Draft& d) { return first(d) && second(d); });
}

Rule value(int low, int high, const Draft::Fits& fits) {
  return Rule([fits = with_rank(low, high, fits)](Draft& d) { return d.input(fits); });
}

Rule complexes(int low, int high) {
  return value(low, high, [](const Tensor& x) { return is_complex(x.dtype()); });
}

Rule of_dtype(DType dtype, int low, int high) {
  return value(low, high, [dtype](const Tensor& x) { return x.dtype() == dtype; });
}

Rule alike() {
  return Rule([](Draft& d) { return d.input(same_type(d.example(0))); });
}

Rule alike(int low, int high) {
  return Rule([=](Draft& d) {
    return d.input(with_rank(
        low, high, [dtype = d.example(0).dtype()](const Tensor& x) { return x.dtype() == dtype; }));
  });
}

Rule beside(const Draft::Fits& fits) {
  return Rule([fits](Draft& d) { return d.input(broadcasts_with(d.example(0), fits)); });
}

Rule sized(std::vector<int> axes) {
  return Rule([axes = std::move(axes)](Draft& d) {
    const Tensor& of = d.example(0);
    std::vector<std::int64_t> sizes;
    for (const int axis : axes) sizes.push_back(size_along(of, axis));
    return d.input([sizes, dtype = of.dtype()](const Tensor& x) {
      return x.dtype() == dtype && std::ranges::equal(x.shape().numbers(), sizes);
    });
  });
}

Rule convolved(int rank) {
  return floats(rank, rank) + Rule([rank](Draft& d) {
           const Tensor& x = d.example(0);
           return d.input(with_rank(
               rank, rank, [channels = size_along(x, 1), dtype = x.dtype()](const Tensor& w) {
                 return w.dtype() == dtype && size_along(w, 1) == channels;
               }));
         });
}

Rule axis() {
  return Rule([](Draft& d) { return d.axis(); });
}

Rule axes() {
  return Rule([](Draft& d) { return d.axes(); });
}

Rule whole(std::int64_t low, std::int64_t high) {
  return Rule([=](Draft& d) {
    d.whole(low, high);
    return true;
  });
}

Rule size(int axis) {
  return Rule([axis](Draft& d) {
    d.size(0, axis);
    return true;
  });
}

Rule real(std::vector<double> from) {
  return Rule([from = std::move(from)](Draft& d) {
    d.real(from);
    return true;
  });
}

Rule dtypes(std::vector<DType> from) {
  return Rule([from = std::move(from)](Draft& d) {
    d.statement().dtype = d.numbers.pick(from);
    return true;
  });
}

void add_rows(Instructions& list, const std::vector<Row>& rows, const Table& table) {
  for (const Row& row : rows) {
    Instruction& made = list.emplace_back();
    made.name = row.expression.code;
    made.text = instruction_text(row.expression.code);
    made.weight = row.weight;
    made.run = row.expression.run;
    made.draft = row.rule;
    made.outputs = row.expression.outputs;
    made.library = table.library;
    made.picks = table.picks;
  }
}

}  // namespace dyad::testing
