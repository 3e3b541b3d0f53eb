#include "dyad/io/json_fields.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

namespace dyad::io {
namespace {

using nlohmann::json;

const json& json_at(const void* value) { return *static_cast<const json*>(value); }

}  // namespace

JsonValue JsonValue::parse(const std::string& text) {
  try {
    return of(std::make_shared<const json>(json::parse(text)));
  } catch (const json::exception& error) {
    throw std::invalid_argument(error.what());
  }
}

bool JsonValue::has(const char* key) const {
  const json& value = json_at(value_);
  return value.is_object() && value.contains(key);
}

JsonValue JsonValue::at(const char* key) const {
  if (!has(key)) fail(fmt::format("a member '{}'", key));
  return {document_, &json_at(value_).at(key)};
}

std::vector<JsonValue> JsonValue::items(const char* what) const {
  if (!json_at(value_).is_array()) fail(fmt::format("a list for '{}'", what));
  std::vector<JsonValue> all;
  for (const json& item : json_at(value_)) all.push_back({document_, &item});
  return all;
}

const std::string& JsonValue::as_text(const char* what) const {
  if (!json_at(value_).is_string()) fail(fmt::format("a text for '{}'", what));
  return json_at(value_).get_ref<const std::string&>();
}

bool JsonValue::boolean(const char* key) const {
  const JsonValue found = at(key);
  if (!json_at(found.value_).is_boolean()) found.fail(fmt::format("true or false for '{}'", key));
  return json_at(found.value_).get<bool>();
}

bool JsonValue::is_natural(std::uint64_t& value) const {
  const bool is = json_at(value_).is_number_unsigned();
  if (is) value = json_at(value_).get<std::uint64_t>();
  return is;
}

bool JsonValue::is_negative(std::int64_t& value) const {
  const bool is = json_at(value_).is_number_integer() && !json_at(value_).is_number_unsigned();
  if (is) value = json_at(value_).get<std::int64_t>();
  return is;
}

void JsonValue::fail(std::string_view expected) const {
  constexpr std::size_t kShown = 60;
  const std::string found = json_at(value_).dump(-1, ' ', true, json::error_handler_t::replace);
  throw std::invalid_argument(
      fmt::format("expected {}, found {}", expected, found.substr(0, kShown)));
}

}  // namespace dyad::io
