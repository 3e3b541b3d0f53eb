#include <fmt/format.h>

#include <algorithm>

#include "dyad/base/error.h"
#include "dyad/core/allocation_limit.h"
#include "dyad/core/element.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/core/text.h"
#include "dyad/exec/eager.h"
#include "dyad/ir/graph_evaluator.h"
#include "dyad/onnx/importer.h"

// What reading a model may cost, and what is checked of the parts that may never be built.

namespace dyad::onnx {
namespace {

/// LoadLimits, where it leaves them open.
constexpr std::int64_t kMostNodes = 50'000, kMostNodesOfEach = 10;
/// Bytes of nodes that are looked at, for each node that may be built, and for each byte of the
/// file.
constexpr std::int64_t kMostBytesOfNode = 256, kMostBytesOfEach = 10;
constexpr std::size_t kMostConstants = std::size_t{64} << 20, kMostConstantsOfEach = 4;
/// Bytes that are read and written for each byte of constants.
constexpr std::size_t kMostWork = 16;

using Nodes = google::protobuf::RepeatedPtrField<pb::NodeProto>;

/// Nodes of a graph and of the graphs in it.
std::int64_t count_nodes(const Nodes& nodes) {
  std::int64_t count = nodes.size();
  for (const pb::NodeProto& node : nodes) {
    for (const pb::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g()) count += count_nodes(attribute.g().node());
    }
  }
  return count;
}

std::int64_t cost_of(const std::string& name) {
  return static_cast<std::int64_t>(name.size()) + 4;  // what a name costs beside its letters
}
template <class List>
std::int64_t cost_of_names(const List& named) {
  std::int64_t bytes = 0;
  for (const auto& each : named) bytes += cost_of(each.name());
  return bytes;
}

// Bytes that are looked at when nodes are built, and those of their subgraphs: names and
// attributes. Not the elements of tensors, which are read once.

/// The names that enter and leave a subgraph whenever it is run.
std::int64_t cost_of_signature(const pb::GraphProto& graph) {
  return cost_of_names(graph.input()) + cost_of_names(graph.output()) +
         cost_of_names(graph.initializer());
}

std::int64_t cost_of(const pb::NodeProto& node);
std::int64_t cost_of(const Nodes& nodes) {
  std::int64_t bytes = 0;
  for (const pb::NodeProto& node : nodes) bytes += cost_of(node);
  return bytes;
}

std::int64_t cost_of(const pb::AttributeProto& attribute) {
  std::int64_t bytes = cost_of(attribute.name()) + cost_of(attribute.s()) +
                       4 * (std::int64_t{attribute.ints_size()} + attribute.floats_size());
  for (const std::string& text : attribute.strings()) bytes += cost_of(text);
  if (attribute.has_g()) {
    bytes += cost_of_signature(attribute.g()) + cost_of(attribute.g().node());
  }
  return bytes;
}

std::int64_t cost_of(const pb::NodeProto& node) {
  std::int64_t bytes = cost_of(node.name()) + cost_of(node.op_type());
  for (const std::string& name : node.input()) bytes += cost_of(name);
  for (const std::string& name : node.output()) bytes += cost_of(name);
  for (const pb::AttributeProto& attribute : node.attribute()) bytes += cost_of(attribute);
  return bytes;
}

/// The same for a function whenever it is called.
std::int64_t cost_of_signature(const pb::FunctionProto& function) {
  std::int64_t bytes = 0;
  for (const std::string& name : function.input()) bytes += cost_of(name);
  for (const std::string& name : function.output()) bytes += cost_of(name);
  for (const pb::AttributeProto& attribute : function.attribute_proto()) {
    bytes += cost_of(attribute);
  }
  for (const pb::OperatorSetIdProto& import : function.opset_import()) {
    bytes += cost_of(import.domain());
  }
  return bytes;
}

/// Bytes of the elements of a tensor that a message holds or names; 0 for what no reader accepts.
std::size_t size_in_bytes(const pb::TensorProto& tensor) {
  std::size_t bytes = 8;
  for (const std::int64_t size : tensor.dims()) {
    if (size < 0 || __builtin_mul_overflow(bytes, static_cast<std::size_t>(size), &bytes)) return 0;
  }
  const bool external = tensor.data_location() == pb::TensorProto::EXTERNAL;
  return external ? bytes : std::min(bytes, tensor.ByteSizeLong());
}

std::size_t size_in_bytes(const Tensor& tensor) {
  if (!tensor.defined() || tensor.is_symbolic()) return 0;
  return static_cast<std::size_t>(tensor.impl()->numel()) * size_of(tensor.dtype());
}

/// Bytes that an operator reads of a tensor: of strings their texts, which may be one many times.
/// From `most` on they are not counted.
std::size_t bytes_to_read(const Tensor& tensor, std::size_t most) {
  std::size_t bytes = size_in_bytes(tensor);
  if (bytes == 0 || bytes > most || tensor.dtype() != DType::string) return bytes;
  const auto* const data = reinterpret_cast<const Text*>(tensor.impl()->data);
  for_each_offset(tensor.shape(), tensor.strides(),
                  [&](std::int64_t offset) { bytes += data[offset].view().size(); });
  return bytes;
}

/// Operators that read each element of one input for each of another.
bool is_product(std::string_view op) {
  constexpr std::string_view kParts[] = {
      "MatMul", "Gemm",        "Conv", "Einsum", "Attention",    "LSTM", "GRU",
      "RNN",    "Suppression", "Roi",  "Det",    "TreeEnsemble", "SVM"};
  return std::ranges::any_of(kParts,
                             [&](std::string_view part) { return op.find(part) != op.npos; });
}

std::string name_of(const pb::NodeProto& node) {
  if (!node.name().empty()) return fmt::format("\"{}\"", node.name());
  return fmt::format("the {}", node.op_type());
}

}  // namespace

void Importer::set_limits() {
  LoadLimits& limits = options_.limits;
  if (limits.nodes == 0) {
    std::int64_t count = count_nodes(model_.graph().node());
    for (const pb::FunctionProto& function : model_.functions()) {
      count += count_nodes(function.node());
    }
    limits.nodes = kMostNodes + kMostNodesOfEach * count;
  }
  most_bytes_ = cost_of(model_.graph().node());
  for (const pb::FunctionProto& function : model_.functions()) {
    most_bytes_ += cost_of_signature(function) + cost_of(function.node());
  }
  most_bytes_ = kMostBytesOfEach * most_bytes_ +
                kMostBytesOfNode * std::min(limits.nodes, std::int64_t{1} << 50);
  if (limits.constants == 0) {
    std::size_t bytes = 0;
    for (const pb::TensorProto& tensor : model_.graph().initializer()) {
      bytes = std::min(bytes + size_in_bytes(tensor), std::size_t{1} << 50);
    }
    limits.constants = kMostConstants + kMostConstantsOfEach * bytes;
  }
  constants_left_ = limits.constants;
  work_left_ = std::min(limits.constants, std::size_t{1} << 58) * kMostWork;
}

void Importer::count_step(std::int64_t steps) {
  node_count_ += steps;
  if (node_count_ > options_.limits.nodes) {
    fail(
        fmt::format("the model comes to more than {} nodes when its functions and loops are "
                    "written out; LoadLimits::nodes allows more",
                    options_.limits.nodes));
  }
}

void Importer::count_bytes(std::int64_t bytes) {
  byte_count_ += bytes;
  if (byte_count_ > most_bytes_) {
    fail(
        fmt::format("the model comes to more than {} bytes of nodes when its functions and loops "
                    "are written out; LoadLimits::nodes allows more",
                    most_bytes_));
  }
}

void Importer::count_node(const pb::NodeProto& node) {
  count_step();
  count_bytes(cost_of(node));
}

void Importer::count_elements(const NodeImport& node) {
  // So many take as long as a byte: copied, or asked whether they are known.
  const bool is_copied = node.op() != "SequenceAt" && node.op() != "SequenceLength";
  const std::int64_t of_byte = is_copied ? 8 : 64;
  for (int i = 0; i < node.input_count(); ++i) {
    const Imported& value = node.value(i);
    if (value.sequence) count_bytes(std::ssize(*value.sequence) / of_byte);
  }
}

void Importer::count_call(const pb::GraphProto& graph) { count_bytes(cost_of_signature(graph)); }
void Importer::count_call(const pb::FunctionProto& function) {
  count_bytes(cost_of_signature(function));
}

Tensor Importer::tensor_of(const pb::TensorProto& proto, bool repeated, Loc loc) {
  if (!repeated) return read_tensor(proto, external_, loc);
  Tensor& known = repeated_[&proto];
  if (!known.defined()) known = read_tensor(proto, external_, loc);
  return known;
}

Tensor Importer::tensor_of(const pb::SparseTensorProto& proto, bool repeated, Loc loc) {
  if (const auto known = repeated_.find(&proto); known != repeated_.end()) return known->second;
  const Tensor made = read_sparse_tensor(proto, external_, constants_left_, loc);
  // What is computed now is counted by fold().
  if (dynamic_cast<GraphEvaluator*>(&Evaluator::current()) != nullptr) {
    constants_left_ -= size_in_bytes(made);
  }
  if (repeated) repeated_.emplace(&proto, made);
  return made;
}

bool Importer::fold(NodeImport& node, const std::function<void(NodeImport&)>& build) {
  std::size_t read = 0, largest = 0, second = 0;
  const auto note = [&](const Imported& value) {
    const std::size_t bytes = sizeof(Imported) + bytes_to_read(value.tensor, work_left_);
    read += bytes;
    second = std::max(second, std::min(largest, bytes));
    largest = std::max(largest, bytes);
  };
  for (int i = 0; i < node.input_count(); ++i) {
    const Imported& value = node.value(i);
    note(value);
    if (value.sequence) std::ranges::for_each(*value.sequence, note);
  }
  if (is_product(node.op())) {
    constexpr std::size_t kProductsPerByte = 1024;
    read = std::max(read, second / kProductsPerByte * largest);
  }
  // A node of a subgraph that is computed now has nothing else that it could become.
  const bool may_wait =
      !is_all_known_ && dynamic_cast<GraphEvaluator*>(&Evaluator::current()) != nullptr;
  if (read > work_left_) {
    if (may_wait) return false;
    throw MemoryError(fmt::format("what is computed while the model is read comes to more than {} "
                                  "bytes; LoadLimits::constants allows more",
                                  options_.limits.constants),
                      loc_);
  }
  work_left_ -= read;
  const std::size_t texts = detail::text_bytes();
  try {
    const AllocationLimit limit(constants_left_);
    const Evaluator::Scope now(EagerEvaluator::instance());
    build(node);
  } catch (const MemoryError&) {
    if (!may_wait) throw;
    return false;
  }
  std::size_t made = detail::text_bytes() - texts;
  for (int i = 0; i < node.output_count(); ++i) made += size_in_bytes(node.result(i).tensor);
  constants_left_ -= std::min(made, constants_left_);
  work_left_ -= std::min(made, work_left_);
  return true;
}

void Importer::check_names(const pb::GraphProto& graph, const ImportFrame& around) {
  count_bytes(cost_of(graph.node()));
  std::vector<std::unordered_set<std::string>> inner;
  check_names(graph, around, inner);
}

void Importer::check_names(const pb::GraphProto& graph, const ImportFrame& around,
                           std::vector<std::unordered_set<std::string>>& inner) const {
  const auto is_given = [&](const std::string& name) {
    return name.empty() || around.scope.find(name) != nullptr ||
           std::ranges::any_of(inner, [&](const auto& names) { return names.contains(name); });
  };
  inner.emplace_back();
  for (const pb::TensorProto& tensor : graph.initializer()) inner.back().insert(tensor.name());
  for (const pb::ValueInfoProto& input : graph.input()) inner.back().insert(input.name());
  for (const pb::NodeProto& node : graph.node()) {
    for (const std::string& name : node.input()) {
      if (is_given(name)) continue;
      fail(fmt::format("{} in the subgraph \"{}\": nothing before it gives its input \"{}\"",
                       name_of(node), graph.name(), name));
    }
    for (const pb::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g()) check_names(attribute.g(), around, inner);
    }
    inner.back().insert(node.output().begin(), node.output().end());
  }
  for (const pb::ValueInfoProto& output : graph.output()) {
    if (is_given(output.name())) continue;
    fail(fmt::format("no node of the subgraph \"{}\" gives its output \"{}\"", graph.name(),
                     output.name()));
  }
  inner.pop_back();
}

}  // namespace dyad::onnx
