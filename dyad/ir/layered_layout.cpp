#include "dyad/ir/layered_layout.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

namespace dyad {
namespace {

constexpr double kBoxGap = 22;    // between boxes of one layer
constexpr double kLineGap = 12;   // around an edge that passes a layer
constexpr double kLayerGap = 34;  // between layers

/// A box, or the place where an edge passes a layer.
struct Item {
  int layer = 0;
  double width = 0;
  bool is_line = false;
  double x = 0;  // centre
  std::vector<std::size_t> above, below;
};

/// The layers, from top to bottom.
struct Bands {
  std::vector<double> tops, heights;
};

/// Places one connected part from left to right; what it takes in each layer is known then, and
/// `finish` moves it beside the other parts.
class Part {
 public:
  explicit Part(Layout layout) : layout_(std::move(layout)) {
    make_items();
    order();
    place_across();
  }

  /// Leftmost and rightmost of each of its layers; left > right where it has none.
  [[nodiscard]] std::vector<std::pair<double, double>> extents() const {
    std::vector<std::pair<double, double>> all;
    for (const Row& row : rows_) {
      double left = std::numeric_limits<double>::max(), right = -left;
      for (const std::size_t item : row) {
        left = std::min(left, items_[item].x - items_[item].width / 2);
        right = std::max(right, items_[item].x + items_[item].width / 2);
      }
      all.emplace_back(left, right);
    }
    return all;
  }

  const Layout& finish(double shift, const Bands& bands) {
    for (Item& item : items_) item.x += shift;
    for (std::size_t i = 0; i < layout_.boxes.size(); ++i) {
      LayoutBox& box = layout_.boxes[i];
      const auto row = static_cast<std::size_t>(box.layer);
      box.x = items_[i].x - box.width / 2;
      box.y = bands.tops[row] + (bands.heights[row] - box.height) / 2;
    }
    trace_edges(bands);
    return layout_;
  }

 private:
  using Row = std::vector<std::size_t>;

  void make_items() {
    int last = -1;
    for (const LayoutBox& box : layout_.boxes) {
      items_.push_back({.layer = box.layer, .width = box.width, .above = {}, .below = {}});
      last = std::max(last, box.layer);
    }
    chains_.resize(layout_.edges.size());
    for (std::size_t e = 0; e < layout_.edges.size(); ++e) {
      const LayoutEdge& edge = layout_.edges[e];
      std::size_t previous = edge.from;
      for (int layer = items_[edge.from].layer + 1; layer < items_[edge.to].layer; ++layer) {
        const std::size_t line = items_.size();
        items_.push_back({.layer = layer, .width = 2, .is_line = true, .above = {}, .below = {}});
        chains_[e].push_back(line);
        link(previous, line);
        previous = line;
      }
      link(previous, edge.to);
    }
    rows_.resize(static_cast<std::size_t>(last) + 1);
    for (std::size_t i = 0; i < items_.size(); ++i) row_of(i).push_back(i);
  }

  void link(std::size_t upper, std::size_t lower) {
    items_[upper].below.push_back(lower);
    items_[lower].above.push_back(upper);
  }
  Row& row_of(std::size_t item) { return rows_[static_cast<std::size_t>(items_[item].layer)]; }

  void number_rows() {
    position_.resize(items_.size());
    for (const Row& row : rows_) {
      for (std::size_t i = 0; i < row.size(); ++i) position_[row[i]] = i;
    }
  }

  void order() {
    number_rows();
    // Large pictures get fewer rounds; each costs about one step for every item and edge.
    const int rounds = items_.size() < 4000 ? 16 : 4;
    std::vector<Row> best = rows_;
    std::int64_t fewest = crossings();
    for (int round = 0; round < rounds && fewest > 0; ++round) {
      for (std::size_t i = 1; i < rows_.size(); ++i) sort_row(rows_[i], true);
      for (std::size_t i = rows_.size(); i-- > 1;) sort_row(rows_[i - 1], false);
      if (items_.size() < 4000) swap_neighbours();
      const std::int64_t now = crossings();
      if (now >= fewest) continue;
      fewest = now;
      best = rows_;
    }
    rows_ = std::move(best);
    number_rows();
  }

  void sort_row(Row& row, bool by_above) {
    std::vector<double> key(row.size());
    for (std::size_t i = 0; i < row.size(); ++i) {
      const auto& near = by_above ? items_[row[i]].above : items_[row[i]].below;
      // Without neighbours an item stays about where it is.
      key[i] = near.empty() ? static_cast<double>(i) : median(near);
    }
    std::vector<std::size_t> turn(row.size());
    std::iota(turn.begin(), turn.end(), std::size_t{0});
    std::ranges::stable_sort(turn, {}, [&](std::size_t i) { return key[i]; });
    Row sorted(row.size());
    for (std::size_t i = 0; i < row.size(); ++i) sorted[i] = row[turn[i]];
    row = std::move(sorted);
    for (std::size_t i = 0; i < row.size(); ++i) position_[row[i]] = i;
  }

  double median(const std::vector<std::size_t>& near) const {
    std::vector<std::size_t> at;
    for (const std::size_t item : near) at.push_back(position_[item]);
    std::ranges::sort(at);
    const std::size_t middle = at.size() / 2;
    if (at.size() % 2 == 1) return static_cast<double>(at[middle]);
    return static_cast<double>(at[middle - 1] + at[middle]) / 2;
  }

  std::int64_t pair_crossings(const std::vector<std::size_t>& left,
                              const std::vector<std::size_t>& right) const {
    std::int64_t count = 0;
    for (const std::size_t a : left) {
      for (const std::size_t b : right) count += position_[a] > position_[b];
    }
    return count;
  }

  void swap_neighbours() {
    for (Row& row : rows_) {
      for (std::size_t i = 0; i + 1 < row.size(); ++i) {
        const Item &a = items_[row[i]], &b = items_[row[i + 1]];
        const std::int64_t gain =
            pair_crossings(a.above, b.above) + pair_crossings(a.below, b.below) -
            pair_crossings(b.above, a.above) - pair_crossings(b.below, a.below);
        if (gain <= 0) continue;
        std::swap(row[i], row[i + 1]);
        position_[row[i]] = i;
        position_[row[i + 1]] = i + 1;
      }
    }
  }

  /// Pairs of edges between neighbouring layers that cross, counted by inversions.
  std::int64_t crossings() const {
    std::int64_t total = 0;
    std::vector<std::size_t> ends;
    std::vector<std::int64_t> tree;
    for (std::size_t r = 0; r + 1 < rows_.size(); ++r) {
      ends.clear();
      for (const std::size_t upper : rows_[r]) {
        const std::size_t first = ends.size();
        for (const std::size_t lower : items_[upper].below) ends.push_back(position_[lower]);
        std::sort(ends.begin() + static_cast<std::ptrdiff_t>(first), ends.end());
      }
      tree.assign(rows_[r + 1].size() + 1, 0);
      std::int64_t seen = 0;
      for (const std::size_t end : ends) {
        std::int64_t not_right = 0;
        for (std::size_t i = end + 1; i > 0; i &= i - 1) not_right += tree[i];
        total += seen - not_right;
        ++seen;
        for (std::size_t i = end + 1; i < tree.size(); i += i & (~i + 1)) ++tree[i];
      }
    }
    return total;
  }

  double distance(std::size_t left, std::size_t right) const {
    const Item &a = items_[left], &b = items_[right];
    const double gap = a.is_line || b.is_line ? kLineGap : kBoxGap;
    return (a.width + b.width) / 2 + gap;
  }

  void place_across() {
    for (const Row& row : rows_) {
      double x = 0;
      for (std::size_t i = 0; i < row.size(); ++i) {
        if (i > 0) x += distance(row[i - 1], row[i]);
        items_[row[i]].x = x;
      }
      for (const std::size_t item : row) items_[item].x -= x / 2;
    }
    const int rounds = items_.size() < 4000 ? 30 : 8;
    for (int round = 0; round < rounds; ++round) {
      for (std::size_t i = 1; i < rows_.size(); ++i) fit_row(rows_[i], true, false);
      for (std::size_t i = rows_.size(); i-- > 1;) fit_row(rows_[i - 1], false, true);
    }
    for (int round = 0; round < 4; ++round) {
      for (const Row& row : rows_) fit_row(row, true, true);
    }
    double low = std::numeric_limits<double>::max();
    for (const Item& item : items_) low = std::min(low, item.x - item.width / 2);
    for (Item& item : items_) item.x -= low;
  }

  /// Moves a row's items as near to the mean of their neighbours as the distances between them
  /// allow: least squares, exactly, by pooling items that would overlap (isotonic regression).
  void fit_row(const Row& row, bool by_above, bool by_below) {
    struct Pool {
      double sum, weight;
      std::size_t count;
    };
    std::vector<Pool> pools;
    std::vector<double> offset(row.size());
    for (std::size_t i = 0; i < row.size(); ++i) {
      offset[i] = i == 0 ? 0 : offset[i - 1] + distance(row[i - 1], row[i]);
      const auto [wanted, weight] = pull(items_[row[i]], by_above, by_below);
      pools.push_back({(wanted - offset[i]) * weight, weight, 1});
      while (pools.size() > 1) {
        const Pool &left = pools[pools.size() - 2], &right = pools.back();
        if (left.sum / left.weight <= right.sum / right.weight) break;
        const Pool both{left.sum + right.sum, left.weight + right.weight, left.count + right.count};
        pools.pop_back();
        pools.back() = both;
      }
    }
    std::size_t at = 0;
    for (const Pool& pool : pools) {
      for (std::size_t i = 0; i < pool.count; ++i, ++at) {
        items_[row[at]].x = pool.sum / pool.weight + offset[at];
      }
    }
  }

  /// Where an item's neighbours want it, and how much. Long edges pull hardest: they should run
  /// straight.
  std::pair<double, double> pull(const Item& item, bool by_above, bool by_below) const {
    double sum = 0, weight = 0;
    const auto add = [&](const std::vector<std::size_t>& near) {
      for (const std::size_t other : near) {
        const double w = item.is_line && items_[other].is_line ? 8 : 1;
        sum += w * items_[other].x;
        weight += w;
      }
    };
    if (by_above) add(item.above);
    if (by_below) add(item.below);
    if (weight == 0) return {item.x, 0.05};
    return {sum / weight, weight};
  }

  void trace_edges(const Bands& bands) {
    const std::size_t count = layout_.boxes.size();
    std::vector<std::vector<std::size_t>> out(count), in(count);
    for (std::size_t e = 0; e < layout_.edges.size(); ++e) {
      out[layout_.edges[e].from].push_back(e);
      in[layout_.edges[e].to].push_back(e);
    }
    for (std::size_t b = 0; b < count; ++b) {
      // Ends side by side along the box, in the order of where the edges come from and go to.
      const auto next = [&](std::size_t e, bool down) {
        if (!chains_[e].empty()) return items_[down ? chains_[e].front() : chains_[e].back()].x;
        return items_[down ? layout_.edges[e].to : layout_.edges[e].from].x;
      };
      std::ranges::stable_sort(out[b], {}, [&](std::size_t e) { return next(e, true); });
      std::ranges::stable_sort(in[b], {}, [&](std::size_t e) { return next(e, false); });
    }
    for (std::size_t b = 0; b < count; ++b) {
      for (const std::size_t e : out[b]) {
        LayoutEdge& edge = layout_.edges[e];
        const Point start = port(layout_.boxes[b], out[b], e, true);
        const Point end = port(layout_.boxes[edge.to], in[edge.to], e, false);
        const auto first = static_cast<std::size_t>(layout_.boxes[b].layer);
        const auto last = static_cast<std::size_t>(layout_.boxes[edge.to].layer);
        edge.path = {start, {start.x, bands.tops[first] + bands.heights[first]}};
        for (const std::size_t line : chains_[e]) {
          const auto row = static_cast<std::size_t>(items_[line].layer);
          edge.path.push_back({items_[line].x, bands.tops[row]});
          edge.path.push_back({items_[line].x, bands.tops[row] + bands.heights[row]});
        }
        edge.path.insert(edge.path.end(), {{end.x, bands.tops[last]}, end});
      }
    }
  }

  static Point port(const LayoutBox& box, const std::vector<std::size_t>& edges, std::size_t e,
                    bool bottom) {
    const auto at = static_cast<double>(std::ranges::find(edges, e) - edges.begin());
    const auto last = static_cast<double>(edges.size() - 1);
    const double step = std::min(14.0, box.width / (last + 2));
    return {box.x + box.width / 2 + (at - last / 2) * step, bottom ? box.y + box.height : box.y};
  }

  Layout layout_;
  std::vector<Item> items_;  // the boxes first
  std::vector<std::vector<std::size_t>> chains_;
  std::vector<Row> rows_;
  std::vector<std::size_t> position_;
};

/// The boxes of each connected part.
std::vector<std::vector<std::size_t>> parts_of(const Layout& layout) {
  std::vector<std::size_t> parent(layout.boxes.size());
  std::iota(parent.begin(), parent.end(), std::size_t{0});
  const auto root = [&](std::size_t i) {
    while (parent[i] != i) i = parent[i] = parent[parent[i]];
    return i;
  };
  for (const LayoutEdge& edge : layout.edges) parent[root(edge.from)] = root(edge.to);
  std::vector<std::vector<std::size_t>> by_root(layout.boxes.size());
  for (std::size_t i = 0; i < layout.boxes.size(); ++i) by_root[root(i)].push_back(i);
  std::erase_if(by_root, [](const auto& part) { return part.empty(); });
  std::ranges::stable_sort(by_root, std::greater(), [](const auto& part) { return part.size(); });
  return by_root;
}

Bands bands_of(const Layout& layout) {
  Bands bands;
  for (const LayoutBox& box : layout.boxes) {
    const auto row = static_cast<std::size_t>(box.layer);
    if (row >= bands.heights.size()) bands.heights.resize(row + 1, 0);
    bands.heights[row] = std::max(bands.heights[row], box.height);
  }
  double y = 0;
  for (const double height : bands.heights) {
    bands.tops.push_back(y);
    y += height + kLayerGap;
  }
  return bands;
}

}  // namespace

std::vector<int> layers_of(std::size_t count, std::span<const LayoutEdge> edges) {
  std::vector<std::vector<std::size_t>> out(count);
  std::vector<int> layers(count, 0), in_count(count, 0);
  for (const LayoutEdge& edge : edges) {
    out[edge.from].push_back(edge.to);
    ++in_count[edge.to];
  }
  for (std::size_t i = 0; i < count; ++i) {
    for (const std::size_t to : out[i]) layers[to] = std::max(layers[to], layers[i] + 1);
  }
  for (std::size_t i = count; i-- > 0;) {
    if (out[i].empty() || static_cast<int>(out[i].size()) < in_count[i]) continue;
    int lowest = std::numeric_limits<int>::max();
    for (const std::size_t to : out[i]) lowest = std::min(lowest, layers[to] - 1);
    layers[i] = lowest;
  }
  std::vector<int> used = layers;
  std::ranges::sort(used);
  used.erase(std::ranges::unique(used).begin(), used.end());
  for (int& layer : layers) {
    layer = static_cast<int>(std::ranges::lower_bound(used, layer) - used.begin());
  }
  return layers;
}

void arrange(Layout& layout) {
  const Bands bands = bands_of(layout);
  layout.width = 0;
  layout.height = bands.tops.empty() ? 0 : bands.tops.back() + bands.heights.back();

  std::vector<std::vector<std::size_t>> edges_from(layout.boxes.size());
  for (std::size_t e = 0; e < layout.edges.size(); ++e) {
    edges_from[layout.edges[e].from].push_back(e);
  }
  // Each part goes as far left as the parts before it allow, the largest first.
  std::vector<double> taken(bands.tops.size(), -kBoxGap);
  std::vector<std::size_t> place(layout.boxes.size());
  for (const std::vector<std::size_t>& boxes : parts_of(layout)) {
    Layout alone;
    std::vector<std::size_t> edges;
    for (const std::size_t box : boxes) {
      place[box] = alone.boxes.size();
      alone.boxes.push_back(layout.boxes[box]);
    }
    for (const std::size_t box : boxes) {
      for (const std::size_t e : edges_from[box]) {
        alone.edges.push_back({.from = place[box], .to = place[layout.edges[e].to]});
        edges.push_back(e);
      }
    }
    Part part(std::move(alone));
    const auto extents = part.extents();
    double shift = 0;
    for (std::size_t row = 0; row < extents.size(); ++row) {
      if (extents[row].first > extents[row].second) continue;
      shift = std::max(shift, taken[row] + kBoxGap - extents[row].first);
    }
    for (std::size_t row = 0; row < extents.size(); ++row) {
      taken[row] = std::max(taken[row], extents[row].second + shift);
      layout.width = std::max(layout.width, extents[row].second + shift);
    }
    const Layout& placed = part.finish(shift, bands);
    for (std::size_t i = 0; i < boxes.size(); ++i) layout.boxes[boxes[i]] = placed.boxes[i];
    for (std::size_t i = 0; i < edges.size(); ++i) {
      layout.edges[edges[i]].path = placed.edges[i].path;
    }
  }
}

}  // namespace dyad
