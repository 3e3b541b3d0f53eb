#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dyad/ir/graph.h"

namespace dyad {

/// Writes the text forms of graphs that are kept together, with what they share beside them: the
/// tensors behind their variables and the elements of their large constants, each once.
/// `parse_graph` with both gives equal graphs, which share the tensors again.
class GraphTexts {
 public:
  using Named = std::vector<std::pair<std::string, Tensor>>;

  GraphTexts();
  ~GraphTexts();
  GraphTexts(const GraphTexts&) = delete;
  GraphTexts& operator=(const GraphTexts&) = delete;

  /// The name that the tensor has in all texts: `wanted` when the tensor has none yet and the name
  /// is free, otherwise the one that it has, or a name like `wanted`.
  std::string name_of(const Tensor& tensor, const std::string& wanted);
  /// The text of another graph.
  [[nodiscard]] std::string add(const GraphImpl& graph);
  /// What `name_of` and the graphs have named, the first first.
  [[nodiscard]] const Named& variables() const noexcept;
  /// Constants of more than a line, by the keys that the texts have for them.
  [[nodiscard]] Named constants() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The same as parse_graph, for a text of GraphTexts with its constants, which the graph shares. A
/// constant of another type than the text says is a GraphError.
[[nodiscard]] Ref<GraphImpl> parse_graph(std::string_view text, const NamedTensors& variables,
                                         const NamedTensors& constants);

}  // namespace dyad
