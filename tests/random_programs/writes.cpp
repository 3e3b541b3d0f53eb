#include "dyad/ops/ops.h"
#include "instructions.h"

// Writes in place, to whatever input 0 is: an argument, a tensor from outside, a view of one.

namespace dyad::testing {

void add_writes(Instructions& list) {
  using F = const Frame&;
  const auto write = [&](std::string name, std::string text, int weight, auto call,
                         std::function<bool(Draft&)> draft) {
    list.push_back({std::move(name), std::move(text), weight,
                    [call](F f) {
                      call(f);
                      return std::vector<Tensor>{};
                    },
                    std::move(draft), 0, Form::write});
  };
  const auto with_value = [](Draft& d) {
    return d.input(any_value) && d.input(broadcasts_with(d.example(0)));
  };
  const auto with_number = [](Draft& d) {
    d.real({0, 1, -0.5, 2});
    return d.input(any_value);
  };
  write("add_", "$0.add_($1)", 5, [](F f) { f[0].add_(f[1]); }, with_value);
  write("mul_", "$0.mul_($1)", 3, [](F f) { f[0].mul_(f[1]); }, with_value);
  write("copy_", "$0.copy_($1)", 6, [](F f) { f[0].copy_(f[1]); }, with_value);
  write("fill_", "$0.fill_(%0)", 4, [](F f) { f[0].fill_(f.real(0)); }, with_number);
  write("mul_number_", "$0.mul_(%0)", 3, [](F f) { f[0].mul_(f.real(0)); }, with_number);
  write("minus_is", "$0 -= $1", 2, [](F f) { f[0] -= f[1]; }, with_value);
}

}  // namespace dyad::testing
