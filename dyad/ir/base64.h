#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dyad {

/// Bytes as text (RFC 4648, with padding), and back; nothing for text of another form.
[[nodiscard]] std::string to_base64(std::span<const std::byte> bytes);
[[nodiscard]] std::optional<std::vector<std::byte>> from_base64(std::string_view text);

}  // namespace dyad
