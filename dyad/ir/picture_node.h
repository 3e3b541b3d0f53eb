#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dyad/ir/dot.h"
#include "dyad/ir/value_names.h"

namespace dyad {

/// How a node is coloured: by what it is to a reader.
struct NodeStyle {
  std::string_view kind;  ///< as the legend calls it
  std::string_view fill, line;
};
[[nodiscard]] const NodeStyle& style_of(const Node& node) noexcept;

/// What a picture writes about a node.
struct NodeText {
  std::string title;               ///< the operator, or the name of an input
  std::string value;               ///< `%12`
  std::vector<std::string> lines;  ///< attributes and types
  std::string place;               ///< `train.cpp:41`
  std::string note;
};
[[nodiscard]] NodeText text_of(const Node& node, const ValueNames& names,
                               const PictureOptions& options);

/// How the reader of a variable or constant names it: `w f32[784, 10]`, `2.5`.
[[nodiscard]] std::string leaf_text(const Node& node);
/// True for a variable or constant: shown where it is read, for its edges would cross everything.
[[nodiscard]] bool is_leaf(const Node& node) noexcept;

/// At most `length` characters, the rest as an ellipsis.
[[nodiscard]] std::string shortened(std::string text, std::size_t length);
/// With &, <, > and quotes as entities; characters that XML does not have become spaces.
[[nodiscard]] std::string xml_text(std::string_view text);

}  // namespace dyad
