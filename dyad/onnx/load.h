#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dyad/exec/graph.h"
#include "dyad/exec/session.h"
#include "dyad/nn/tensor_dict.h"
#include "dyad/onnx/model_value.h"
#include "dyad/onnx/value_info.h"

namespace dyad::onnx {

/// What a model may cost. A few bytes of a file can ask for any amount of memory and time:
/// functions that call others twice, loops over constants, constants that grow.
struct LoadLimits {
  /// Nodes that the model may come to when its functions, and the loops that must be, are written
  /// out; OnnxError for more. 0: 50,000 and 10 for each node of the file.
  std::int64_t nodes = 0;
  /// Bytes of the values that are computed while the model is read, and a sixteenth of what
  /// computing them may read; what would take more is computed when the model runs. 0: 64 MB, and 4
  /// times what the initializers hold.
  std::size_t constants = 0;
  /// Bytes that a run may add to what tensors hold; MemoryError for more. 0: what the machine has.
  std::size_t run_memory = 0;
};

/// How a model is read.
struct LoadOptions {
  /// Floating initializers become variables of the graph, which gradients() reaches and which can
  /// be assigned; false: constants, which are folded where nothing else enters.
  bool trainable = true;
  /// Whether run() may give other last bits than the operators one by one
  /// (SessionOptions::fast_math).
  bool fast_math = true;
  LoadLimits limits = {};
  /// Values of the model by name, whichever node gives them, to be the results in the place of
  /// those that it has: the features before the last layer. What they do not need is left out.
  std::vector<std::string> outputs = {};
};

/// An ONNX model as a static graph: placeholders with the names of its inputs (named dimensions are
/// symbolic sizes), variables with the names of its weights. Copies share.
class Model {
 public:
  /// The graph; its outputs are those of the model, in order. GraphError for a model whose graph
  /// depends on values of inputs (see value_inputs).
  [[nodiscard]] const Graph& graph(Loc loc = std::source_location::current()) const;
  /// Inputs that a run must feed, and results, by name.
  [[nodiscard]] const std::vector<std::string>& inputs() const noexcept;
  [[nodiscard]] const std::vector<std::string>& outputs() const noexcept;
  /// The same with their types.
  [[nodiscard]] const std::vector<ValueInfo>& input_info() const noexcept;
  [[nodiscard]] const std::vector<ValueInfo>& output_info() const noexcept;
  /// The inputs whose values, not only their sizes, decide what the graph looks like: the axes of a
  /// reduction, a new shape, how often a loop runs whose state changes its type. run() makes a
  /// graph for each combination of their values that it meets (the last ones are kept);
  /// specialize() gives a model with values filled in. Sequences, optionals, and tensors whose rank
  /// the model does not say, are among them: of these what they are decides (lengths, ranks,
  /// dtypes).
  [[nodiscard]] const std::vector<std::string>& value_inputs() const noexcept;
  /// Without values it is this model.
  [[nodiscard]] Model specialize(const std::vector<Feed>& values,
                                 Loc loc = std::source_location::current()) const;
  /// The model's weights by name: handles of the tensors that a run reads.
  [[nodiscard]] TensorDict weights(Loc loc = std::source_location::current()) const;
  /// The version of ONNX's own operators that the model imports.
  [[nodiscard]] int opset() const noexcept;
  [[nodiscard]] const std::string& producer() const noexcept;
  /// The file's name, without folders.
  [[nodiscard]] const std::string& file() const noexcept;
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const noexcept;

  /// The results for these inputs, in the order of outputs(); compiles at the first call. Runs from
  /// several threads take turns. Errors as of Session::run; OnnxError for what data decide and no
  /// operator can do; GraphError when a result is no tensor.
  [[nodiscard]] std::vector<Tensor> run(const std::vector<Feed>& feeds,
                                        Loc loc = std::source_location::current()) const;

  /// The same for models that take or give sequences and optionals. An optional that is not fed is
  /// empty.
  [[nodiscard]] std::vector<ModelValue> run_values(const std::vector<NamedValue>& inputs,
                                                   Loc loc = std::source_location::current()) const;

  /// Compiles what a run on inputs like these needs, without running it; where data decide on
  /// sizes, nothing. Errors as of run(), but for those of what data decide.
  void prepare(const std::vector<NamedValue>& inputs,
               Loc loc = std::source_location::current()) const;
  /// The memory that such a run needs; compiles nothing. Nothing where data decide on sizes: that
  /// of a graph for values comes on top.
  [[nodiscard]] std::optional<exec::MemoryUse> memory(
      const std::vector<NamedValue>& inputs, Loc loc = std::source_location::current()) const;
  /// The graph that such a run begins with: graph(), unless value_inputs() decide, or sizes differ
  /// that graph() takes for equal. Where sizes that data decide are not what it takes for granted,
  /// which only running it tells (ShapeError, IndexError, ValueError or MemoryError), run() goes on
  /// with one for the very values, with the weights of now for constants.
  [[nodiscard]] Graph graph_for(const std::vector<NamedValue>& inputs,
                                Loc loc = std::source_location::current()) const;
  /// The ONNX operator (`Conv`) of the node that a place in the graph (`model.onnx:12`) names;
  /// empty for other places.
  [[nodiscard]] std::string operator_at(Loc place) const;

  struct State;
  explicit Model(std::shared_ptr<State> state) : state_(std::move(state)) {}

 private:
  std::shared_ptr<State> state_;
};

/// Reads an ONNX model. Every operator that Dyad cannot run is listed before anything else is done:
/// operator, version, node, reason. OnnxError for that, for a file that is no valid model (cut,
/// cyclic, dangling names, sizes that overflow, data outside its folder); IoError when it cannot be
/// read. Elements in files beside the model are mapped into memory, not copied.
[[nodiscard]] Model load(const std::string& path, const LoadOptions& options = {},
                         Loc loc = std::source_location::current());
/// The same from memory.
[[nodiscard]] Model parse(std::string_view bytes, const LoadOptions& options = {},
                          Loc loc = std::source_location::current());

}  // namespace dyad::onnx
