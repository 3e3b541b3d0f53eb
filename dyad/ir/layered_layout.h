#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace dyad {

struct Point {
  double x = 0, y = 0;
};

/// Something to place; x, y is its top left corner once placed.
struct LayoutBox {
  double width = 0, height = 0;
  int layer = 0;
  double x = 0, y = 0;
};

/// From the bottom of one box to the top of another in a lower layer. The points of `path` come in
/// pairs: each pair is a straight line down through (the rest of) a layer; between pairs the edge
/// crosses the gap to the next layer.
struct LayoutEdge {
  std::size_t from = 0, to = 0;
  std::vector<Point> path = {};
};

struct Layout {
  std::vector<LayoutBox> boxes;
  std::vector<LayoutEdge> edges;
  double width = 0, height = 0;
};

/// The layer of each of `count` boxes, from 0 at the top: below all boxes that it has edges from,
/// and where that makes edges shorter, close above those that it has edges to. Each edge must lead
/// from a lower number to a higher one.
[[nodiscard]] std::vector<int> layers_of(std::size_t count, std::span<const LayoutEdge> edges);

/// Places boxes of known layers and sizes: few crossings within a layer (median sweeps), then
/// positions close to those of neighbours (least squares under the minimal distances). After
/// Sugiyama, Tagawa and Toda, 1981.
void arrange(Layout& layout);

}  // namespace dyad
