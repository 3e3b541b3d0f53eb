#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dyad/debug/line_diff.h"

namespace dyad::debug {

/// One line of a chart.
struct Series {
  std::string name;
  std::vector<double> values;  ///< one for each step, from 1 on
};

/// A page to look at in a browser, in one file without anything from outside: text, tables, line
/// charts and pictures, light or dark as the reader's system is.
class HtmlReport {
 public:
  explicit HtmlReport(std::string_view title, std::string_view subtitle = {});

  void heading(std::string_view text);
  void paragraph(std::string_view text);
  /// The first columns hold text and are left-aligned, the others are numbers.
  void table(const std::vector<std::string>& header,
             const std::vector<std::vector<std::string>>& rows, std::size_t text_columns = 1);
  /// Lines over `x_label` (steps, epochs), values that are not finite left out. `caption` tells
  /// what is seen.
  void chart(std::string_view caption, std::string_view x_label, std::string_view y_label,
             const std::vector<Series>& series);
  /// An SVG picture, fitted into a frame in which it is moved by dragging and scaled by the wheel.
  void picture(std::string_view caption, std::string_view svg);
  /// Text as it is, in a fixed-width font.
  void preformatted(std::string_view text);
  /// The same below `caption`, folded until the reader opens it.
  void folded(std::string_view caption, std::string_view text);
  /// Lines that are gone and lines that are new, in colours and with signs, with three lines of
  /// what stays around them; folded. Of lines of more than 400 bytes the rest is left out.
  void difference(std::string_view caption, std::span<const DiffLine> lines);

  /// The page.
  [[nodiscard]] std::string html() const;
  /// Writes the page; IoError when that fails (an old file stays as it is).
  void save(const std::string& path) const;

 private:
  std::string title_;
  std::string body_;
};

/// Text with the characters escaped that HTML gives a meaning.
[[nodiscard]] std::string escape_html(std::string_view text);

/// The line chart that a report shows, as SVG.
[[nodiscard]] std::string line_chart_svg(std::string_view x_label, std::string_view y_label,
                                         const std::vector<Series>& series);

}  // namespace dyad::debug
