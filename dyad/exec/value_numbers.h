#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "dyad/ir/graph.h"

namespace dyad::exec {

/// Numbers for the values of graphs whose sizes are known where they are 0 or 1, equal ones for
/// what is the same computed from the same (value numbering). A scan of no step or of one stands
/// for what that does: so a recording that has its loops as nodes can be compared with that of a
/// call which did too few steps to make nodes of them.
class ValueNumbers {
 public:
  /// What is known of a graph.
  class OfGraph {
   public:
    /// Nothing of a value that the graph does not have.
    [[nodiscard]] std::optional<int> find(Value value) const;
    /// How many nodes before a position do what others see, such as to draw random numbers.
    [[nodiscard]] std::size_t effects_before(int position) const;

   private:
    friend class ValueNumbers;
    std::unordered_map<Value, int, ValueHash> numbers_;
    std::vector<int> effects_;  // positions
  };

  /// `sizes`: of the symbols that are 0 or 1.
  explicit ValueNumbers(const SymbolMap& sizes);

  /// Placeholders of one name are one, and so are variables of one tensor. Nothing where the graph
  /// does not do the same as the first one where others see it and order matters, or where that
  /// cannot be told.
  [[nodiscard]] std::optional<OfGraph> add(const GraphImpl& graph);
  /// That of the value without those of its first `axes` axes that have one element.
  [[nodiscard]] int without_ones(int number, int axes);
  /// How many of the first `axes` axes are left then.
  [[nodiscard]] int axes_left(int number, int axes) const;
  /// Whether both are the same operator with the same attributes, whatever it is of.
  [[nodiscard]] bool same_operator(const Node& a, const Node& b) const;

 private:
  static constexpr int kNone = -1;  // of an operand that is not there
  /// What is computed: the same values from the same operands, whoever asks.
  struct Item {
    const OpInfo* op = nullptr;  ///< none: the operand in another shape
    Ref<Attrs> attrs;
    std::vector<int> operands;
    std::vector<Ref<GraphImpl>> regions;
    Types types;
    int first = 0;  ///< number of its first result
  };
  using Numbers = std::vector<int>;

  bool add_nodes(const GraphImpl& graph, OfGraph& known);
  /// What its results are; nothing where that cannot be told.
  [[nodiscard]] std::optional<Numbers> of_node(const Node& node, std::span<const int> operands);
  [[nodiscard]] std::optional<Numbers> of_steps(const Node& scan, std::span<const int> operands,
                                                bool one);
  [[nodiscard]] std::optional<Numbers> of_effect(Item item);
  [[nodiscard]] Numbers of_item(Item item);
  [[nodiscard]] Numbers add_item(Item item);
  [[nodiscard]] static Numbers results_of(const Item& item);
  [[nodiscard]] Item item_of(const Node& node, std::span<const int> operands) const;
  [[nodiscard]] static bool is_same(const Item& a, const Item& b);
  /// What the node's one result is called already, or is another shape of; kNone elsewhere.
  [[nodiscard]] int simplified(const Node& node, std::span<const int> operands, const Type& type);
  [[nodiscard]] int reshaped(int number, const Type& type);
  [[nodiscard]] int without_elements(const Type& type);
  /// Whether it is -0 all over, which added to anything changes no bit.
  [[nodiscard]] bool is_nothing(int number) const;
  [[nodiscard]] const Item& maker(int number) const {
    return items_[makers_[static_cast<std::size_t>(number)]];
  }
  [[nodiscard]] const Type& type_of(int number) const;

  std::function<Dim(Dim)> size_of_;
  std::vector<Item> items_;
  std::vector<std::size_t> makers_;  // of each number
  std::unordered_multimap<std::size_t, std::size_t> known_;
  std::vector<int> empty_;            // what has no elements, one of each type
  std::vector<std::size_t> effects_;  // items of the first graph
  std::size_t next_effect_ = 0;
  bool is_first_ = true;
};

/// Whether a scan of the graph takes no step at these sizes, or one.
[[nodiscard]] bool has_few_steps(const GraphImpl& graph, const SymbolMap& sizes);

}  // namespace dyad::exec
