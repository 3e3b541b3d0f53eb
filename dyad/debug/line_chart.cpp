#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "dyad/debug/html_report.h"

namespace dyad::debug {
namespace {

constexpr double kWidth = 760, kHeight = 300, kLeft = 56, kRight = 16, kTop = 30, kBottom = 40,
                 kLegend = 12;
constexpr std::array<const char*, 6> kColors = {"#2563eb", "#dc2626", "#059669",
                                                "#d97706", "#7c3aed", "#0891b2"};

/// A step of 1, 2 or 5 times a power of ten that divides `range` into about `count` parts.
double nice_step(double range, int count) {
  const double raw = range / count;
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  const double digit = raw / power;
  return power * (digit < 1.5 ? 1 : digit < 3.5 ? 2 : digit < 7.5 ? 5 : 10);
}

struct Scale {
  double low, high, from, to;
  [[nodiscard]] double operator()(double value) const {
    return from + (value - low) / (high - low) * (to - from);
  }
};

}  // namespace

std::string line_chart_svg(std::string_view x_label, std::string_view y_label,
                           const std::vector<Series>& series) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  std::size_t steps = 2;
  for (const Series& line : series) {
    steps = std::max(steps, line.values.size());
    for (const double v : line.values) {
      if (!std::isfinite(v)) continue;
      low = std::min(low, v);
      high = std::max(high, v);
    }
  }
  if (!(low <= high)) low = 0, high = 1;
  if (low == high) high = low + 1;
  const double y_step = nice_step(high - low, 5);
  low = std::floor(low / y_step) * y_step;
  high = std::ceil(high / y_step) * y_step;
  const Scale x{1, static_cast<double>(steps), kLeft, kWidth - kRight};
  const Scale y{low, high, kHeight - kBottom, kTop};

  std::string svg =
      fmt::format("<svg class=\"chart\" viewBox=\"0 0 {} {}\" role=\"img\">", kWidth, kHeight);
  // None where the range is infinite.
  const auto y_ticks = static_cast<int>(std::fmax(-1, std::round((high - low) / y_step)));
  for (int i = 0; i <= y_ticks; ++i) {
    const double tick = low + i * y_step;
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/>"
        "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5:.4g}</text>",
        kLeft, kWidth - kRight, y(tick), kLeft - 6, y(tick) + 4,
        std::abs(tick) < y_step / 1e6 ? 0.0 : tick);
  }
  const double x_step = std::max(1.0, nice_step(static_cast<double>(steps), 8));
  const auto x_ticks = static_cast<int>(static_cast<double>(steps) / x_step);
  for (int i = 1; i <= x_ticks; ++i) {
    const double tick = i * x_step;
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:g}</text>", x(tick),
                       kHeight - kBottom + 16, tick);
  }
  svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                     (kLeft + kWidth - kRight) / 2, kHeight - 8, escape_html(x_label));
  svg += fmt::format(
      "<text transform=\"translate(12 {}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
      (kHeight - kBottom + kTop) / 2, escape_html(y_label));
  for (std::size_t s = 0; s < series.size(); ++s) {
    std::string points;
    for (std::size_t i = 0; i < series[s].values.size(); ++i) {
      const double v = series[s].values[i];
      if (std::isfinite(v))
        points += fmt::format("{:.1f},{:.1f} ", x(static_cast<double>(i + 1)), y(v));
    }
    // Later lines are dashed, so that a line that lies exactly on another can be seen.
    svg +=
        fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.8\"{}/>",
                    points, kColors[s % kColors.size()], s ? " stroke-dasharray=\"6 5\"" : "");
    const double legend_x = kLeft + 120 * static_cast<double>(s);
    svg += fmt::format(
        "<line x1=\"{0}\" x2=\"{1}\" y1=\"{2}\" y2=\"{2}\" stroke=\"{3}\" stroke-width=\"2\"{4}/>"
        "<text x=\"{5}\" y=\"{6}\">{7}</text>",
        legend_x, legend_x + 24, kLegend, kColors[s % kColors.size()],
        s ? " stroke-dasharray=\"6 5\"" : "", legend_x + 30, kLegend + 4,
        escape_html(series[s].name));
  }
  return svg + "</svg>";
}

}  // namespace dyad::debug
