#include "dyad/data/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>
#include <vector>

#include "dyad/core/tensor_impl.h"
#include "dyad/data/byte_source.h"

namespace dyad::data {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

/// Reads the Python dictionary literal that heads the file.
class HeaderParser {
 public:
  struct Header {
    DType dtype = f32;
    bool big_endian = false;
    bool fortran = false;
    std::vector<std::uint64_t> sizes;
  };

  HeaderParser(const ByteSource& source, std::string_view text, std::uint64_t begin)
      : source_(source), text_(text), begin_(begin) {}

  Header parse() {
    bool descr = false, order = false, shape = false;
    expect('{');
    while (!accept('}')) {
      const std::string_view key = string();
      expect(':');
      if (key == "descr" && !descr) {
        descr = true;
        parse_descr();
      } else if (key == "fortran_order" && !order) {
        order = true;
        header_.fortran = boolean_word();
      } else if (key == "shape" && !shape) {
        shape = true;
        parse_shape();
      } else {
        fail(fmt::format("one each of 'descr', 'fortran_order' and 'shape'"), shown(key));
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (at_ != text_.size()) fail("the end of the header", shown(text_.substr(at_)));
    if (!descr || !order || !shape) {
      fail("'descr', 'fortran_order' and 'shape' in the header",
           "only " + shown(text_.substr(0, at_)));
    }
    return std::move(header_);
  }

 private:
  [[noreturn]] void fail(const std::string& expected, const std::string& found) const {
    source_.fail(fmt::format("at byte {}: expected {}, found {}", begin_ + at_, expected, found));
  }
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) {
      ++at_;
    }
  }
  bool accept(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(fmt::format("'{}' in the npy header", c), shown(text_.substr(at_, 12)));
  }
  std::string_view string() {
    skip_space();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') {
      fail("a string in the npy header", shown(text_.substr(at_, 12)));
    }
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) fail("the end of a string", "the end of the header");
    const std::string_view value = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return value;
  }
  bool boolean_word() {
    skip_space();
    for (const auto& [word, value] : {std::pair{"True", true}, std::pair{"False", false}}) {
      if (text_.substr(at_).starts_with(word)) {
        at_ += std::strlen(word);
        return value;
      }
    }
    fail("True or False", shown(text_.substr(at_, 12)));
  }
  void parse_descr() {
    struct Code {
      std::string_view text;
      DType dtype;
    };
    static constexpr std::array<Code, 14> codes{{{"f8", DType::f64},
                                                 {"f4", DType::f32},
                                                 {"f2", DType::f16},
                                                 {"i8", DType::i64},
                                                 {"i4", DType::i32},
                                                 {"i2", DType::i16},
                                                 {"i1", DType::i8},
                                                 {"u8", DType::u64},
                                                 {"u4", DType::u32},
                                                 {"u2", DType::u16},
                                                 {"u1", DType::u8},
                                                 {"c16", DType::c128},
                                                 {"c8", DType::c64},
                                                 {"b1", DType::boolean}}};
    skip_space();
    if (at_ < text_.size() && text_[at_] == '[') {
      fail("an array of numbers", "one of records, which Dyad does not read");
    }
    const std::string_view descr = string();
    const auto* code = std::find_if(codes.begin(), codes.end(), [&](const Code& c) {
      return !descr.empty() && descr.substr(1) == c.text;
    });
    if (code == codes.end() || !std::strchr("<>|=", descr[0])) {
      fail("a descr of f8, f4, f2, i8, i4, i2, i1, u8, u4, u2, u1, c16, c8 or b1", shown(descr));
    }
    header_.dtype = code->dtype;
    header_.big_endian = descr[0] == '>';
  }
  void parse_shape() {
    expect('(');
    while (!accept(')')) {
      skip_space();
      std::uint64_t size = 0;
      const auto [end, error] =
          std::from_chars(text_.data() + at_, text_.data() + text_.size(), size);
      if (error != std::errc()) fail("a size in the shape", shown(text_.substr(at_, 24)));
      at_ = static_cast<std::size_t>(end - text_.data());
      header_.sizes.push_back(size);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
  }

  const ByteSource& source_;
  std::string_view text_;
  std::uint64_t begin_;
  std::size_t at_ = 0;
  Header header_;
};

std::string read_header_text(ByteSource& source) {
  char magic[8];
  source.read(magic, sizeof(magic), "npy magic number");
  if (std::string_view(magic, 6) != kMagic) {
    source.fail(fmt::format("at byte 0: expected an npy file (\\x93NUMPY), found {}",
                            shown(std::string_view(magic, 6))));
  }
  const int major = static_cast<unsigned char>(magic[6]);
  if (major < 1 || major > 3) {
    source.fail(fmt::format("at byte 6: expected npy format 1, 2 or 3, found {}", major));
  }
  unsigned char word[4] = {};
  source.read(word, major == 1 ? 2 : 4, "npy header length");
  const std::uint32_t length =
      word[0] | (word[1] << 8) | (word[2] << 16) | (static_cast<std::uint32_t>(word[3]) << 24);
  constexpr std::uint32_t kMost = 1u << 20;
  if (length > kMost) {
    source.fail(fmt::format("at byte 8: expected an npy header of at most {} bytes, found {}",
                            kMost, length));
  }
  std::string text(length, '\0');
  source.read(text.data(), length, "npy header");
  return text;
}

}  // namespace

Tensor read_npy(ByteSource& source) {
  const std::string text = read_header_text(source);
  auto header = HeaderParser(source, text, source.offset() - text.size()).parse();
  if (header.fortran) std::reverse(header.sizes.begin(), header.sizes.end());
  Tensor tensor = read_elements(source, header.dtype, header.sizes, header.big_endian, "npy data");
  source.expect_end("npy data");
  if (!header.fortran || header.sizes.size() < 2) return tensor;
  Shape shape = tensor.shape();
  Strides strides = tensor.strides();
  std::reverse(shape.begin(), shape.end());
  std::reverse(strides.begin(), strides.end());
  return make_view(tensor, shape, strides, 0);
}

Tensor load_npy(const std::string& path, Loc loc) { return read_npy(*open_file(path, loc)); }

}  // namespace dyad::data
