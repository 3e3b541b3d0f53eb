#include <dyad/core/dtype.h>
#include <dyad/dyad.h>

#include <iostream>

int main() {
  // Kernels of its own: those are compiled when they are first needed.
  const auto twice = dyad::compile([](dyad::Tensor x) { return dyad::exp(x * 2) + x; });
  dyad::Tensor y;
  for (int i = 0; i < 3; ++i) y = twice(dyad::ones({2, 3}));
  std::cout << y << '\n';
  try {
    std::cout << dyad::name_of(dyad::promote(dyad::f32, dyad::i64)) << '\n';
    (void)dyad::parse_dtype("f33");
  } catch (const std::exception& error) {
    std::cout << error.what() << '\n';
    return 0;
  }
  return 1;
}
