#include "dyad/io/safetensors_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <numeric>
#include <unordered_set>

#include "dyad/base/error.h"
#include "dyad/data/byte_source.h"

namespace dyad::io {
namespace {

using data::shown;

// The format's limit, as its reference implementation has it.
constexpr std::uint64_t kMaxHeader = 100'000'000;

struct Code {
  std::string_view text;
  DType dtype;
};
constexpr std::array<Code, 19> kCodes{{{"F64", DType::f64},
                                       {"F32", DType::f32},
                                       {"F16", DType::f16},
                                       {"BF16", DType::bf16},
                                       {"I64", DType::i64},
                                       {"I32", DType::i32},
                                       {"I16", DType::i16},
                                       {"I8", DType::i8},
                                       {"U64", DType::u64},
                                       {"U32", DType::u32},
                                       {"U16", DType::u16},
                                       {"U8", DType::u8},
                                       {"C64", DType::c64},
                                       {"F8_E4M3", DType::f8e4m3fn},
                                       {"F8_E4M3FNUZ", DType::f8e4m3fnuz},
                                       {"F8_E5M2", DType::f8e5m2},
                                       {"F8_E5M2FNUZ", DType::f8e5m2fnuz},
                                       {"F8_E8M0", DType::f8e8m0},
                                       {"BOOL", DType::boolean}}};

/// Takes the header's JSON event by event, so that no document is built: whatever the file says,
/// memory stays in proportion to its length and the nesting that is accepted.
class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderReader(SafetensorsHeader& header) : header_(header) {}

  [[nodiscard]] const std::string& problem() const noexcept { return problem_; }

  bool start_object(std::size_t) override {
    switch (place_) {
      case Place::begin:
        return go(Place::top);
      case Place::top_value:
        return metadata_ ? go(Place::metadata) : go(Place::entry);
      default:
        return refuse("an object");
    }
  }
  bool key(std::string& name) override {
    if (place_ == Place::top) {
      if (!names_.insert(name).second) return fail(fmt::format("{} comes twice", shown(name)));
      metadata_ = name == "__metadata__";
      if (!metadata_) {
        header_.entries.push_back({.name = name, .dtype = {}, .sizes = {}});
        has_dtype_ = has_shape_ = has_offsets_ = false;
      }
      return go(Place::top_value);
    }
    if (place_ == Place::metadata) {
      key_ = name;
      if (header_.metadata.contains(name)) {
        return fail(fmt::format("metadata {} comes twice", shown(name)));
      }
      return go(Place::metadata_value);
    }
    if (name == "dtype" && !std::exchange(has_dtype_, true)) return go(Place::dtype);
    if (name == "shape" && !std::exchange(has_shape_, true)) return go(Place::shape);
    if (name == "data_offsets" && !std::exchange(has_offsets_, true)) {
      offsets_ = 0;
      return go(Place::offsets);
    }
    return fail(fmt::format("expected one each of 'dtype', 'shape' and 'data_offsets'{}, found {}",
                            of_entry(), shown(name)));
  }
  bool end_object() override {
    if (place_ == Place::top) return go(Place::end);
    if (place_ == Place::entry && !(has_dtype_ && has_shape_ && has_offsets_)) {
      return fail(
          fmt::format("expected 'dtype', 'shape' and 'data_offsets'{}, found less", of_entry()));
    }
    return go(Place::top);
  }
  bool start_array(std::size_t) override {
    if (place_ == Place::shape) return go(Place::shape_item);
    if (place_ == Place::offsets) return go(Place::offsets_item);
    return refuse("an array");
  }
  bool end_array() override {
    if (place_ == Place::offsets_item && offsets_ != 2) {
      return fail(fmt::format("expected two data_offsets{}, found {}", of_entry(), offsets_));
    }
    return go(Place::entry);
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (place_ == Place::shape_item) {
      header_.entries.back().sizes.push_back(value);
      return true;
    }
    if (place_ == Place::offsets_item && offsets_ < 2) {
      SafetensorsEntry& entry = header_.entries.back();
      (offsets_++ == 0 ? entry.begin : entry.end) = value;
      return true;
    }
    return refuse(fmt::format("the number {}", value));
  }
  bool string(std::string& value) override {
    if (place_ == Place::metadata_value) {
      header_.metadata.emplace(key_, value);
      return go(Place::metadata);
    }
    if (place_ != Place::dtype) return refuse(shown(value));
    const auto* code =
        std::find_if(kCodes.begin(), kCodes.end(), [&](const Code& c) { return c.text == value; });
    if (code == kCodes.end()) {
      return fail(fmt::format(
          "expected a dtype of F64, F32, F16, BF16, I64, I32, I16, I8, U64, U32, U16, U8, C64, "
          "F8_E4M3, F8_E4M3FNUZ, F8_E5M2, F8_E5M2FNUZ, F8_E8M0 or BOOL{}, found {}",
          of_entry(), shown(value)));
    }
    header_.entries.back().dtype = code->dtype;
    return go(Place::entry);
  }
  bool null() override { return refuse("null"); }
  bool boolean(bool value) override { return refuse(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override {
    return refuse(fmt::format("the number {}", value));
  }
  bool number_float(number_float_t, const std::string& text) override {
    return refuse("the number " + text);
  }
  bool binary(binary_t&) override { return refuse("binary data"); }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception&) override {
    constexpr std::size_t kLengthBytes = 8;
    return fail(fmt::format("at byte {}: expected JSON in the header, found something else",
                            kLengthBytes + position - (position == 0 ? 0 : 1)));
  }

 private:
  enum class Place {
    begin,
    top,
    top_value,
    metadata,
    metadata_value,
    entry,
    dtype,
    shape,
    shape_item,
    offsets,
    offsets_item,
    end,
  };

  bool go(Place place) {
    place_ = place;
    return true;
  }
  bool fail(std::string problem) {
    problem_ = std::move(problem);
    return false;
  }
  [[nodiscard]] std::string of_entry() const {
    return header_.entries.empty()
               ? ""
               : fmt::format(" of tensor {}", shown(header_.entries.back().name));
  }
  bool refuse(const std::string& found) {
    constexpr std::array<std::string_view, 12> expected = {
        "an object", "a name",   "an object",   "a name",   "a string for metadata", "a key",
        "a string",  "an array", "a size >= 0", "an array", "two offsets >= 0",      "the end"};
    return fail(fmt::format("expected {}{}, found {}", expected[static_cast<std::size_t>(place_)],
                            metadata_ ? "" : of_entry(), found));
  }

  SafetensorsHeader& header_;
  Place place_ = Place::begin;
  std::unordered_set<std::string> names_;
  bool metadata_ = false;
  bool has_dtype_ = false, has_shape_ = false, has_offsets_ = false;
  int offsets_ = 0;
  std::string key_;
  std::string problem_;
};

/// The parts of the data that the entries name must follow one another from 0 to the end.
void check_offsets(const InputFile& file, const SafetensorsHeader& header) {
  std::vector<const SafetensorsEntry*> order;
  for (const SafetensorsEntry& entry : header.entries) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  std::uint64_t at = 0;
  for (const SafetensorsEntry* entry : order) {
    if (entry->begin != at || entry->end < entry->begin) {
      file.fail(
          fmt::format("tensor {}: expected its data to begin at offset {}, found {} to {}: "
                      "tensors may neither overlap nor leave gaps",
                      shown(entry->name), at, entry->begin, entry->end));
    }
    at = entry->end;
  }
  if (at != file.size() - header.bytes) {
    file.fail(fmt::format("expected {} bytes of data after the header, as it says, found {}", at,
                          file.size() - header.bytes));
  }
}

void check_sizes(const InputFile& file, const SafetensorsEntry& entry) {
  constexpr std::size_t kMaxRank = 8;
  if (entry.sizes.size() > kMaxRank) {
    file.fail(fmt::format("tensor {}: expected at most {} axes, found {}", shown(entry.name),
                          kMaxRank, entry.sizes.size()));
  }
  unsigned __int128 bytes = size_of(entry.dtype);
  const bool none = std::find(entry.sizes.begin(), entry.sizes.end(), 0) != entry.sizes.end();
  constexpr std::uint64_t kMost = std::uint64_t{1} << 60;
  for (const std::uint64_t size : entry.sizes) {
    if (!none && size <= kMost) bytes *= size;
    if (size > kMost || bytes > kMost) {
      file.fail(fmt::format("tensor {}: {}[{}] is larger than can be addressed", shown(entry.name),
                            name_of(entry.dtype), fmt::join(entry.sizes, ", ")));
    }
  }
  const auto want = none ? 0 : static_cast<std::uint64_t>(bytes);
  if (want != entry.end - entry.begin) {
    file.fail(fmt::format("tensor {}: {}[{}] takes {} bytes, but its offsets {} to {} span {}",
                          shown(entry.name), name_of(entry.dtype), fmt::join(entry.sizes, ", "),
                          want, entry.begin, entry.end, entry.end - entry.begin));
  }
}

}  // namespace

SafetensorsHeader read_safetensors_header(const InputFile& file) {
  constexpr std::uint64_t kLengthBytes = 8;
  unsigned char word[kLengthBytes];
  file.read(0, word, sizeof(word), "header length");
  std::uint64_t length = 0;
  for (int i = kLengthBytes; i-- > 0;) length = length << 8 | word[i];
  if (length > kMaxHeader || length > file.size() - kLengthBytes) {
    file.fail(
        fmt::format("at byte 0: expected a header of at most {} bytes, found {}: no "
                    "safetensors file, or cut",
                    std::min(kMaxHeader, file.size() - kLengthBytes), length));
  }
  std::string text(length, '\0');
  file.read(kLengthBytes, text.data(), text.size(), "header");

  SafetensorsHeader header;
  header.bytes = kLengthBytes + length;
  HeaderReader reader(header);
  if (!nlohmann::json::sax_parse(text, &reader)) file.fail(reader.problem());
  check_offsets(file, header);
  for (const SafetensorsEntry& entry : header.entries) check_sizes(file, entry);
  return header;
}

std::string safetensors_header_text(const std::vector<SafetensorsEntry>& entries,
                                    const Metadata& metadata, std::size_t alignment, Loc loc) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!metadata.empty()) json["__metadata__"] = metadata;
  for (const SafetensorsEntry& entry : entries) {
    const auto* code = std::find_if(kCodes.begin(), kCodes.end(),
                                    [&](const Code& c) { return c.dtype == entry.dtype; });
    if (code == kCodes.end()) {
      throw DTypeError(fmt::format("save_safetensors: the format has no {}, which tensor {} holds; "
                                   "convert it first",
                                   name_of(entry.dtype), shown(entry.name)),
                       loc.user());
    }
    json[entry.name] = {
        {"dtype", code->text}, {"shape", entry.sizes}, {"data_offsets", {entry.begin, entry.end}}};
  }
  std::string text;
  try {
    text = json.dump();
  } catch (const nlohmann::json::type_error&) {
    throw ValueError("save_safetensors: names and metadata must be UTF-8", loc.user());
  }
  constexpr std::size_t kLengthBytes = 8;
  const std::size_t steps = (kLengthBytes + text.size() + alignment - 1) / alignment;
  text.resize(steps * alignment - kLengthBytes, ' ');
  std::string length;
  for (int i = 0; i < 8; ++i) length += static_cast<char>(text.size() >> (8 * i));
  return length + text;
}

}  // namespace dyad::io
