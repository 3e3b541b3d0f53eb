#include "dyad/base/log.h"

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <utility>

namespace dyad {
namespace {

constexpr std::string_view kNames[] = {"debug", "info", "warning", "error"};

int least_level() {
  const char* wanted = std::getenv("DYAD_LOG");
  if (wanted == nullptr) return static_cast<int>(LogLevel::warning);
  if (std::string_view(wanted) == "off") return 4;
  for (int i = 0; i < 4; ++i) {
    if (kNames[i] == wanted) return i;
  }
  return static_cast<int>(LogLevel::warning);
}

struct Sink {
  std::mutex mutex;
  std::function<void(LogLevel, std::string_view)> function;
};
Sink& the_sink() {
  static Sink instance;
  return instance;
}

}  // namespace

void log(LogLevel level, std::string_view text) {
  Sink& s = the_sink();
  const std::lock_guard lock(s.mutex);
  if (s.function) return s.function(level, text);
  static const int least = least_level();
  if (static_cast<int>(level) < least) return;
  const std::string_view name = kNames[static_cast<int>(level)];
  static_cast<void>(std::fprintf(stderr, "dyad %.*s: %.*s\n", static_cast<int>(name.size()),
                                 name.data(), static_cast<int>(text.size()), text.data()));
}

void set_log_sink(std::function<void(LogLevel, std::string_view)> sink) {
  Sink& s = the_sink();
  const std::lock_guard lock(s.mutex);
  s.function = std::move(sink);
}

}  // namespace dyad
