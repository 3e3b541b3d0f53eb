#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "program.h"

namespace dyad::testing {

// C++ of parts of a program.
[[nodiscard]] std::string value_name(int value);
/// `v0, v3`
[[nodiscard]] std::string names(const std::vector<int>& values);
[[nodiscard]] std::string join(const std::vector<std::string>& parts);
[[nodiscard]] std::string dtype_text(DType dtype);
[[nodiscard]] std::string real_text(double x);

/// Writes statements as lines of C++.
class Writer {
 public:
  std::string text;

  void line(const std::string& one) { text += std::string(indent_, ' ') + one + "\n"; }
  void deeper() { indent_ += 2; }
  void back() { indent_ -= 2; }
  void body(const Body& of);

 private:
  void statement(const Statement& one);
  void call(const Statement& one);
  /// A list of results by a call that `inside` completes.
  template <class Inside>
  void results(const Statement& one, const std::string& start, Inside&& inside,
               std::size_t first = 0);
  void function(const Body& of, const std::string& end);
  void parameters(const Body& of, const std::string& from, std::size_t first = 0);
  void loop(const Statement& one);
  void branch(const Statement& one);
  void scan(const Statement& one);
  void give(const std::vector<int>& to, const std::vector<int>& from);
  void host_if(const Statement& one);
  void host_for(const Statement& one);

  std::size_t indent_ = 0;
};

}  // namespace dyad::testing
