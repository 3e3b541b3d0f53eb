#include "dyad/debug/html_report.h"

#include <algorithm>
#include <cstddef>

#include "dyad/io/atomic_file.h"

namespace dyad::debug {
namespace {

constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; --fg: #1f2937; --muted: #6b7280; --bg: #ffffff; --panel: #f8fafc; --line: #e5e7eb; --gone: #fee2e2; --new: #dcfce7; }
@media (prefers-color-scheme: dark) {
  :root { --fg: #e5e7eb; --muted: #9ca3af; --bg: #0f172a; --panel: #1e293b; --line: #334155; --gone: #5b2530; --new: #14462c; }
}
body { font: 15px/1.55 system-ui, sans-serif; color: var(--fg); background: var(--bg); max-width: 980px; margin: 2.5rem auto; padding: 0 1.2rem; }
h1 { font-size: 1.7rem; margin: 0; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem; }
.subtitle, figcaption { color: var(--muted); } figure { margin: 1rem 0; }
table { border-collapse: collapse; margin: .8rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .38rem .9rem; text-align: right; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child, .text { text-align: left; } th { color: var(--muted); font-weight: 600; }
.frame { overflow: hidden; height: 640px; resize: vertical; border: 1px solid var(--line); border-radius: 8px; background: #ffffff; cursor: grab; touch-action: none; }
.frame svg { width: 100%; height: 100%; user-select: none; }
.chart { width: 100%; height: auto; } .chart text { font-size: 11px; fill: var(--muted); } .grid { stroke: var(--line); }
pre { background: var(--panel); border: 1px solid var(--line); border-radius: 8px; padding: .8rem; overflow: auto; font-size: 12.5px; line-height: 1.4; }
summary { cursor: pointer; margin: .4rem 0; }
.diff > * { display: block; width: max-content; min-width: 100%; text-decoration: none; }
.diff del { background: var(--gone); } .diff ins { background: var(--new); } .diff i { color: var(--muted); }
)";

/// A picture starts at the top of its graph, at a scale that can be read; its view box is then what
/// the reader moves and zooms. Without scripts the whole picture is fitted into the frame.
constexpr std::string_view kScript = R"(
for (const frame of document.querySelectorAll('.frame')) {
  const svg = frame.querySelector('svg'), whole = svg.viewBox.baseVal;
  const size = { width: whole.width, height: whole.height };
  const show = box => svg.setAttribute('viewBox', `${box.x} ${box.y} ${box.width} ${box.height}`);
  const shape = frame.clientHeight / frame.clientWidth, width = Math.min(size.width, 1400);
  const first = svg.querySelector('g[id]'), top = first ? first.getBBox() : whole;
  const middle = Math.max(top.x + top.width / 2 - width / 2, 0);
  let box = { x: Math.min(middle, size.width - width), y: 0, width, height: width * shape };
  svg.setAttribute('preserveAspectRatio', 'xMidYMin meet');
  show(box);
  frame.addEventListener('wheel', event => {
    event.preventDefault();
    const factor = Math.min(Math.exp(event.deltaY / 500), 4 * Math.max(size.width, size.height) / box.width);
    const at = frame.getBoundingClientRect();
    const u = (event.clientX - at.left) / at.width, v = (event.clientY - at.top) / at.height;
    box = { x: box.x + box.width * u * (1 - factor), y: box.y + box.height * v * (1 - factor),
            width: box.width * factor, height: box.height * factor };
    show(box);
  }, { passive: false });
  frame.addEventListener('pointermove', event => {
    if (!event.buttons) return;
    box.x -= event.movementX * box.width / frame.clientWidth;
    box.y -= event.movementY * box.height / frame.clientHeight;
    show(box);
  });
}
)";

/// Of what stays the same, lines that are shown before and after each difference.
constexpr std::size_t kContext = 3;
/// Elements of constants make long lines.
constexpr std::size_t kMostOfALine = 400;

std::string shortened(std::string_view line) {
  if (line.size() <= kMostOfALine) return std::string(line);
  std::size_t end = kMostOfALine;
  while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xC0u) == 0x80u) --end;
  return std::string(line.substr(0, end)) + "...";
}

/// Which lines of a difference are shown.
std::vector<bool> near_changes(std::span<const DiffLine> lines) {
  std::vector<bool> shown(lines.size(), false);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].kind == DiffLine::Kind::same) continue;
    const std::size_t from = i - std::min(i, kContext),
                      to = std::min(i + kContext + 1, lines.size());
    std::fill(shown.begin() + static_cast<std::ptrdiff_t>(from),
              shown.begin() + static_cast<std::ptrdiff_t>(to), true);
  }
  // A single line takes no more place than what would be said of it.
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if ((i == 0 || shown[i - 1]) && (i + 1 == lines.size() || shown[i + 1])) shown[i] = true;
  }
  return shown;
}

/// Lines of one kind as one element: browsers are slow with many.
std::string run_of_lines(std::span<const DiffLine> lines) {
  const DiffLine::Kind kind = lines.front().kind;
  const std::string_view tag = kind == DiffLine::Kind::removed ? "del"
                               : kind == DiffLine::Kind::added ? "ins"
                                                               : "span";
  const std::string_view sign = kind == DiffLine::Kind::removed ? "- "
                                : kind == DiffLine::Kind::added ? "+ "
                                                                : "  ";
  std::string html = "<" + std::string(tag) + ">";
  for (const DiffLine& line : lines) {
    if (&line != &lines.front()) html += '\n';
    html.append(sign).append(escape_html(shortened(line.text)));
  }
  return html.append("</").append(tag).append(">");
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

HtmlReport::HtmlReport(std::string_view title, std::string_view subtitle)
    : title_(escape_html(title)) {
  body_ = "<h1>" + title_ + "</h1>\n";
  if (!subtitle.empty()) body_ += "<p class=\"subtitle\">" + escape_html(subtitle) + "</p>\n";
}

void HtmlReport::heading(std::string_view text) { body_ += "<h2>" + escape_html(text) + "</h2>\n"; }

void HtmlReport::paragraph(std::string_view text) { body_ += "<p>" + escape_html(text) + "</p>\n"; }

void HtmlReport::table(const std::vector<std::string>& header,
                       const std::vector<std::vector<std::string>>& rows,
                       std::size_t text_columns) {
  const auto row = [&](const std::vector<std::string>& cells, std::string_view tag) {
    body_ += "<tr>";
    for (std::size_t i = 0; i < cells.size(); ++i) {
      body_.append("<")
          .append(tag)
          .append(i > 0 && i < text_columns ? " class=\"text\">" : ">")
          .append(escape_html(cells[i]))
          .append("</")
          .append(tag)
          .append(">");
    }
    body_ += "</tr>\n";
  };
  body_ += "<table>\n";
  row(header, "th");
  for (const auto& cells : rows) row(cells, "td");
  body_ += "</table>\n";
}

void HtmlReport::chart(std::string_view caption, std::string_view x_label, std::string_view y_label,
                       const std::vector<Series>& series) {
  body_ += "<figure>" + line_chart_svg(x_label, y_label, series) + "<figcaption>" +
           escape_html(caption) + "</figcaption></figure>\n";
}

void HtmlReport::picture(std::string_view caption, std::string_view svg) {
  body_.append("<figure><div class=\"frame\">")
      .append(svg)
      .append("</div><figcaption>")
      .append(escape_html(caption))
      .append(" Drag to move, turn the wheel to zoom.</figcaption></figure>\n");
}

void HtmlReport::preformatted(std::string_view text) {
  body_ += "<pre>" + escape_html(text) + "</pre>\n";
}

void HtmlReport::folded(std::string_view caption, std::string_view text) {
  body_ += "<details><summary>" + escape_html(caption) + "</summary>";
  preformatted(text);
  body_ += "</details>\n";
}

void HtmlReport::difference(std::string_view caption, std::span<const DiffLine> lines) {
  body_ += "<details><summary>" + escape_html(caption) + "</summary><pre class=\"diff\">";
  const std::vector<bool> shown = near_changes(lines);
  for (std::size_t from = 0; from < lines.size();) {
    std::size_t to = from + 1;
    const auto goes_on = [&] {
      return shown[to] == shown[from] && (!shown[from] || lines[to].kind == lines[from].kind);
    };
    while (to < lines.size() && goes_on()) ++to;
    body_ += shown[from] ? run_of_lines(lines.subspan(from, to - from))
                         : "<i>  " + std::to_string(to - from) + " lines as before</i>";
    from = to;
  }
  body_ += "</pre></details>\n";
}

std::string HtmlReport::html() const {
  return "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>" +
         title_ + "</title><style>" + std::string(kStyle) + "</style></head>\n<body>\n" + body_ +
         "<script>" + std::string(kScript) + "</script></body></html>\n";
}

void HtmlReport::save(const std::string& path) const { io::write_file(path, html()); }

}  // namespace dyad::debug
