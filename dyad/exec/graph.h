#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "dyad/core/tensor.h"
#include "dyad/exec/flatten.h"

namespace dyad {

class GraphImpl;
struct GraphState;

/// A static graph: defined once by the operators that also run eagerly, then run any number of
/// times by a Session. Copies share.
class Graph {
 public:
  Graph();

  /// The graph that `to_string` wrote; its variables hold zeros. GraphError with line and column.
  [[nodiscard]] static Graph parse(std::string_view text);

  /// Calls `fn` with operators going into this graph instead of running, and gives what it returns:
  /// the tensors in it (alone or in tuples, pairs, arrays, vectors) are values of the graph and
  /// become its outputs. Concrete tensors that `fn` uses or returns become variables, host numbers
  /// constants.
  template <class F>
  auto define(F&& fn, Loc loc = std::source_location::current()) {
    using R = std::remove_cvref_t<std::invoke_result_t<F&>>;
    if constexpr (std::is_void_v<R>) {
      record([&] { fn(); }, [](const TensorVisitor&) {}, loc);
    } else {
      std::optional<R> result;
      record([&] { result.emplace(fn()); },
             [&](const TensorVisitor& visit) { exec::pack::for_each_tensor(*result, visit); }, loc);
      return R(std::move(*result));
    }
  }

  /// A value fed at each run. Sizes given by name are unknown until then; a name stands for the
  /// same size everywhere in the graph. GraphError when the name is taken.
  Tensor placeholder(std::string name, DType dtype, Shape shape,
                     Loc loc = std::source_location::current());
  /// A tensor that lives as long as the graph, first set to `init`, which is computed now, once
  /// (random operators draw their numbers now). GraphError when `init` needs a placeholder.
  Tensor variable(std::string name, const Arg& init, Loc loc = std::source_location::current());
  /// Writes `value` into `variable` at the end of each run that fetches the result, which is
  /// `value`.
  Tensor assign(const Tensor& variable, const Arg& value,
                Loc loc = std::source_location::current());

  /// Says that `size`, a size of placeholders ("time") or an expression of some (Dim("long") -
  /// "short"), lies from `min` to `max` in every run. What that decides (`x.size(1) <= 512`) is
  /// known while the graph is defined and compiled; a run that is fed other sizes is a ValueError.
  /// Best said before `define`, or first in it. ValueError when no size can be so; a session throws
  /// a GraphError when no placeholder has the size.
  void assume(const Dim& size, std::int64_t min, std::int64_t max = kAnySize,
              Loc loc = std::source_location::current());

  /// The placeholder of that name. GraphError when there is none.
  [[nodiscard]] Tensor input(std::string_view name,
                             Loc loc = std::source_location::current()) const;
  /// What `define` returned last, or the outputs of a parsed graph.
  [[nodiscard]] std::vector<Tensor> outputs() const;
  /// The tensors behind the graph's variables, with their names, for saving and loading.
  [[nodiscard]] std::vector<std::pair<std::string, Tensor>> variables() const;

  /// The text form: one line for each node, with its type and source line.
  [[nodiscard]] std::string to_string() const;
  /// Checks every invariant of the graph; GraphError listing what is violated. For graphs made by
  /// hand or parsed.
  void verify() const;

  [[nodiscard]] const Ref<GraphImpl>& impl() const noexcept;
  [[nodiscard]] const std::shared_ptr<GraphState>& state() const noexcept { return state_; }

 private:
  using TensorVisitor = std::function<void(Tensor&)>;
  explicit Graph(std::shared_ptr<GraphState> state);
  void record(const std::function<void()>& run,
              const std::function<void(const TensorVisitor&)>& results, Loc loc);
  std::shared_ptr<GraphState> state_;
};

/// Inside Graph::define: the same as the graph's member. GraphError elsewhere.
Tensor placeholder(const std::string& name, DType dtype, Shape shape,
                   Loc loc = std::source_location::current());
Tensor variable(std::string name, const Arg& init, Loc loc = std::source_location::current());
Tensor assign(const Tensor& variable, const Arg& value, Loc loc = std::source_location::current());
void assume(const Dim& size, std::int64_t min, std::int64_t max = kAnySize,
            Loc loc = std::source_location::current());

}  // namespace dyad
