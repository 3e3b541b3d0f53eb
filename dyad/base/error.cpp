#include "dyad/base/error.h"

#include <bit>
#include <cstddef>
#include <string_view>

#include "dyad/base/utf8.h"

namespace dyad {
namespace {

/// The bytes of the character that `text` begins with, if a message may have it.
std::size_t character_length(std::string_view text) {
  return text[0] == '\n' || text[0] == '\t' ? 1 : printable_length(text);
}

/// Names in a message may come from files: what is no text is written as \xff, and of what is
/// longer than anybody reads the middle is left out.
std::string readable(std::string_view message) {
  constexpr std::size_t kBegin = 6000, kEnd = 1000;
  std::string text;
  const auto add = [&](std::string_view part) {
    while (!part.empty()) {
      const std::size_t length = character_length(part);
      if (length > 0) {
        text += part.substr(0, length);
      } else {
        append_escaped(text, part[0]);
      }
      part.remove_prefix(length > 0 ? length : 1);
    }
  };
  if (message.size() <= kBegin + kEnd) {
    add(message);
    return text;
  }
  // Not between the bytes of a character.
  const auto is_inside = [&](std::size_t at) {
    return (static_cast<unsigned char>(message[at]) & 0xC0) == 0x80;
  };
  std::size_t begin = kBegin, end = message.size() - kEnd;
  for (int i = 0; i < 3 && is_inside(begin); ++i) --begin;
  for (int i = 0; i < 3 && is_inside(end); ++i) ++end;
  add(message.substr(0, begin));
  text += "... (" + std::to_string(end - begin) + " bytes) ...";
  add(message.substr(end));
  return text;
}

/// A place, and the name of what stands there, which nodes of models have.
std::string named_place(Loc loc) {
  std::string text = to_string(loc);
  // The compiler gives each of its places a column, Loc::intern none.
  const bool is_interned = std::bit_cast<const LocRecord*>(loc)->column == 0;
  if (is_interned && !loc.function().empty()) {
    text += " (\"" + readable(loc.function()) + "\")";
  }
  return text;
}

std::string with_places(const std::string& message, Loc where, Loc declared) {
  std::string text = message;
  if (where) text += "\n  at " + named_place(where);
  if (declared && !(declared == where)) text += "\n  declared at " + named_place(declared);
  return text;
}

}  // namespace

Error::Error(const std::string& message, Loc where, Loc declared)
    : std::runtime_error(with_places(readable(message), where, declared)),
      message_(readable(message)),
      where_(where),
      declared_(declared) {}

}  // namespace dyad
