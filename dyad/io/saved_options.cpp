#include "dyad/io/saved_options.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>

namespace dyad::io {
namespace {

using nlohmann::json;

Buckets load_buckets(const JsonValue& from) {
  Buckets made;
  made.axis = {.argument = from.whole<int>("argument"), .axis = from.whole<int>("axis")};
  if (made.axis.argument < 0) from.at("argument").fail("the position of an argument");
  for (const JsonValue& size : from.list("sizes"))
    made.sizes.push_back(size.as_whole<std::int64_t>("sizes"));
  const auto not_rising = std::ranges::adjacent_find(made.sizes, std::greater_equal<>());
  if (made.sizes.empty() || made.sizes.front() < 2 || not_rising != made.sizes.end())
    from.at("sizes").fail("sizes of 2 or more, the smallest first");
  return made;
}

}  // namespace

json save_options(const CompileOptions& options) {
  json buckets = json::array();
  for (const Buckets& one : options.buckets) {
    buckets.push_back(
        {{"argument", one.axis.argument}, {"axis", one.axis.axis}, {"sizes", one.sizes}});
  }
  return {{"name", options.name},
          {"fast_math", options.fast_math},
          {"memory_limit", options.memory_limit},
          {"hot_calls", options.hot_calls},
          {"buckets", std::move(buckets)}};
}

CompileOptions load_options(const JsonValue& from) {
  CompileOptions options{.name = from.text("name"), .fast_math = from.boolean("fast_math")};
  const auto number = [&](const char* key, auto& option) {
    if (!from.has(key)) return;  // in files of earlier versions
    option = from.whole<std::remove_reference_t<decltype(option)>>(key);
    if (option < 0) from.at(key).fail("0 or more for '" + std::string(key) + "'");
  };
  number("memory_limit", options.memory_limit);
  number("hot_calls", options.hot_calls);
  if (from.has("buckets")) {
    for (const JsonValue& one : from.list("buckets")) options.buckets.push_back(load_buckets(one));
  }
  return options;
}

}  // namespace dyad::io
