#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dyad {

/// Empty when every tag is closed in turn, attributes are quoted and no bare & or < stands in text.
inline std::string xml_problem(std::string_view text) {
  std::vector<std::string> open;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '&') {
      const auto end = text.find(';', i);
      const std::string_view entity = text.substr(i, end - i + 1);
      if (entity != "&amp;" && entity != "&lt;" && entity != "&gt;" && entity != "&quot;") {
        return "bare &";
      }
    }
    if (text[i] != '<') continue;
    std::size_t end = i + 1;
    for (bool quoted = false; quoted || text[end] != '>'; ++end) {
      if (end + 1 >= text.size()) return "a tag does not end";
      if (text[end] == '"') quoted = !quoted;
      if (quoted && text[end] == '<') return "< in an attribute";
    }
    const std::string_view tag = text.substr(i + 1, end - i - 1);
    if (tag.starts_with('/')) {
      if (open.empty() || open.back() != tag.substr(1)) return "unexpected </" + std::string(tag);
      open.pop_back();
    } else if (!tag.ends_with('/')) {
      open.emplace_back(tag.substr(0, tag.find_first_of(" \n")));
    }
    i = end;
  }
  return open.empty() ? "" : "not closed: " + open.back();
}

}  // namespace dyad
