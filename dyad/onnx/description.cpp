#include "dyad/onnx/description.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "dyad/base/error.h"
#include "dyad/onnx/importer.h"
#include "dyad/onnx/model_reader.h"

namespace dyad::onnx {
namespace {

constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

/// Sizes of a file are not to be trusted: too large a product is the largest number.
std::uint64_t product(std::uint64_t a, std::uint64_t b) {
  std::uint64_t result = 0;
  return __builtin_mul_overflow(a, b, &result) ? kMost : result;
}

/// Bits of an element as files hold it; strings are counted by what they hold.
std::uint64_t bits_of(std::int64_t dtype) {
  try {
    const DType known = read_dtype(dtype, "", {});
    switch (known) {
      case DType::i4:
      case DType::u4:
      case DType::f4e2m1:
        return 4;
      case DType::i2:
      case DType::u2:
        return 2;
      case DType::string:
        return 0;
      default:
        return 8 * size_of(known);
    }
  } catch (const OnnxError&) {
    return 0;
  }
}

ModelDescription::Parameter describe(const pb::TensorProto& tensor) {
  ModelDescription::Parameter made{
      .name = tensor.name(), .type = type_text(tensor), .elements = 1, .file = {}};
  for (const std::int64_t size : tensor.dims()) {
    made.elements =
        product(made.elements, static_cast<std::uint64_t>(std::max<std::int64_t>(size, 0)));
  }
  made.bytes = product(made.elements, bits_of(tensor.data_type())) / 8;
  for (const std::string& text : tensor.string_data()) made.bytes += text.size();
  if (tensor.data_location() == pb::TensorProto::EXTERNAL) {
    for (const auto& entry : tensor.external_data()) {
      if (entry.key() == "location") made.file = entry.value();
    }
  }
  return made;
}

void add_parameters(const pb::GraphProto& graph, int depth,
                    std::vector<ModelDescription::Parameter>& all) {
  for (const auto& tensor : graph.initializer()) all.push_back(describe(tensor));
  for (const auto& tensor : graph.sparse_initializer()) all.push_back(describe(tensor.values()));
  if (depth == 0) return;
  for (const pb::NodeProto& node : graph.node()) {
    for (const pb::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g()) add_parameters(attribute.g(), depth - 1, all);
    }
  }
}

std::uint64_t sum(const std::vector<ModelDescription::Parameter>& parameters,
                  std::uint64_t ModelDescription::Parameter::* of) {
  std::uint64_t total = 0;
  for (const auto& parameter : parameters) {
    if (__builtin_add_overflow(total, parameter.*of, &total)) return kMost;
  }
  return total;
}

}  // namespace

std::int64_t ModelDescription::nodes() const noexcept {
  std::int64_t count = 0;
  for (const Operator& use : operators) count += use.count;
  return count;
}
std::uint64_t ModelDescription::parameter_elements() const noexcept {
  return sum(parameters, &Parameter::elements);
}
std::uint64_t ModelDescription::parameter_bytes() const noexcept {
  return sum(parameters, &Parameter::bytes);
}

ModelDescription describe(const std::string& path, Loc loc) {
  loc = loc.user();
  const MappedFile file(path, loc);
  const pb::ModelProto model = read_model(file.bytes, file.name, loc);
  const Importer importer(model, file.name, file.folder, {}, loc);
  ModelDescription made;
  made.file = file.name;
  made.file_bytes = file.bytes.size();
  made.producer = model.producer_name();
  made.producer_version = model.producer_version();
  made.graph = model.graph().name();
  made.ir_version = model.ir_version();
  made.opsets = importer.opsets();
  for (const auto& entry : model.metadata_props()) made.metadata[entry.key()] = entry.value();
  made.inputs = inputs_of(model);
  made.outputs = outputs_of(model);
  constexpr int kMostDepth = 100;
  add_parameters(model.graph(), kMostDepth, made.parameters);

  std::map<std::tuple<std::string, int, bool>, ModelDescription::Operator> uses;
  for (NodeUse& node : importer.nodes()) {
    auto& use = uses[{node.op, node.version, node.is_function}];
    if (use.count++ == 0) {
      use.op = node.op;
      use.version = node.version;
      use.is_function = node.is_function;
      use.is_supported = node.reason.empty();
    }
    if (!node.reason.empty()) made.unsupported.push_back(std::move(node));
  }
  for (auto& [key, use] : uses) made.operators.push_back(std::move(use));
  std::ranges::stable_sort(made.operators, std::greater<>(), &ModelDescription::Operator::count);
  return made;
}

}  // namespace dyad::onnx
