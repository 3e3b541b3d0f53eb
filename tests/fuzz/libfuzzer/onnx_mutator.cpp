#include "tests/fuzz/libfuzzer/onnx_mutator.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "dyad/ir/onnx_node.h"
#include "dyad/ops/registry.h"
#include "tests/fuzz/wire.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

namespace dyad::fuzz {
namespace {

using Field = Message::Field;

constexpr std::array kNumbers{
    std::uint64_t{0},       std::uint64_t{1},       std::uint64_t{2},       std::uint64_t{3},
    std::uint64_t{4},       std::uint64_t{7},       std::uint64_t{16},      std::uint64_t{255},
    std::uint64_t{65536},   std::uint64_t{1} << 31, std::uint64_t{1} << 32, std::uint64_t{1} << 59,
    std::uint64_t{1} << 61, std::uint64_t{1} << 62, ~std::uint64_t{0},  // -1
    ~std::uint64_t{1},                                                  // -2
    ~std::uint64_t{0} >> 1,                                             // the greatest i64
    std::uint64_t{1} << 63};
constexpr std::array kReals{0.0f,
                            -0.0f,
                            1.0f,
                            -1.0f,
                            0.5f,
                            1e-30f,
                            1e30f,
                            65536.f,
                            std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()};
constexpr std::array kAttributeNames{"axis",
                                     "axes",
                                     "keepdims",
                                     "to",
                                     "kernel_shape",
                                     "pads",
                                     "strides",
                                     "dilations",
                                     "group",
                                     "auto_pad",
                                     "ceil_mode",
                                     "mode",
                                     "value",
                                     "perm",
                                     "alpha",
                                     "beta",
                                     "transA",
                                     "transB",
                                     "epsilon",
                                     "num_groups",
                                     "split",
                                     "num_outputs",
                                     "largest",
                                     "sorted",
                                     "exclusive",
                                     "reverse",
                                     "size",
                                     "blocksize",
                                     "hidden_size",
                                     "direction",
                                     "layout",
                                     "equation",
                                     "k",
                                     "batch_dims",
                                     "reduction",
                                     "start",
                                     "end",
                                     "allowzero",
                                     "dtype",
                                     "output_shape",
                                     "output_padding",
                                     "storage_order",
                                     "count_include_pad",
                                     "is_causal",
                                     "q_num_heads",
                                     "kv_num_heads",
                                     "scale",
                                     "block_size",
                                     "sampling_ratio",
                                     "output_height",
                                     "output_width",
                                     "ignore_index",
                                     "upper",
                                     "value_float",
                                     "value_ints",
                                     "then_branch",
                                     "else_branch",
                                     "body",
                                     "num_scan_inputs",
                                     "num_heads",
                                     "kv_num_heads",
                                     "qkv_hidden_sizes",
                                     "unidirectional",
                                     "mask_filter_value",
                                     "do_rotary",
                                     "rotary_interleaved",
                                     "interleaved",
                                     "rotary_embedding_dim",
                                     "local_window_size",
                                     "softcap",
                                     "causal",
                                     "activation",
                                     "activation_alpha",
                                     "activation_params",
                                     "transBatchA",
                                     "transBatchB",
                                     "stash_type"};

/// Operators that a model may name, with their domains.
const std::vector<std::pair<std::string, std::string>>& operators() {
  static const auto all = [] {
    ops::register_builtin_ops();
    std::vector<std::pair<std::string, std::string>> found{{"If", ""},
                                                           {"Loop", ""},
                                                           {"Scan", ""},
                                                           {"SequenceConstruct", ""},
                                                           {"SequenceAt", ""},
                                                           {"SplitToSequence", ""},
                                                           {"ConcatFromSequence", ""},
                                                           {"Optional", ""},
                                                           {"OptionalGetElement", ""},
                                                           {"StringNormalizer", ""},
                                                           {"TfIdfVectorizer", ""},
                                                           {"LSTM", ""},
                                                           {"GRU", ""},
                                                           {"RNN", ""},
                                                           {"TreeEnsembleClassifier", "ai.onnx.ml"},
                                                           {"TreeEnsemble", "ai.onnx.ml"},
                                                           {"SVMRegressor", "ai.onnx.ml"},
                                                           {"LabelEncoder", "ai.onnx.ml"}};
    for (const OnnxRule* rule : all_onnx_rules()) {
      found.emplace_back(std::string(rule->op), std::string(rule->domain));
    }
    for (const OpInfo* row : all_ops()) {
      if (!row->onnx.op.empty()) found.emplace_back(std::string(row->onnx.op), "");
    }
    return found;
  }();
  return all;
}

class Mutator {
 public:
  explicit Mutator(unsigned seed) : random_(seed) {}

  void mutate(Message& model) {
    collect(model);
    const std::size_t times = 1 + pick(4);
    for (std::size_t i = 0; i < times; ++i) {
      step();
      messages_.clear();
      names_.clear();
      collect(model);
    }
  }

  /// A part of `a` becomes one of `b`, or is followed by it.
  void cross(Message& a, Message& b) {
    collect(b);
    const std::vector<Message*> theirs = messages_;
    messages_.clear();
    collect(a);
    for (int attempt = 0; attempt < 20; ++attempt) {
      Message& ours = *messages_[pick(messages_.size())];
      const Message& other = *theirs[pick(theirs.size())];
      if (ours.type != other.type || other.fields.empty()) continue;
      const Field part = other.fields[pick(other.fields.size())];
      const auto at = static_cast<std::ptrdiff_t>(pick(ours.fields.size() + 1));
      if (at < std::ssize(ours.fields) && pick(2) == 0) {
        ours.fields[static_cast<std::size_t>(at)] = part;
      } else {
        ours.fields.insert(ours.fields.begin() + at, part);
      }
      return;
    }
  }

 private:
  std::size_t pick(std::size_t count) { return count < 2 ? 0 : random_() % count; }
  template <class List>
  const auto& one_of(const List& list) {
    return list[pick(list.size())];
  }

  void collect(Message& message) {
    messages_.push_back(&message);
    for (Field& field : message.fields) {
      if (!field.message.empty()) {
        collect(field.message[0]);
        continue;
      }
      const FieldType* const type = message.type->find(field.number);
      if (type && type->kind == Kind::text && field.wire == 2 && message.type != &kAttribute) {
        names_.push_back(field.bytes);
      }
    }
  }

  void step() {
    Message& message = *messages_[pick(messages_.size())];
    const std::size_t what = pick(16);
    if (what < 3) return add_node();
    if (what < 5) return change_node();
    if (message.fields.empty()) return;
    const std::size_t at = pick(message.fields.size());
    Field& field = message.fields[at];
    const auto place = message.fields.begin() + static_cast<std::ptrdiff_t>(at);
    switch (what) {
      case 5:
        message.fields.erase(place);
        return;
      case 6: {
        const Field copy = field;
        message.fields.insert(place, copy);
        return;
      }
      case 7:
        std::swap(field, message.fields[pick(message.fields.size())]);
        return;
      case 8:
        return nest(field);
      default:
        return change(message, field);
    }
  }

  void change(Message& message, Field& field) {
    if (!field.message.empty()) return;
    if (field.wire == 0) {
      change_number(field.value);
      return;
    }
    const FieldType* const type = message.type->find(field.number);
    if (field.wire == 5) {
      const float real = one_of(kReals);
      std::uint32_t bits = 0;
      std::memcpy(&bits, &real, sizeof bits);
      field.value = bits;
    } else if (field.wire == 2 && type != nullptr && type->kind == Kind::text && pick(4) > 0) {
      field.bytes = message.type == &kAttribute ? std::string(one_of(kAttributeNames))
                    : names_.empty()            ? std::string("x")
                                                : one_of(names_);
    } else if (field.wire == 2 && type != nullptr && type->kind == Kind::numbers && pick(2) > 0) {
      std::uint64_t value = 1;
      change_number(value);
      write_varint(field.bytes, value);
    } else if (field.wire == 2) {
      const std::size_t size = field.bytes.size();
      field.bytes.resize(size + 16);
      field.bytes.resize(LLVMFuzzerMutate(reinterpret_cast<std::uint8_t*>(field.bytes.data()), size,
                                          field.bytes.size()));
    }
  }

  void change_number(std::uint64_t& value) {
    switch (pick(4)) {
      case 0:
        ++value;
        return;
      case 1:
        --value;
        return;
      default:
        value = one_of(kNumbers);
    }
  }

  Message* a_message(const MessageType& type) {
    std::vector<Message*> found;
    for (Message* message : messages_) {
      if (message->type == &type) found.push_back(message);
    }
    return found.empty() ? nullptr : one_of(found);
  }

  static Field text_field(int number, std::string text) {
    return {.number = number, .wire = 2, .value = 0, .bytes = std::move(text), .message = {}};
  }
  static Field message_field(int number, Message message) {
    Field field{.number = number, .wire = 2, .value = 0, .bytes = {}, .message = {}};
    field.message.push_back(std::move(message));
    return field;
  }

  void add_node() {
    Message* const graph = a_message(kGraph);
    if (graph == nullptr || names_.empty()) return;
    Message node{&kNode, {}};
    const auto& [op, domain] = one_of(operators());
    const std::size_t inputs = pick(5);
    for (std::size_t i = 0; i < inputs; ++i) node.fields.push_back(text_field(1, one_of(names_)));
    const std::string made = "n" + std::to_string(random_() % 1000);
    node.fields.push_back(text_field(2, made));
    node.fields.push_back(text_field(4, op));
    if (!domain.empty()) node.fields.push_back(text_field(7, domain));
    while (pick(2) == 0) add_attribute(node);
    // Nodes stand first or after the last one, so that what they read is before them.
    auto place = graph->fields.begin();
    for (auto field = graph->fields.begin(); field != graph->fields.end(); ++field) {
      if (field->number == 1) place = field + 1;
    }
    graph->fields.insert(pick(3) == 0 ? graph->fields.begin() : place, message_field(1, node));
    if (pick(2) == 0) return;
    // Some result is read from it.
    for (Field& field : graph->fields) {
      if (field.number != 12 || field.message.empty()) continue;
      for (Field& name : field.message[0].fields) {
        if (name.number == 1) name.bytes = made;
      }
      return;
    }
  }

  void add_attribute(Message& node) {
    Message attribute{&kAttribute, {}};
    attribute.fields.push_back(text_field(1, one_of(kAttributeNames)));
    std::uint64_t value = 1;
    change_number(value);
    switch (pick(4)) {
      case 0:
        attribute.fields.push_back(
            {.number = 3, .wire = 0, .value = value, .bytes = {}, .message = {}});
        break;
      case 1:
        for (std::size_t i = 0, count = pick(5); i < count; ++i) {
          attribute.fields.push_back(
              {.number = 8, .wire = 0, .value = value, .bytes = {}, .message = {}});
          change_number(value);
        }
        break;
      case 2:
        attribute.fields.push_back(text_field(4, pick(2) == 0 ? "SAME_UPPER" : "linear"));
        break;
      default:
        if (const Message* const graph = a_message(kGraph)) {
          attribute.fields.push_back(message_field(6, *graph));
        }
    }
    node.fields.push_back(message_field(5, std::move(attribute)));
  }

  void change_node() {
    Message* const node = a_message(kNode);
    if (node == nullptr) return;
    if (pick(3) == 0) return add_attribute(*node);
    for (Field& field : node->fields) {
      if (field.number == 1 && pick(2) == 0 && !names_.empty()) field.bytes = one_of(names_);
    }
    if (pick(2) == 0) return;
    const auto& [op, domain] = one_of(operators());
    std::erase_if(node->fields, [](const Field& f) { return f.number == 4 || f.number == 7; });
    node->fields.push_back(text_field(4, op));
    if (!domain.empty()) node->fields.push_back(text_field(7, domain));
  }

  /// A message becomes another one of its kind, which may be one around it.
  void nest(Field& field) {
    if (field.message.empty()) return;
    if (const Message* const other = a_message(*field.message[0].type)) {
      std::vector<Message> copy{*other};
      field.message = std::move(copy);
    }
  }

  std::minstd_rand random_;
  std::vector<Message*> messages_;
  std::vector<std::string> names_;
};

/// An empty graph, for what is no model.
constexpr std::string_view kEmptyModel("\x08\x0A\x3A\x03\x12\x01g\x42\x04\x0A\x00\x10\x15", 13);

std::size_t give(const Message& model, std::uint8_t* out, std::size_t most) {
  const std::string text = model.text();
  if (text.empty() || text.size() > most) return 0;
  std::memcpy(out, text.data(), text.size());
  return text.size();
}

}  // namespace

std::size_t mutate_onnx(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  auto model = Message::parse(kModel, {reinterpret_cast<const char*>(data), size});
  if (!model || model->fields.empty()) model = Message::parse(kModel, kEmptyModel);
  if (!model) return LLVMFuzzerMutate(data, size, most);
  Mutator(seed).mutate(*model);
  const std::size_t made = give(*model, data, most);
  return made > 0 ? made : LLVMFuzzerMutate(data, size, most);
}

std::size_t cross_onnx(std::string_view a, std::string_view b, std::uint8_t* out, std::size_t most,
                       unsigned seed) {
  auto ours = Message::parse(kModel, a), theirs = Message::parse(kModel, b);
  if (!ours || !theirs) return 0;
  Mutator(seed).cross(*ours, *theirs);
  return give(*ours, out, most);
}

}  // namespace dyad::fuzz
