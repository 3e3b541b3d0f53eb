#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dyad/core/allocation_limit.h"
#include "dyad/onnx/importer.h"
#include "dyad/onnx/load.h"

namespace dyad::onnx {

/// A model from its message, as load() gives it. `file` is named in errors, `folder` is where files
/// of weights are looked for.
[[nodiscard]] Model model_of(pb::ModelProto proto, const std::string& file,
                             std::optional<std::string> folder, const LoadOptions& options,
                             Loc loc);

/// The graph of a model for some of what can be known of its inputs.
struct Built {
  ImportedGraph imported;
  std::optional<Session> session = {};  ///< made at the first run
  bool is_for_values = false;           ///< all that is fed is in it
};

/// What is fed: by input, and taken apart, by the names that graphs have for the tensors.
struct Fed {
  std::map<std::string, ModelValue> inputs;
  std::map<std::string, Tensor> tensors;
};

/// Names in the order in which they came, each once.
class NameList {
 public:
  /// False when it is there.
  bool add(const std::string& name) {
    const bool is_new = known_.insert(name).second;
    if (is_new) names_.push_back(name);
    return is_new;
  }
  [[nodiscard]] bool contains(const std::string& name) const { return known_.contains(name); }
  [[nodiscard]] const std::vector<std::string>& names() const noexcept { return names_; }

 private:
  std::vector<std::string> names_;
  std::set<std::string> known_;
};

/// A model, the graphs that were made of it, and the choice of the one that a run needs: the graph
/// for what decides what it looks like; where sizes differ that it takes for equal, one for all
/// sizes; where that is not enough either, one for all values.
struct Model::State {
  pb::ModelProto proto;  ///< emptied when no other graph can be asked for
  /// By number, sparse ones behind the others: what graphs have in the place of the message's.
  std::vector<Tensor> initializers;
  std::string file;
  std::optional<std::string> folder;
  LoadOptions options;
  Loc loc;

  std::vector<ValueInfo> input_info, output_info;
  std::vector<std::string> inputs, outputs;
  /// The tensors, as the graph calls them, whose elements decide; the inputs whose form decides.
  NameList decisive_values, decisive_forms;
  NameList value_inputs;      ///< both, as inputs of the model
  std::string reason;         ///< the first node that needs them, and what for
  bool sizes_decide = false;  ///< those of all inputs
  int opset = 0;
  std::string producer;
  std::map<std::string, std::string> metadata;
  std::map<std::string, Tensor> fixed;  ///< by specialize()
  std::mutex mutex;
  /// By what decides; null for sizes that are not enough.
  std::map<std::string, std::shared_ptr<Built>> built;

  /// The graph that nothing fed decides about, if there is one.
  void build_first();
  [[nodiscard]] const ImportedGraph& first() const { return built.at("")->imported; }

  /// GraphError for an input that is given twice.
  [[nodiscard]] Fed taken_apart(const std::vector<NamedValue>& given, Loc where) const;
  /// The graph for what is fed, as far as that can be said before it runs.
  std::shared_ptr<Built> graph_for(const Fed& fed, Loc where);
  /// The graph for these very values, which takes nothing for granted of what they tell. It is not
  /// kept: it holds weights as they are now. It may take what a run may take.
  std::shared_ptr<Built> graph_for_values(const Fed& fed, Loc where);

  /// A graph, its session, and the feeds that it takes.
  struct Ready {
    std::shared_ptr<Built> built;
    std::vector<Feed> feeds;
  };
  [[nodiscard]] Ready ready(std::shared_ptr<Built> made, const Fed& fed) const;
  [[nodiscard]] std::vector<ModelValue> run(const Ready& ready, Loc where) const;
  /// LoadLimits::run_memory, from now on.
  [[nodiscard]] std::unique_ptr<AllocationLimit> limit_of_run() const;

 private:
  /// The forms that decide, and of these tensors the elements.
  [[nodiscard]] KnownInputs known_of(const Fed& fed, const std::vector<std::string>& values,
                                     Loc where) const;
  /// By what is known; `fixed` is the same for all.
  [[nodiscard]] std::string key_of(const KnownInputs& known) const;
  ImportedGraph build(const KnownInputs& known, const LoadOptions& how);
  std::shared_ptr<Built> keep(const std::string& key, std::shared_ptr<Built> made);
  std::shared_ptr<Built> graph_for_what_decides(const Fed& fed, Loc where);
  std::shared_ptr<Built> graph_for_sizes(const Fed& fed, Loc where);
  void share_variables(const Graph& graph);
  /// Takes note of what decides; false where that was known.
  bool learn(const NeedsValues& needs);
  /// What is known of the inputs does not tell it.
  [[noreturn]] void fail_untold(const NeedsValues& needs) const;
};

}  // namespace dyad::onnx
