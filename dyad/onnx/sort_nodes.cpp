#include "dyad/onnx/sort_nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "dyad/base/error.h"

namespace dyad::onnx {
namespace {

using NodeList = google::protobuf::RepeatedPtrField<pb::NodeProto>;
using NameSet = std::unordered_set<std::string>;

class NodeSorter {
 public:
  NodeSorter(const std::string& file, Loc loc) : file_(file), loc_(loc) {}

  void sort(pb::ModelProto& model) const {
    if (model.has_graph()) sort_graph(*model.mutable_graph());
    for (pb::FunctionProto& function : *model.mutable_functions()) {
      sort_list(*function.mutable_node(), {function.input().begin(), function.input().end()}, {});
    }
  }

 private:
  /// The names that the graph reads from outside.
  NameSet sort_graph(pb::GraphProto& graph) const {
    NameSet given, results;
    for (const pb::ValueInfoProto& input : graph.input()) given.insert(input.name());
    for (const pb::TensorProto& tensor : graph.initializer()) given.insert(tensor.name());
    for (const pb::SparseTensorProto& tensor : graph.sparse_initializer()) {
      given.insert(tensor.values().name());
    }
    for (const pb::ValueInfoProto& output : graph.output()) results.insert(output.name());
    return sort_list(*graph.mutable_node(), given, std::move(results));
  }

  /// The same; `given` is known before the first node, `read` what is read after the last.
  NameSet sort_list(NodeList& nodes, const NameSet& given, NameSet read) const {
    std::unordered_map<std::string, int> giver;
    for (int i = 0; i < nodes.size(); ++i) {
      for (const std::string& output : nodes[i].output()) {
        if (!output.empty() && !given.contains(output)) giver.try_emplace(output, i);
      }
    }
    std::vector<std::vector<int>> needs(static_cast<std::size_t>(nodes.size()));
    bool is_sorted = true;
    for (int i = 0; i < nodes.size(); ++i) {
      NameSet names(nodes[i].input().begin(), nodes[i].input().end());
      for (pb::AttributeProto& attribute : *nodes[i].mutable_attribute()) {
        if (attribute.has_g()) names.merge(sort_graph(*attribute.mutable_g()));
      }
      for (const std::string& name : names) {
        const auto found = giver.find(name);
        if (found == giver.end()) continue;
        needs[static_cast<std::size_t>(i)].push_back(found->second);
        is_sorted = is_sorted && found->second < i;
      }
      read.merge(names);
    }
    if (!is_sorted) put_in_order(nodes, order_of(nodes, needs));
    std::erase_if(read, [&](const std::string& name) {
      return given.contains(name) || giver.contains(name);
    });
    return read;
  }

  /// Each node as soon as what it needs stands before it. Without recursion: a chain may be as long
  /// as the file.
  [[nodiscard]] std::vector<int> order_of(const NodeList& nodes,
                                          std::vector<std::vector<int>>& needs) const {
    enum class Mark : char { fresh, open, placed };
    std::vector<Mark> marks(needs.size(), Mark::fresh);
    std::vector<int> order, path;
    for (int first = 0; first < nodes.size(); ++first) {
      path.push_back(first);
      while (!path.empty()) {
        const int i = path.back();
        Mark& mark = marks[static_cast<std::size_t>(i)];
        std::vector<int>& left = needs[static_cast<std::size_t>(i)];
        if (mark == Mark::fresh) {
          std::sort(left.begin(), left.end(), std::greater<>());
          mark = Mark::open;
        }
        if (mark == Mark::placed || left.empty()) {
          if (mark == Mark::open) order.push_back(i);
          mark = Mark::placed;
          path.pop_back();
          continue;
        }
        const int next = left.back();
        left.pop_back();
        if (marks[static_cast<std::size_t>(next)] == Mark::open) fail_cycle(nodes, path, next);
        path.push_back(next);
      }
    }
    return order;
  }

  static void put_in_order(NodeList& nodes, const std::vector<int>& order) {
    std::vector<pb::NodeProto*> taken(order.size());
    nodes.ExtractSubrange(0, nodes.size(), taken.data());
    for (const int i : order) nodes.AddAllocated(taken[static_cast<std::size_t>(i)]);
  }

  [[noreturn]] void fail_cycle(const NodeList& nodes, const std::vector<int>& path,
                               int first) const {
    constexpr std::ptrdiff_t kShown = 8;
    std::string names;
    const auto begin = std::ranges::find(path, first);
    for (auto at = begin; at != path.end() && at - begin < kShown; ++at) {
      names += fmt::format("{}\"{}\" ({})", names.empty() ? "" : ", ",
                           nodes[*at].name().empty() ? nodes[*at].output(0) : nodes[*at].name(),
                           nodes[*at].op_type());
    }
    if (path.end() - begin > kShown)
      names += fmt::format(" and {} more", path.end() - begin - kShown);
    throw OnnxError(
        fmt::format("'{}': each of these nodes needs a result of the next, and the last one of the "
                    "first: {}",
                    file_, names),
        loc_);
  }

  const std::string& file_;
  Loc loc_;
};

}  // namespace

void sort_nodes(pb::ModelProto& model, const std::string& file, Loc loc) {
  NodeSorter(file, loc).sort(model);
}

}  // namespace dyad::onnx
