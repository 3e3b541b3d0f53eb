#include "dyad/debug/line_diff.h"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace dyad::debug {
namespace {

/// Differences on either side up to which the best way between two sequences is looked for.
constexpr int kMostCost = 1024;

/// E. Myers, "An O(ND) difference algorithm and its variations", in linear space: the ways from the
/// start and those from the end meet in the middle. A way of `c` differences that leads to diagonal
/// d = x - y is known by how far it comes, x.
class Alignment {
 public:
  Alignment(std::span<const int> before, std::span<const int> after)
      : before_(before),
        after_(after),
        partners_(before.size(), -1),
        origin_(static_cast<int>(after.size()) + 1),
        forward_(before.size() + after.size() + 3),
        backward_(forward_.size()) {}

  std::vector<int> find() {
    solve({0, 0}, {static_cast<int>(before_.size()), static_cast<int>(after_.size())});
    return std::move(partners_);
  }

 private:
  struct Point {
    int x, y;
  };

  [[nodiscard]] bool alike(int x, int y) const {
    return before_[static_cast<std::size_t>(x)] == after_[static_cast<std::size_t>(y)];
  }
  int& forward(int diagonal) { return forward_[static_cast<std::size_t>(diagonal + origin_)]; }
  int& backward(int diagonal) { return backward_[static_cast<std::size_t>(diagonal + origin_)]; }

  void solve(Point from, Point to) {
    for (;;) {
      for (; from.x < to.x && from.y < to.y && alike(from.x, from.y); ++from.x, ++from.y)
        partners_[static_cast<std::size_t>(from.x)] = from.y;
      for (; from.x < to.x && from.y < to.y && alike(to.x - 1, to.y - 1); --to.x, --to.y)
        partners_[static_cast<std::size_t>(to.x - 1)] = to.y - 1;
      if (from.x == to.x || from.y == to.y) return;
      const Point middle = meet(from, to);
      solve(from, middle);
      from = middle;
    }
  }

  /// Diagonals that ways have come to.
  struct Reach {
    int low, high;
    /// One difference more: to the next diagonals on both sides, or back from those at the ends.
    void widen(int least, int most, const auto& at, int unreached) {
      if (low > least) {
        at(--low - 1) = unreached;
      } else {
        ++low;
      }
      if (high < most) {
        at(++high + 1) = unreached;
      } else {
        --high;
      }
    }
    [[nodiscard]] bool has(int diagonal) const { return low <= diagonal && diagonal <= high; }
  };

  /// A point that a best way goes through; a good one where these are too long to be found. Neither
  /// the first items nor the last ones are alike.
  Point meet(Point from, Point to) {
    constexpr int kFar = std::numeric_limits<int>::max();
    const int least = from.x - to.y, most = to.x - from.y;
    const int first = from.x - from.y, last = to.x - to.y;
    const bool odd = ((first - last) & 1) != 0;
    Reach ahead{first, first}, back{last, last};
    const auto at_forward = [&](int d) -> int& { return forward(d); };
    const auto at_backward = [&](int d) -> int& { return backward(d); };
    forward(first) = from.x;
    backward(last) = to.x;
    for (int cost = 1;; ++cost) {
      ahead.widen(least, most, at_forward, -1);
      for (int d = ahead.high; d >= ahead.low; d -= 2) {
        int x = std::max(forward(d - 1) + 1, forward(d + 1));
        for (; x < to.x && x - d < to.y && alike(x, x - d);) ++x;
        forward(d) = x;
        if (odd && back.has(d) && backward(d) <= x) return {x, x - d};
      }
      back.widen(least, most, at_backward, kFar);
      for (int d = back.high; d >= back.low; d -= 2) {
        int x = std::min(backward(d - 1), backward(d + 1) - 1);
        for (; x > from.x && x - d > from.y && alike(x - 1, x - d - 1);) --x;
        backward(d) = x;
        if (!odd && ahead.has(d) && x <= forward(d)) return {x, x - d};
      }
      if (cost >= kMostCost) return farthest(ahead, to);
    }
  }

  /// Where the way from the start ends that has come past the most items.
  Point farthest(const Reach& ahead, Point to) {
    Point best{0, 0};
    for (int d = ahead.high; d >= ahead.low; d -= 2) {
      int x = std::min(forward(d), to.x);
      x = std::min(x, to.y + d);
      if (x + x - d > best.x + best.y) best = {x, x - d};
    }
    return best;
  }

  std::span<const int> before_, after_;
  std::vector<int> partners_;
  int origin_;  // where diagonal 0 is
  std::vector<int> forward_, backward_;
};

}  // namespace

std::vector<int> align(std::span<const int> before, std::span<const int> after) {
  return Alignment(before, after).find();
}

}  // namespace dyad::debug
