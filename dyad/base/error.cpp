#include "dyad/base/error.h"

namespace dyad {
namespace {

std::string with_places(const std::string& message, Loc where, Loc declared) {
  std::string text = message;
  if (where) text += "\n  at " + to_string(where);
  if (declared && !(declared == where)) text += "\n  declared at " + to_string(declared);
  return text;
}

}  // namespace

Error::Error(const std::string& message, Loc where, Loc declared)
    : std::runtime_error(with_places(message, where, declared)),
      message_(message),
      where_(where),
      declared_(declared) {}

}  // namespace dyad
