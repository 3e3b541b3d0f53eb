#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <string>

namespace dyad::testing {

/// Calls `read(error)` with the E that `action` throws; fails the test when it throws none, or
/// another.
template <class E, class F, class Read>
std::string text_of_error(F&& action, Read&& read) {
  try {
    action();
  } catch (const E& error) {
    return read(error);
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another exception: " << error.what();
    return "";
  }
  ADD_FAILURE() << "no exception";
  return "";
}

/// The text of the E that `action` throws, with the lines that it names.
template <class E, class F>
std::string message_of(F&& action) {
  return text_of_error<E>(action, [](const E& error) { return std::string(error.what()); });
}

/// The same without the lines.
template <class E, class F>
std::string bare_message_of(F&& action) {
  return text_of_error<E>(action, [](const E& error) { return error.message(); });
}

}  // namespace dyad::testing
