#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

// ONNX models written byte by byte, so that they can be wrong in ways that no library writes.

namespace dyad::testing::bytes {

inline std::string varint(std::uint64_t value) {
  std::string text;
  for (; value >= 0x80; value >>= 7) text += static_cast<char>(value | 0x80);
  return text + static_cast<char>(value);
}
/// A field of a number, and one of bytes or of a message.
inline std::string number(int field, std::int64_t value) {
  return varint(static_cast<std::uint64_t>(field) << 3) + varint(static_cast<std::uint64_t>(value));
}
inline std::string part(int field, std::string_view payload) {
  return varint((static_cast<std::uint64_t>(field) << 3) | 2) + varint(payload.size()) +
         std::string(payload);
}

using Names = std::vector<std::string>;
using Numbers = std::vector<std::int64_t>;

inline std::string numbers(int field, const Numbers& values) {
  std::string text;
  for (const std::int64_t value : values) text += number(field, value);
  return text;
}

/// Attributes.
inline std::string of_int(std::string_view name, std::int64_t value) {
  return part(1, name) + number(3, value) + number(20, 2);
}
inline std::string of_ints(std::string_view name, const Numbers& values) {
  return part(1, name) + numbers(8, values) + number(20, 7);
}
inline std::string of_text(std::string_view name, std::string_view value) {
  return part(1, name) + part(4, value) + number(20, 3);
}
inline std::string of_tensor(std::string_view name, std::string_view tensor) {
  return part(1, name) + part(5, tensor) + number(20, 4);
}
inline std::string of_graph(std::string_view name, std::string_view graph) {
  return part(1, name) + part(6, graph) + number(20, 5);
}

/// Numbers of ONNX for dtypes.
inline constexpr int kFloat = 1, kByte = 2, kInt64 = 7, kBool = 9;

/// A tensor with the bytes of its elements.
inline std::string tensor_proto(std::string_view name, int dtype, const Numbers& dims,
                                std::string_view raw) {
  return numbers(1, dims) + number(2, dtype) + part(8, name) + part(9, raw);
}
inline std::string tensor_proto(std::string_view name, const Numbers& values) {
  std::string raw(values.size() * 8, '\0');
  if (!values.empty()) std::memcpy(raw.data(), values.data(), raw.size());
  return tensor_proto(name, kInt64, {static_cast<std::int64_t>(values.size())}, raw);
}
inline std::string floats(std::string_view name, const Numbers& dims,
                          const std::vector<float>& values) {
  return tensor_proto(name, kFloat, dims,
                      {reinterpret_cast<const char*>(values.data()), values.size() * 4});
}
inline std::string scalar(std::string_view name, std::int64_t value) {
  const std::string raw(reinterpret_cast<const char*>(&value), 8);
  return tensor_proto(name, kInt64, {}, raw);
}
inline std::string truth(std::string_view name, bool value) {
  return tensor_proto(name, kBool, {}, std::string(1, value ? '\1' : '\0'));
}
/// A tensor whose elements are in another file.
inline std::string external(std::string_view name, const Numbers& dims,
                            const std::vector<std::pair<std::string, std::string>>& entries,
                            int dtype = kFloat) {
  std::string text = numbers(1, dims) + number(2, dtype) + part(8, name) + number(14, 1);
  for (const auto& [key, value] : entries) text += part(13, part(1, key) + part(2, value));
  return text;
}

inline std::string node(std::string_view op, const Names& inputs, const Names& outputs,
                        const Names& attributes = {}, std::string_view domain = {}) {
  std::string text;
  for (const std::string& input : inputs) text += part(1, input);
  for (const std::string& output : outputs) text += part(2, output);
  text += part(4, op);
  for (const std::string& attribute : attributes) text += part(5, attribute);
  if (!domain.empty()) text += part(7, domain);
  return text;
}

/// An input or output; sizes below 0 are left open.
inline std::string value(std::string_view name, int dtype = kFloat, const Numbers& dims = {}) {
  std::string shape;
  for (const std::int64_t dim : dims) shape += part(1, dim < 0 ? part(2, "n") : number(1, dim));
  return part(1, name) + part(2, part(1, number(1, dtype) + part(2, shape)));
}

struct GraphParts {
  Names nodes = {};
  Names inputs = {};   ///< value()
  Names outputs = {};  ///< value()
  Names tensors = {};
};
inline std::string graph(const GraphParts& parts) {
  std::string text;
  for (const std::string& node : parts.nodes) text += part(1, node);
  text += part(2, "g");
  for (const std::string& tensor : parts.tensors) text += part(5, tensor);
  for (const std::string& input : parts.inputs) text += part(11, input);
  for (const std::string& output : parts.outputs) text += part(12, output);
  return text;
}
inline std::string opset(std::string_view domain, std::int64_t version) {
  return part(1, domain) + number(2, version);
}
inline std::string function(std::string_view name, const Names& inputs, const Names& outputs,
                            const Names& nodes) {
  std::string text = part(1, name);
  for (const std::string& input : inputs) text += part(4, input);
  for (const std::string& output : outputs) text += part(5, output);
  for (const std::string& node : nodes) text += part(7, node);
  return text + part(9, opset("", 21)) + part(9, opset("own", 1)) + part(10, "own");
}
inline std::string model(std::string_view graph, const Names& functions = {}) {
  std::string text = number(1, 10) + part(7, graph) + part(8, opset("", 21)) +
                     part(8, opset("own", 1)) + part(8, opset("ai.onnx.ml", 5));
  for (const std::string& function : functions) text += part(25, function);
  return text;
}
inline std::string model(const GraphParts& parts, const Names& functions = {}) {
  return model(graph(parts), functions);
}

}  // namespace dyad::testing::bytes
