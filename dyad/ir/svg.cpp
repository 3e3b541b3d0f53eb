#include <algorithm>
#include <charconv>
#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "dyad/ir/dot.h"
#include "dyad/ir/layered_layout.h"
#include "dyad/ir/picture_node.h"

namespace dyad {
namespace {

constexpr int kFarLayers = 6;  // an edge over more layers is written, not drawn
constexpr std::size_t kMostChips = 5;
constexpr double kMargin = 18, kPadding = 9;
constexpr double kTitleSize = 13, kLineStep = 14, kChipHeight = 16;

/// Widths of text, which only a browser knows exactly: those of common fonts, a little rounded up.
double characters(std::string_view utf8) {
  return static_cast<double>(
      std::ranges::count_if(utf8, [](char c) { return (c & 0xC0) != 0x80; }));
}
double title_width(std::string_view text) { return 7.9 * characters(text); }
double line_width(std::string_view text) { return 6.4 * characters(text); }

std::string number(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value, std::chars_format::fixed, 1).ptr;
  return std::string(text, end);
}

/// A piece of picture in its own coordinates.
struct Fragment {
  std::string body;
  double width = 0, height = 0;
};

/// A small box in a node: a value that it reads without an edge.
struct Chip {
  std::string text;
  const NodeStyle* style = nullptr;  // null: a value made far above
  const Node* target = nullptr;
};

/// A node and what is drawn in its box.
struct Box {
  const Node* node = nullptr;
  NodeText text;
  std::vector<Chip> chips;
  std::string output;  // `output 0, output 2`
  std::vector<Fragment> regions;
  double width = 0, height = 0;
};

constexpr std::string_view kCss = R"(<style>
.dyad-graph text{font:10.5px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;fill:#333a45}
.dyad-graph .op{font:600 13px system-ui,'DejaVu Sans',Arial,sans-serif;fill:#1b212b}
.dyad-graph .head{font:600 16px system-ui,'DejaVu Sans',Arial,sans-serif;fill:#1b212b}
.dyad-graph .dim{fill:#7a828f}
.dyad-graph .note{fill:#a3242b;font-weight:600}
.dyad-graph .edge{fill:none;stroke:#8c95a4;stroke-width:1.3}
.dyad-graph .tip{fill:#8c95a4}
.dyad-graph a:hover rect{stroke-width:2}
</style>
)";

class SvgWriter {
 public:
  explicit SvgWriter(const PictureOptions& options) : options_(options) {}

  std::string write(const GraphImpl& graph) {
    const Fragment picture = draw(graph);
    const double title = options_.title.empty() ? 0 : 26;
    const std::string legend = draw_legend(kMargin + title);
    const double head = kMargin + title + 12 + kMargin;
    const double width =
        std::max({picture.width, title_width(options_.title) * 1.25, legend_width_}) + 2 * kMargin;
    const double height =
        head + picture.height + kMargin + (left_out_ > 0 ? kLineStep + kMargin : 0);
    std::string svg = "<svg class=\"dyad-graph\" xmlns=\"http://www.w3.org/2000/svg\" width=\"" +
                      number(width) + "\" height=\"" + number(height) + "\" viewBox=\"0 0 " +
                      number(width) + " " + number(height) + "\">\n";
    svg += kCss;
    svg += rect(0, 0, width, height, 0, "#ffffff", "none", 0) + "\n";
    if (!options_.title.empty()) {
      svg += text(kMargin, kMargin + 14, "head", options_.title);
    }
    svg += moved(picture.body, (width - picture.width) / 2, head);
    svg += legend;
    if (left_out_ > 0) {
      svg += text(kMargin, height - kMargin, "dim",
                  std::to_string(left_out_) + " more nodes are not shown");
    }
    return svg + "</svg>\n";
  }

 private:
  Fragment draw(const GraphImpl& graph) {
    const ValueNames names(graph);
    std::vector<Box> boxes = make_boxes(graph, names);
    std::unordered_map<const Node*, std::size_t> index;
    for (std::size_t i = 0; i < boxes.size(); ++i) index.emplace(boxes[i].node, i);

    Layout layout;
    const std::vector<LayoutEdge> edges = edges_between(boxes, index);
    const std::vector<int> layers = layers_of(boxes.size(), edges);
    for (const LayoutEdge& edge : edges) {
      if (layers[edge.to] - layers[edge.from] <= kFarLayers) {
        layout.edges.push_back(edge);
      } else {
        const Node& source = *boxes[edge.from].node;
        boxes[edge.to].chips.push_back({"↑ " + names(Value{const_cast<Node*>(&source), 0}) + " " +
                                            std::string(source.op().name),
                                        nullptr, &source});
      }
    }
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      measure(boxes[i]);
      layout.boxes.push_back(
          {.width = boxes[i].width, .height = boxes[i].height, .layer = layers[i]});
    }
    arrange(layout);

    Fragment picture{.body = {}, .width = layout.width, .height = layout.height};
    for (const LayoutEdge& edge : layout.edges) picture.body += draw_edge(edge);
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      picture.body += draw_box(boxes[i], layout.boxes[i], names);
    }
    return picture;
  }

  std::vector<Box> make_boxes(const GraphImpl& graph, const ValueNames& names) {
    std::unordered_set<const Node*> read;
    for (const auto& node : graph.nodes()) {
      for (const Value& input : node->inputs()) read.insert(input.node);
    }
    std::unordered_map<const Node*, std::string> outputs;
    for (std::size_t i = 0; i < graph.outputs().size(); ++i) {
      std::string& text = outputs[graph.outputs()[i].node];
      text += (text.empty() ? "output " : ", ") + std::to_string(i);
    }
    std::vector<Box> boxes;
    for (const auto& node : graph.nodes()) {
      if (is_leaf(*node) && read.contains(node.get()) && !outputs.contains(node.get())) continue;
      if (shown_ >= options_.max_nodes) {
        ++left_out_;
        continue;
      }
      ++shown_;
      Box box{.node = node.get(),
              .text = text_of(*node, names, options_),
              .chips = {},
              .output = {},
              .regions = {}};
      if (const auto it = outputs.find(node.get()); it != outputs.end()) box.output = it->second;
      for (const auto& region : node->regions()) box.regions.push_back(draw(*region));
      kinds_.emplace(style_of(*node).kind, &style_of(*node));
      boxes.push_back(std::move(box));
    }
    return boxes;
  }

  /// Edges between boxes, each pair once; a variable or constant without a box becomes a chip.
  std::vector<LayoutEdge> edges_between(std::vector<Box>& boxes,
                                        const std::unordered_map<const Node*, std::size_t>& index) {
    std::vector<LayoutEdge> edges;
    for (std::size_t to = 0; to < boxes.size(); ++to) {
      std::unordered_set<const Node*> seen;
      for (const Value& input : boxes[to].node->inputs()) {
        if (!input || !seen.insert(input.node).second) continue;
        if (const auto from = index.find(input.node); from != index.end()) {
          edges.push_back({.from = from->second, .to = to});
        } else {
          boxes[to].chips.push_back({leaf_text(*input.node), &style_of(*input.node), nullptr});
          kinds_.emplace(style_of(*input.node).kind, &style_of(*input.node));
        }
      }
    }
    return edges;
  }

  static void measure(Box& box) {
    if (box.chips.size() > kMostChips) {
      const std::size_t more = box.chips.size() - (kMostChips - 1);
      box.chips.resize(kMostChips - 1);
      box.chips.push_back({"and " + std::to_string(more) + " more", nullptr, nullptr});
    }
    double width = title_width(box.text.title);
    if (!box.text.value.empty()) width += 14 + line_width(box.text.value);
    for (const std::string& line : box.text.lines) width = std::max(width, line_width(line));
    width = std::max({width, line_width(box.text.place), line_width(box.text.note),
                      line_width(box.output) + 8, 64.0});
    for (const Chip& chip : box.chips) width = std::max(width, line_width(chip.text) + 8);
    double height = kPadding * 2 + kTitleSize;
    height += kLineStep * static_cast<double>(box.text.lines.size() + !box.text.place.empty() +
                                              !box.text.note.empty());
    height += (kChipHeight + 3) * static_cast<double>(box.chips.size());
    if (!box.output.empty()) height += kChipHeight + 5;
    double regions_width = 0, regions_height = 0;
    for (const Fragment& region : box.regions) {
      regions_width += region.width + 3 * kPadding;
      regions_height = std::max(regions_height, region.height + 4 * kPadding);
    }
    box.width = std::max(width, regions_width - kPadding) + 2 * kPadding;
    box.height = height + regions_height;
  }

  std::string draw_box(const Box& box, const LayoutBox& at, const ValueNames& names) {
    const NodeStyle& style = style_of(*box.node);
    const double radius = style.kind == "input" ? 14 : 5;
    std::string svg = "<g id=\"" + id(*box.node) + "\"><title>" + xml_text(tooltip(box, names)) +
                      "</title>" +
                      rect(at.x, at.y, at.width, at.height, radius, style.fill, style.line,
                           box.output.empty() ? 1.2 : 2.4);
    double y = at.y + kPadding;
    const double left = at.x + kPadding;
    for (const Chip& chip : box.chips) {
      svg += draw_chip(chip, left, y);
      y += kChipHeight + 3;
    }
    y += kTitleSize - 2;
    svg += text(left, y, "op", box.text.title);
    if (!box.text.value.empty()) {
      svg +=
          text(at.x + at.width - kPadding - line_width(box.text.value), y, "dim", box.text.value);
    }
    const auto line = [&](std::string_view css, const std::string& content) {
      if (content.empty()) return;
      y += kLineStep;
      svg += text(left, y, css, content);
    };
    for (const std::string& content : box.text.lines) line("", content);
    line("dim", box.text.place);
    line("note", box.text.note);
    y += kPadding;
    double x = left;
    double lowest = y;
    for (const Fragment& region : box.regions) {
      svg += rect(x, y, region.width + 2 * kPadding, region.height + 2 * kPadding, 4, "#ffffff",
                  style.line, 0.8);
      svg += moved(region.body, x + kPadding, y + kPadding);
      x += region.width + 3 * kPadding;
      lowest = std::max(lowest, y + region.height + 3 * kPadding);
    }
    if (!box.output.empty()) {
      svg += rect(left - 4, lowest, line_width(box.output) + 8, kChipHeight, 8, style.line,
                  style.line, 1);
      svg += "<text x=\"" + number(left) + "\" y=\"" + number(lowest + 11.5) +
             "\" style=\"fill:#fff\">" + xml_text(box.output) + "</text>";
    }
    return svg + "</g>\n";
  }

  std::string draw_chip(const Chip& chip, double x, double y) {
    std::string svg = rect(x - 3, y, line_width(chip.text) + 8, kChipHeight, 8,
                           chip.style ? chip.style->fill : "#ffffff",
                           chip.style ? chip.style->line : "#aab1bd", 0.9) +
                      text(x + 1, y + 11.5, chip.style ? "" : "dim", chip.text);
    if (chip.target == nullptr) return svg;
    return "<a href=\"#" + id(*chip.target) + "\">" + svg + "</a>";
  }

  std::string draw_edge(const LayoutEdge& edge) {
    std::string path = "M" + point(edge.path[0]);
    for (std::size_t i = 1; i < edge.path.size(); ++i) {
      const Point a = edge.path[i - 1], b = edge.path[i];
      if (i % 2 == 1) {
        path += "L" + point(b);
      } else {
        const double middle = (a.y + b.y) / 2;
        path += "C" + point({a.x, middle}) + " " + point({b.x, middle}) + " " + point(b);
      }
    }
    const Point end = edge.path.back();
    return "<path class=\"edge\" d=\"" + path + "\"/><path class=\"tip\" d=\"M" + point(end) +
           "l-3.6 -6.5h7.2z\"/>\n";
  }

  std::string draw_legend(double y) {
    std::string svg;
    double x = kMargin;
    for (const auto& [kind, style] : kinds_) {
      svg += rect(x, y, 12, 12, 3, style->fill, style->line, 1.2);
      svg += text(x + 17, y + 10, "dim", kind);
      x += 17 + line_width(kind) + 18;
    }
    legend_width_ = x - kMargin;
    return svg;
  }

  static std::string tooltip(const Box& box, const ValueNames& names) {
    const Node& node = *box.node;
    std::string all = (node.types().empty() ? "" : names.of_outputs(node) + " = ") +
                      std::string(node.op().name) + "(";
    for (std::size_t i = 0; i < node.inputs().size(); ++i) {
      all += (i ? ", " : "") + (node.inputs()[i] ? names(node.inputs()[i]) : "none");
    }
    all += ")";
    if (name_of(node) == nullptr && !is_leaf(node)) {
      const std::string attrs = to_string(node.attrs().info(), node.attrs().data());
      if (!attrs.empty()) all += " " + attrs;
    }
    for (std::size_t i = 0; i < node.types().size(); ++i) {
      all += (i ? ", " : " : ") + to_string(node.types()[i]);
    }
    if (node.loc()) all += "\n" + to_string(node.loc());
    return all;
  }

  std::string id(const Node& node) {
    const auto it = ids_.try_emplace(&node, ids_.size()).first;
    return xml_text(options_.id_prefix) + "-n" + std::to_string(it->second);
  }

  static std::string point(Point p) { return number(p.x) + " " + number(p.y); }
  static std::string moved(const std::string& body, double x, double y) {
    return "<g transform=\"translate(" + number(x) + " " + number(y) + ")\">\n" + body + "</g>\n";
  }
  static std::string text(double x, double y, std::string_view css, std::string_view content) {
    return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\"" +
           (css.empty() ? "" : " class=\"" + std::string(css) + "\"") + ">" + xml_text(content) +
           "</text>";
  }
  static std::string rect(double x, double y, double width, double height, double radius,
                          std::string_view fill, std::string_view line, double line_width) {
    return "<rect x=\"" + number(x) + "\" y=\"" + number(y) + "\" width=\"" + number(width) +
           "\" height=\"" + number(height) + "\" rx=\"" + number(radius) + "\" fill=\"" +
           std::string(fill) + "\" stroke=\"" + std::string(line) + "\" stroke-width=\"" +
           number(line_width) + "\"/>";
  }

  const PictureOptions& options_;
  std::map<std::string_view, const NodeStyle*> kinds_;  // those that the picture has
  std::unordered_map<const Node*, std::size_t> ids_;
  std::size_t shown_ = 0, left_out_ = 0;
  double legend_width_ = 0;
};

}  // namespace

std::string to_svg(const GraphImpl& graph, const PictureOptions& options) {
  return SvgWriter(options).write(graph);
}

}  // namespace dyad
