#pragma once

#include <functional>
#include <string>

#include "dyad/ir/graph.h"

namespace dyad {

/// What a picture of a graph shows beside its nodes.
struct PictureOptions {
  std::string title = {};
  /// One more line in a node: a time, the kernel it went into.
  std::function<std::string(const Node&)> note = {};
  /// Where a node comes from; its source line, unless this is set.
  std::function<std::string(const Node&)> place = {};
  std::size_t max_nodes = 1000;  ///< later nodes are counted, not shown
  /// Put before the ids of the SVG's elements, so that several pictures fit on one page.
  std::string id_prefix = "g";
};

/// The graph in Graphviz's DOT language, regions as clusters.
[[nodiscard]] std::string to_dot(const GraphImpl& graph, const PictureOptions& options = {});

/// The graph as an SVG picture that needs nothing else: values flow down; each node shows its
/// operator, attributes, types and source line, and in small boxes the variables, constants and far
/// values that it reads. Ready to be put into an HTML page.
[[nodiscard]] std::string to_svg(const GraphImpl& graph, const PictureOptions& options = {});

}  // namespace dyad
