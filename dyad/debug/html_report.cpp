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
.frame { overflow: auto; max-height: 720px; border: 1px solid var(--line); border-radius: 8px; background: var(--panel); padding: .6rem; }
.chart { width: 100%; height: auto; } .chart text { font-size: 11px; fill: var(--muted); } .grid { stroke: var(--line); }
pre { background: var(--panel); border: 1px solid var(--line); border-radius: 8px; padding: .8rem; overflow: auto; font-size: 12.5px; line-height: 1.4; }
summary { cursor: pointer; color: var(--muted); }
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

void HtmlReport::chart(std::string_view caption, std::string_view y_label,
                       const std::vector<Series>& series) {
  body_ += "<figure>" + line_chart_svg(y_label, series) + "<figcaption>" + escape_html(caption) +
           "</figcaption></figure>\n";
}

void HtmlReport::picture(std::string_view caption, std::string_view svg, bool folded) {
  const std::string text = escape_html(caption);
  const std::string frame = "<div class=\"frame\">" + std::string(svg) + "</div>";
  body_ += folded ? "<details><summary>" + text + "</summary>" + frame + "</details>\n"
                  : "<figure>" + frame + "<figcaption>" + text + "</figcaption></figure>\n";
}

void HtmlReport::preformatted(std::string_view text) {
  body_ += "<pre>" + escape_html(text) + "</pre>\n";
}

std::string HtmlReport::html() const {
  return "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>" +
         title_ + "</title><style>" + std::string(kStyle) + "</style></head>\n<body>\n" + body_ +
         "</body></html>\n";
}

void HtmlReport::save(const std::string& path) const { io::write_file(path, html()); }

}  // namespace dyad::debug
