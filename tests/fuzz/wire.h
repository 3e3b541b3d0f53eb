#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dyad::fuzz {

/// What a field of a message holds.
enum class Kind : std::uint8_t {
  number,   ///< a varint
  numbers,  ///< varints, packed
  real,     ///< 4 bytes
  reals,    ///< these, packed
  text,     ///< a name
  bytes,
  message,
};

struct MessageType;
struct FieldType {
  int number;
  Kind kind;
  const MessageType* type = nullptr;  ///< of a message
};
struct MessageType {
  std::string_view name;
  std::span<const FieldType> fields;
  [[nodiscard]] const FieldType* find(int number) const noexcept;
};

/// ModelProto, NodeProto and AttributeProto of ONNX: the fields that a reader looks at.
extern const MessageType kModel, kGraph, kNode, kAttribute;

/// A message taken apart. Fields whose number its type does not know are kept as they are.
struct Message {
  struct Field {
    int number = 0;
    int wire = 0;                  ///< 0 varint, 1 and 5 fixed, 2 bytes
    std::uint64_t value = 0;       ///< of all but bytes
    std::string bytes;             ///< of bytes
    std::vector<Message> message;  ///< one, when the bytes are a message of a known type
  };
  const MessageType* type = nullptr;
  std::vector<Field> fields;

  /// Nothing when the bytes are no message.
  static std::optional<Message> parse(const MessageType& type, std::string_view bytes);
  void write(std::string& to) const;
  [[nodiscard]] std::string text() const;
};

void write_varint(std::string& to, std::uint64_t value);

}  // namespace dyad::fuzz
