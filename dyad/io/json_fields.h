#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dyad::io {

/// A part of a JSON text that is read field by field. What is missing or of another kind than it
/// must be is a std::invalid_argument that says what was expected and what was found; readers of
/// files make an IoError of it.
class JsonValue {
 public:
  [[nodiscard]] static JsonValue parse(const std::string& text);
  /// What was parsed already: an nlohmann::json.
  [[nodiscard]] static JsonValue of(std::shared_ptr<const void> document) {
    const void* const top = document.get();
    return {std::move(document), top};
  }

  [[nodiscard]] bool has(const char* key) const;
  [[nodiscard]] JsonValue at(const char* key) const;
  [[nodiscard]] std::vector<JsonValue> list(const char* key) const { return at(key).items(key); }
  [[nodiscard]] std::vector<JsonValue> items(const char* what) const;
  [[nodiscard]] const std::string& text(const char* key) const { return at(key).as_text(key); }
  [[nodiscard]] const std::string& as_text(const char* what) const;
  [[nodiscard]] bool boolean(const char* key) const;
  /// A whole number that T can hold.
  template <class T>
  [[nodiscard]] T whole(const char* key) const {
    return at(key).as_whole<T>(key);
  }
  template <class T>
  [[nodiscard]] T as_whole(const char* what) const {
    std::uint64_t natural = 0;
    std::int64_t negative = 0;
    if (is_natural(natural) && std::in_range<T>(natural)) return static_cast<T>(natural);
    if (is_negative(negative) && std::in_range<T>(negative)) return static_cast<T>(negative);
    fail("a whole number for '" + std::string(what) + "'");
  }
  /// `expected ..., found ...`.
  [[noreturn]] void fail(std::string_view expected) const;

 private:
  JsonValue(std::shared_ptr<const void> document, const void* value)
      : document_(std::move(document)), value_(value) {}
  [[nodiscard]] bool is_natural(std::uint64_t& value) const;
  [[nodiscard]] bool is_negative(std::int64_t& value) const;

  std::shared_ptr<const void> document_;
  const void* value_;
};

}  // namespace dyad::io
