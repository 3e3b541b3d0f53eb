#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "dyad/ir/graph.h"

namespace dyad::passes {

/// An attribute of a node by its name; nothing when it has none of that name and kind.
[[nodiscard]] std::optional<std::int64_t> int_attr(const Node& node, std::string_view name);
[[nodiscard]] std::optional<Ints> ints_attr(const Node& node, std::string_view name);
[[nodiscard]] std::optional<double> number_attr(const Node& node, std::string_view name);

/// The attributes of a node, one of them changed.
[[nodiscard]] Ref<Attrs> with_attr(const Node& node, std::string_view name, std::int64_t value);
[[nodiscard]] Ref<Attrs> with_attr(const Node& node, std::string_view name, const Ints& value);
[[nodiscard]] Ref<Attrs> with_attr(const Node& node, std::string_view name, const Shape& value);

}  // namespace dyad::passes
