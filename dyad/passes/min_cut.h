#pragma once

#include <cstdint>
#include <vector>

namespace dyad::passes {

/// A network of capacities between a source and a sink.
class FlowNetwork {
 public:
  static constexpr std::int64_t kUnlimited = std::int64_t{1} << 60;

  /// Vertices 0 (the source) and 1 (the sink) are there from the start.
  FlowNetwork() : edges_of_(2) {}
  [[nodiscard]] static constexpr int source() noexcept { return 0; }
  [[nodiscard]] static constexpr int sink() noexcept { return 1; }
  int add_vertex();
  /// `capacity` is at least 0.
  void add_edge(int from, int to, std::int64_t capacity);

  /// Finds a cut of least capacity between source and sink, of several the one nearest to the sink,
  /// and says for each vertex whether it is on the sink's side. Once.
  [[nodiscard]] std::vector<bool> sink_side();

 private:
  struct Edge {
    int to;
    std::int64_t left;  ///< capacity that flow does not use yet
  };
  [[nodiscard]] bool find_levels();
  bool push();

  std::vector<Edge> edges_;  // each followed by its reverse
  std::vector<std::vector<int>> edges_of_;
  std::vector<int> level_;
  std::vector<std::size_t> next_;
};

}  // namespace dyad::passes
