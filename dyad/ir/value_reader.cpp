#include "dyad/ir/value_reader.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <functional>
#include <limits>
#include <type_traits>

#include "dyad/core/element.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/core/text.h"
#include "dyad/ir/base64.h"

namespace dyad {
namespace {

constexpr int kMaxTypeNesting = 64;

/// Reads each member of an attribute struct by its name.
class AttrReader final : public AttrVisitor {
 public:
  AttrReader(TextReader& in, ValueReader& values) : in_(in), values_(values) {}

  void visit(std::string_view name, bool& value) override {
    on(name, [this, &value] {
      value = in_.accept_word("true");
      if (!value && !in_.accept_word("false")) in_.fail_expected("true or false");
    });
  }
  void visit(std::string_view name, std::int64_t& value) override {
    on(name, [this, &value] { value = in_.integer(); });
  }
  void visit(std::string_view name, double& value) override {
    on(name, [this, &value] {
      const std::size_t at = in_.position();
      const std::string_view text = in_.number("a number");
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
      if (error != std::errc() || end != text.data() + text.size()) {
        in_.seek(at);
        in_.fail_expected("a number");
      }
    });
  }
  void visit(std::string_view name, std::string& value) override {
    on(name, [this, &value] { value = in_.quoted("a text in quotes"); });
  }
  void visit(std::string_view name, DType& value) override {
    on(name, [this, &value] { value = values_.dtype(); });
  }
  void visit(std::string_view name, Dim& value) override {
    on(name, [this, &value] { value = values_.size(); });
  }
  void visit(std::string_view name, Ints& value) override {
    on(name, [this, &value] {
      value.clear();
      in_.expect('[');
      while (in_.peek() != ']') {
        value.push_back(in_.integer());
        if (!in_.accept(',')) break;
      }
      in_.expect(']');
    });
  }
  void visit(std::string_view name, Shape& value) override {
    on(name, [this, &value] { value = values_.shape(); });
  }
  void visit(std::string_view name, Tensor& value) override {
    on(name, [this, &value] { value = values_.tensor(); });
  }

  void read_all(const OpInfo& op) {
    while (in_.peek() != '}') {
      const std::size_t at = in_.position();
      const std::string_view name = in_.identifier("the name of an attribute");
      const auto it = members_.find(name);
      if (it == members_.end()) {
        std::string known;
        for (const auto& [member, read] : members_) {
          known += (known.empty() ? "" : ", ") + std::string(member);
        }
        in_.fail_at(at,
                    std::string(op.name) + " has no attribute '" + std::string(name) +
                        "' that is not set already; left are: " + (known.empty() ? "none" : known));
      }
      in_.expect('=');
      it->second();
      members_.erase(it);
      if (!in_.accept(',')) break;
    }
  }

 private:
  void on(std::string_view name, std::function<void()> read) {
    members_.emplace(name, std::move(read));
  }
  TextReader& in_;
  ValueReader& values_;
  std::map<std::string_view, std::function<void()>> members_;
};

template <class T>
bool read_plain(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

/// The bits of `nan:0x7fc00001`.
template <class Bits>
bool read_bits(std::string_view text, Bits& bits) {
  constexpr std::string_view prefix = "nan:0x";
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bits, 16);
  return error == std::errc() && end == text.data() + text.size();
}

template <class T>
using BitsOf = std::conditional_t<
    sizeof(T) == 8, std::uint64_t,
    std::conditional_t<sizeof(T) == 4, std::uint32_t,
                       std::conditional_t<sizeof(T) == 2, std::uint16_t, std::uint8_t>>>;

template <class T>
bool read_element(std::string_view text, T& value) {
  if constexpr (is_complex_element<T>) {
    const auto between = text.find("::");
    typename T::value_type real{}, imaginary{};
    if (between == text.npos || !read_element(text.substr(0, between), real) ||
        !read_element(text.substr(between + 2), imaginary)) {
      return false;
    }
    value = {real, imaginary};
    return true;
  } else if constexpr (is_small_int<T>) {
    std::int32_t whole = 0;
    if (!read_plain(text, whole)) return false;
    value = convert_element<T>(whole);
    return to_int(value) == whole;
  } else if constexpr (std::is_same_v<T, bool>) {
    value = text == "true";
    return value || text == "false";
  } else if constexpr (std::is_integral_v<T>) {
    return read_plain(text, value);
  } else {
    BitsOf<T> bits{};
    if (read_bits(text, bits)) {
      std::memcpy(&value, &bits, sizeof value);
      return true;
    }
    if constexpr (std::is_floating_point_v<T>) {
      return read_plain(text, value);
    } else {
      float single = 0;
      if (!read_plain(text, single)) return false;
      value = convert_element<T>(single);
      return true;
    }
  }
}

}  // namespace

Type ValueReader::type(int depth) {
  if (depth > kMaxTypeNesting) in_.fail_at(in_.position(), "types are nested too deep");
  if (in_.accept_word("none")) return Type::none();
  const bool sequence = in_.accept_word("seq");
  if (sequence || in_.accept_word("optional")) {
    in_.expect('(');
    Type element = type(depth + 1);
    in_.expect(')');
    return sequence ? Type::sequence_of(std::move(element)) : Type::optional_of(std::move(element));
  }
  const DType element = dtype();
  return Type(element, shape());
}

DType ValueReader::dtype() {
  const std::size_t at = in_.position();
  const std::string_view name = in_.identifier("a dtype such as f32");
  return at_position(in_, at, [&] { return parse_dtype(name); });
}

Dim ValueReader::size() {
  const std::size_t at = in_.position();
  const std::string_view text = in_.size_text();
  return at_position(in_, at, [&] { return parse_dim(text); });
}

Shape ValueReader::shape() {
  Shape made;
  in_.expect('[');
  while (in_.peek() != ']') {
    made.push_back(size());
    if (!in_.accept(',')) break;
  }
  in_.expect(']');
  return made;
}

Ref<Attrs> ValueReader::attributes(const OpInfo& op) {
  return Attrs::edited(*op.attrs, nullptr, [&](void* attrs) {
    if (!in_.accept('{')) return;
    AttrReader reader(in_, *this);
    op.attrs->visit(attrs, reader);
    reader.read_all(op);
    in_.expect('}');
  });
}

std::int64_t ValueReader::byte_count(const Type& type, std::size_t position) {
  const bool numbers = type.is_tensor() && type.shape().is_concrete() &&
                       std::ranges::all_of(type.shape().numbers(), [](auto n) { return n >= 0; });
  if (!numbers || size_of(type.dtype()) == 0) {
    in_.fail_at(position,
                "elements need a type of numbers whose sizes are numbers, not " + to_string(type));
  }
  return at_position(in_, position,
                     [&] { return (type.shape().numel() * Dim(size_of(type.dtype()))).number(); });
}

Tensor ValueReader::elements(const Type& type) {
  const std::size_t at = in_.position();
  const std::int64_t bytes = byte_count(type, at);
  std::string key;
  if (type.dtype() != DType::string && in_.accept('#')) {
    key = in_.run_of("", "a key of the data section");
    if (const auto given = constants_.find(key); given != constants_.end()) {
      if (given->second.dtype() != type.dtype() || !given->second.shape().same_as(type.shape())) {
        in_.fail_at(at,
                    "#" + key + " is " + type_string(given->second) + ", not " + to_string(type));
      }
      return given->second;
    }
  }
  // Each element takes a character or more, so the text bounds what is allocated for it.
  if (bytes / 8 > static_cast<std::int64_t>(in_.length())) {
    in_.fail_at(at, to_string(type) + " has more elements than the text has");
  }
  Tensor made = make_empty(type.dtype(), type.shape());
  if (!key.empty()) {
    references_[key].push_back({made, at});
    return made;
  }
  std::byte* to = made.impl()->data;
  if (type.rank() == 0) {
    element(type.dtype(), to);
    return made;
  }
  const std::size_t width = size_of(type.dtype());
  const std::int64_t count = bytes / static_cast<std::int64_t>(width);
  in_.expect('[');
  for (std::int64_t i = 0; i < count; ++i, to += width) {
    if (i > 0) in_.expect(',');
    element(type.dtype(), to);
  }
  in_.expect(']');
  return made;
}

void ValueReader::element(DType dtype, std::byte* to) {
  if (dtype == DType::string) {
    const Text text = text_element(in_.quoted("a string"));
    std::memcpy(to, &text, sizeof text);
    return;
  }
  const std::size_t at = in_.position();
  const std::string expected = "an element of " + std::string(name_of(dtype));
  const std::string_view text = in_.number(expected);
  const bool read = visit_element(dtype, [&]<class T>(std::type_identity<T>) {
    T value{};
    const bool good = read_element(text, value);
    std::memcpy(to, &value, sizeof value);
    return good;
  });
  if (read) return;
  in_.seek(at);
  in_.fail_expected(expected);
}

void ValueReader::skip_elements() {
  if (in_.accept('#')) {
    static_cast<void>(in_.run_of("", "a key of the data section"));
  } else if (in_.accept('[')) {
    while (in_.peek() != ']') {
      if (in_.peek() == '"') {
        static_cast<void>(in_.quoted("a string"));
      } else {
        static_cast<void>(in_.number("an element"));
      }
      if (!in_.accept(',')) break;
    }
    in_.expect(']');
  } else if (in_.peek() == '"') {
    static_cast<void>(in_.quoted("a string"));
  } else {
    static_cast<void>(in_.number("the elements"));
  }
}

Tensor ValueReader::tensor() {
  if (in_.accept_word("none")) return Tensor();
  const Type type = this->type();
  return elements(type);
}

void ValueReader::data_section() {
  if (in_.accept_word("data")) {
    in_.expect('{');
    while (in_.accept('#')) {
      const std::string key(in_.run_of("", "a key"));
      in_.expect('=');
      const std::size_t at = in_.position();
      const auto bytes = from_base64(in_.quoted("base64 in quotes"));
      if (!bytes) in_.fail_at(at, "this is not base64");
      const auto uses = references_.find(key);
      if (uses == references_.end()) continue;
      for (const Reference& use : uses->second) {
        const TensorImpl& t = *use.tensor.impl();
        const std::size_t wanted = static_cast<std::size_t>(t.numel()) * size_of(t.dtype);
        if (bytes->size() != wanted) {
          in_.fail_at(at, "#" + key + " has " + std::to_string(bytes->size()) + " bytes, but " +
                              type_string(use.tensor) + " takes " + std::to_string(wanted));
        }
        if (wanted > 0) std::memcpy(t.data, bytes->data(), wanted);
      }
      references_.erase(uses);
    }
    in_.expect('}');
  }
  if (references_.empty()) return;
  const auto& [key, uses] = *references_.begin();
  in_.fail_at(uses.front().position, "the data section has no #" + key);
}

}  // namespace dyad
