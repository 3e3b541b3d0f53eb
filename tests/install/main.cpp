#include <dyad/core/dtype.h>

#include <iostream>

int main() {
  try {
    std::cout << dyad::name_of(dyad::promote(dyad::f32, dyad::i64)) << '\n';
    (void)dyad::parse_dtype("f33");
  } catch (const std::exception& error) {
    std::cout << error.what() << '\n';
    return 0;
  }
  return 1;
}
