#pragma once

#include <functional>
#include <string_view>

namespace dyad {

enum class LogLevel : unsigned char { debug, info, warning, error };

/// Sends a line of text to the sink: by default warnings and errors to standard error, the rest
/// nowhere. DYAD_LOG=debug, info, warning, error or off in the environment changes the least level
/// shown.
void log(LogLevel level, std::string_view text);

/// Replaces the sink; it gets every line of every level and may be called from any thread, one line
/// at a time. An empty function restores the default.
void set_log_sink(std::function<void(LogLevel level, std::string_view text)> sink);

}  // namespace dyad
