#include "tools/dyad/digit_art.h"

#include <algorithm>
#include <cstddef>

namespace dyad::tool {
namespace {

/// A block for an upper and a lower pixel, each on or off.
const char* block(bool upper, bool lower) {
  return upper ? (lower ? "█" : "▀") : (lower ? "▄" : " ");
}

}  // namespace

std::string draw_digits(const Tensor& images, const std::vector<std::string>& captions) {
  const std::vector<float> pixels = images.to_vector<float>();
  const auto count = static_cast<std::size_t>(images.size(0).value());
  const auto rows = static_cast<std::size_t>(images.size(2).value());
  const auto columns = static_cast<std::size_t>(images.size(3).value());
  const auto on = [&](std::size_t image, std::size_t row, std::size_t column) {
    return row < rows && pixels[(image * rows + row) * columns + column] > 0.4f;
  };
  std::size_t width = columns;
  for (const std::string& caption : captions) width = std::max(width, caption.size());
  width += 2;
  std::string text;
  for (std::size_t row = 0; row < rows; row += 2) {
    text += "  ";
    for (std::size_t image = 0; image < count; ++image) {
      for (std::size_t column = 0; column < columns; ++column)
        text += block(on(image, row, column), on(image, row + 1, column));
      text.append(width - columns, ' ');
    }
    text += '\n';
  }
  text += "  ";
  for (const std::string& caption : captions)
    text += caption + std::string(width - caption.size(), ' ');
  return text + '\n';
}

}  // namespace dyad::tool
