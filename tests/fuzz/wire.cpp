#include "tests/fuzz/wire.h"

namespace dyad::fuzz {
namespace {

bool read_varint(std::string_view& from, std::uint64_t& value) {
  value = 0;
  for (int shift = 0; shift < 64 && !from.empty(); shift += 7) {
    const auto byte = static_cast<std::uint8_t>(from.front());
    from.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

bool read_fixed(std::string_view& from, std::size_t width, std::uint64_t& value) {
  if (from.size() < width) return false;
  value = 0;
  for (std::size_t i = 0; i < width; ++i) {
    value |= std::uint64_t{static_cast<std::uint8_t>(from[i])} << (8 * i);
  }
  from.remove_prefix(width);
  return true;
}

extern const MessageType kTensor, kSparseTensor, kType;  // they name one another

constexpr FieldType kOpsetFields[] = {{1, Kind::text}, {2, Kind::number}};
constexpr MessageType kOpset{"opset", kOpsetFields};
constexpr FieldType kEntryFields[] = {{1, Kind::text}, {2, Kind::text}};
constexpr MessageType kEntry{"entry", kEntryFields};
constexpr FieldType kDimFields[] = {{1, Kind::number}, {2, Kind::text}};
constexpr MessageType kDim{"dim", kDimFields};
constexpr FieldType kShapeFields[] = {{1, Kind::message, &kDim}};
constexpr MessageType kShape{"shape", kShapeFields};
constexpr FieldType kTensorTypeFields[] = {{1, Kind::number}, {2, Kind::message, &kShape}};
constexpr MessageType kTensorType{"tensor_type", kTensorTypeFields};
constexpr FieldType kElementTypeFields[] = {{1, Kind::message, &kType}};
constexpr MessageType kElementType{"element_type", kElementTypeFields};
constexpr FieldType kMapTypeFields[] = {{1, Kind::number}, {2, Kind::message, &kType}};
constexpr MessageType kMapType{"map_type", kMapTypeFields};
constexpr FieldType kTypeFields[] = {{1, Kind::message, &kTensorType},
                                     {4, Kind::message, &kElementType},
                                     {5, Kind::message, &kMapType},
                                     {9, Kind::message, &kElementType}};
const MessageType kType{"type", kTypeFields};
constexpr FieldType kValueFields[] = {{1, Kind::text}, {2, Kind::message, &kType}};
constexpr MessageType kValue{"value", kValueFields};
constexpr FieldType kTensorFields[] = {{1, Kind::number},
                                       {2, Kind::number},
                                       {4, Kind::reals},
                                       {5, Kind::numbers},
                                       {6, Kind::bytes},
                                       {7, Kind::numbers},
                                       {8, Kind::text},
                                       {9, Kind::bytes},
                                       {10, Kind::bytes},
                                       {11, Kind::numbers},
                                       {13, Kind::message, &kEntry},
                                       {14, Kind::number}};
const MessageType kTensor{"tensor", kTensorFields};
constexpr FieldType kSparseTensorFields[] = {
    {1, Kind::message, &kTensor}, {2, Kind::message, &kTensor}, {3, Kind::number}};
const MessageType kSparseTensor{"sparse_tensor", kSparseTensorFields};
constexpr FieldType kFunctionFields[] = {{1, Kind::text},
                                         {4, Kind::text},
                                         {5, Kind::text},
                                         {6, Kind::text},
                                         {7, Kind::message, &kNode},
                                         {9, Kind::message, &kOpset},
                                         {10, Kind::text},
                                         {11, Kind::message, &kAttribute}};
constexpr MessageType kFunction{"function", kFunctionFields};
constexpr FieldType kModelFields[] = {{1, Kind::number},
                                      {7, Kind::message, &kGraph},
                                      {8, Kind::message, &kOpset},
                                      {14, Kind::message, &kEntry},
                                      {25, Kind::message, &kFunction}};
constexpr FieldType kGraphFields[] = {
    {1, Kind::message, &kNode},   {2, Kind::text},
    {5, Kind::message, &kTensor}, {11, Kind::message, &kValue},
    {12, Kind::message, &kValue}, {15, Kind::message, &kSparseTensor}};
constexpr FieldType kNodeFields[] = {{1, Kind::text}, {2, Kind::text},
                                     {3, Kind::text}, {4, Kind::text},
                                     {7, Kind::text}, {5, Kind::message, &kAttribute}};
constexpr FieldType kAttributeFields[] = {{1, Kind::text},
                                          {2, Kind::real},
                                          {3, Kind::number},
                                          {4, Kind::bytes},
                                          {5, Kind::message, &kTensor},
                                          {6, Kind::message, &kGraph},
                                          {7, Kind::real},
                                          {8, Kind::number},
                                          {9, Kind::bytes},
                                          {14, Kind::message, &kType},
                                          {20, Kind::number},
                                          {21, Kind::text},
                                          {22, Kind::message, &kSparseTensor}};

}  // namespace

const MessageType kModel{"model", kModelFields};
const MessageType kGraph{"graph", kGraphFields};
const MessageType kNode{"node", kNodeFields};
const MessageType kAttribute{"attribute", kAttributeFields};

const FieldType* MessageType::find(int number) const noexcept {
  for (const FieldType& field : fields) {
    if (field.number == number) return &field;
  }
  return nullptr;
}

std::optional<Message> Message::parse(const MessageType& type, std::string_view bytes) {
  Message made{&type, {}};
  while (!bytes.empty()) {
    std::uint64_t tag = 0;
    if (!read_varint(bytes, tag) || tag >> 3 == 0 || tag >> 32 != 0) return {};
    Field& field = made.fields.emplace_back();
    field.number = static_cast<int>(tag >> 3);
    field.wire = static_cast<int>(tag & 7);
    if (field.wire == 0) {
      if (!read_varint(bytes, field.value)) return {};
    } else if (field.wire == 1 || field.wire == 5) {
      if (!read_fixed(bytes, field.wire == 1 ? 8 : 4, field.value)) return {};
    } else if (field.wire == 2) {
      std::uint64_t length = 0;
      if (!read_varint(bytes, length) || length > bytes.size()) return {};
      field.bytes = bytes.substr(0, length);
      bytes.remove_prefix(length);
      const FieldType* const known = type.find(field.number);
      if (known == nullptr || known->kind != Kind::message) continue;
      if (auto inner = parse(*known->type, field.bytes)) {
        field.message.push_back(std::move(*inner));
      }
    } else {
      return {};
    }
  }
  return made;
}

void write_varint(std::string& to, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) to += static_cast<char>(value | 0x80);
  to += static_cast<char>(value);
}

void Message::write(std::string& to) const {
  for (const Field& field : fields) {
    write_varint(
        to, static_cast<std::uint64_t>(field.number) << 3 | static_cast<std::uint64_t>(field.wire));
    if (field.wire == 0) {
      write_varint(to, field.value);
    } else if (field.wire == 2) {
      const std::string bytes = field.message.empty() ? field.bytes : field.message[0].text();
      write_varint(to, bytes.size());
      to += bytes;
    } else {
      for (int i = 0; i < (field.wire == 1 ? 8 : 4); ++i) {
        to += static_cast<char>(field.value >> (8 * i));
      }
    }
  }
}

std::string Message::text() const {
  std::string text;
  write(text);
  return text;
}

}  // namespace dyad::fuzz
