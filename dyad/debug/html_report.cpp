#include "dyad/debug/html_report.h"

#include "dyad/io/atomic_file.h"

namespace dyad::debug {
namespace {

constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; --fg: #1f2937; --muted: #6b7280; --bg: #ffffff; --panel: #f8fafc; --line: #e5e7eb; }
@media (prefers-color-scheme: dark) {
  :root { --fg: #e5e7eb; --muted: #9ca3af; --bg: #0f172a; --panel: #1e293b; --line: #334155; }
}
body { font: 15px/1.55 system-ui, sans-serif; color: var(--fg); background: var(--bg); max-width: 980px; margin: 2.5rem auto; padding: 0 1.2rem; }
h1 { font-size: 1.7rem; margin: 0; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem; }
.subtitle, figcaption { color: var(--muted); } figure { margin: 1rem 0; }
table { border-collapse: collapse; margin: .8rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .38rem .9rem; text-align: right; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; } th { color: var(--muted); font-weight: 600; }
.frame { overflow: hidden; height: 640px; resize: vertical; border: 1px solid var(--line); border-radius: 8px; background: #ffffff; cursor: grab; touch-action: none; }
.frame svg { width: 100%; height: 100%; user-select: none; }
.chart { width: 100%; height: auto; } .chart text { font-size: 11px; fill: var(--muted); } .grid { stroke: var(--line); }
pre { background: var(--panel); border: 1px solid var(--line); border-radius: 8px; padding: .8rem; overflow: auto; font-size: 12.5px; line-height: 1.4; }
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
                       const std::vector<std::vector<std::string>>& rows) {
  const auto row = [&](const std::vector<std::string>& cells, std::string_view tag) {
    body_ += "<tr>";
    for (const std::string& cell : cells) {
      body_.append("<")
          .append(tag)
          .append(">")
          .append(escape_html(cell))
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

std::string HtmlReport::html() const {
  return "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>" +
         title_ + "</title><style>" + std::string(kStyle) + "</style></head>\n<body>\n" + body_ +
         "<script>" + std::string(kScript) + "</script></body></html>\n";
}

void HtmlReport::save(const std::string& path) const { io::write_file(path, html()); }

}  // namespace dyad::debug
