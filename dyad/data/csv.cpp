#include "dyad/data/csv.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>

#include "dyad/base/error.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/data/byte_source.h"

namespace dyad::data {
namespace {

/// Hands out lines without their ends; memory stays bounded by the longest line allowed.
class LineReader {
 public:
  explicit LineReader(ByteSource& source) : source_(source) {}

  /// False at the end of the file.
  bool next(std::string& line) {
    line.clear();
    for (;;) {
      if (begin_ == end_) {
        begin_ = 0;
        end_ = source_.read_up_to(buffer_.data(), buffer_.size());
        if (end_ == 0) return finish(line, !line.empty());
      }
      const char* from = buffer_.data() + begin_;
      const auto* stop = static_cast<const char*>(std::memchr(from, '\n', end_ - begin_));
      const std::size_t length = stop ? static_cast<std::size_t>(stop - from) : end_ - begin_;
      if (line.size() + length > kMaxLine) {
        source_.fail(
            fmt::format("line {}: expected at most {} bytes, found more", number_ + 1, kMaxLine));
      }
      line.append(from, length);
      begin_ += length + (stop ? 1 : 0);
      if (stop) return finish(line, true);
    }
  }
  /// Of the line handed out last, from 1.
  [[nodiscard]] std::int64_t number() const noexcept { return number_; }

 private:
  bool finish(std::string& line, bool found) {
    if (!found) return false;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (number_++ == 0 && line.starts_with("\xEF\xBB\xBF")) line.erase(0, 3);
    return true;
  }

  static constexpr std::size_t kMaxLine = 16u << 20;
  ByteSource& source_;
  std::vector<char> buffer_ = std::vector<char>(std::size_t{64} << 10);
  std::size_t begin_ = 0, end_ = 0;
  std::int64_t number_ = 0;
};

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// Takes the next field off `rest`; `more` says whether a delimiter followed it.
std::string_view next_field(const ByteSource& source, std::int64_t line, char delimiter,
                            std::string_view& rest, bool& more) {
  std::string_view field;
  const std::size_t start = std::min(rest.find_first_not_of(" \t"), rest.size());
  if (start < rest.size() && rest[start] == '"' && delimiter != '"') {
    const std::size_t end = rest.find('"', start + 1);
    if (end == std::string_view::npos) {
      source.fail(
          fmt::format("line {}: expected a closing quote, found the end of the line", line));
    }
    field = rest.substr(start + 1, end - start - 1);
    rest.remove_prefix(end + 1);
    const std::size_t after = std::min(rest.find(delimiter), rest.size());
    if (!trim(rest.substr(0, after)).empty()) {
      source.fail(fmt::format("line {}: expected '{}' after a closing quote, found {}", line,
                              delimiter, shown(rest.substr(0, after))));
    }
    more = after < rest.size();
    rest.remove_prefix(std::min(rest.size(), after + 1));
    return field;
  }
  const std::size_t end = std::min(rest.find(delimiter), rest.size());
  field = rest.substr(0, end);
  more = end < rest.size();
  rest.remove_prefix(std::min(rest.size(), end + 1));
  return field;
}

template <class T>
bool parse_number(std::string_view field, bool missing_as_nan, T& value) {
  field = trim(field);
  if constexpr (std::is_floating_point_v<T>) {
    if (field.empty() && missing_as_nan) {
      value = std::numeric_limits<T>::quiet_NaN();
      return true;
    }
  }
  if (field.starts_with('+') && !field.starts_with("+-")) field.remove_prefix(1);
  const char *const begin = field.data(), *const end = begin + field.size();
  const auto [stop, error] = std::from_chars(begin, end, value);
  if (error == std::errc::result_out_of_range && std::is_floating_point_v<T> && stop == end) {
    // Beyond the range: infinity or zero, as strtod gives.
    value = static_cast<T>(std::strtod(std::string(field).c_str(), nullptr));
    return true;
  }
  return error == std::errc() && stop == end && !field.empty();
}

template <class T>
Tensor read_table(LineReader& lines, const ByteSource& source, const CsvOptions& options,
                  std::size_t columns) {
  std::vector<T> values;
  std::string line;
  std::int64_t rows = 0;
  while (lines.next(line)) {
    if (trim(line).empty()) continue;
    std::string_view rest = line;
    std::size_t column = 0;
    for (bool more = true; more; ++column) {
      const std::string_view field =
          next_field(source, lines.number(), options.delimiter, rest, more);
      T value{};
      if (!parse_number(field, options.missing_as_nan, value)) {
        source.fail(fmt::format("line {}, column {}: expected a number of {}, found {}{}",
                                lines.number(), column + 1, name_of(options.dtype), shown(field),
                                rows == 0 && !options.header
                                    ? " (if the first line names the columns, set header)"
                                    : ""));
      }
      values.push_back(value);
    }
    if (rows == 0 && columns == 0) columns = column;
    if (column != columns) {
      source.fail(fmt::format("line {}: expected {} fields as before, found {}", lines.number(),
                              columns, column));
    }
    ++rows;
  }
  Tensor table = make_empty(options.dtype, {Dim(rows), Dim(columns)});
  if (!values.empty()) std::memcpy(table.raw_data(), values.data(), values.size() * sizeof(T));
  return table;
}

}  // namespace

CsvTable load_csv(const std::string& path, const CsvOptions& options, Loc loc) {
  if (options.dtype != f32 && options.dtype != f64 && options.dtype != i64) {
    throw DTypeError(fmt::format("load_csv('{}'): dtype must be f32, f64 or i64, found {}; load "
                                 "one of these and convert with to()",
                                 path, name_of(options.dtype)),
                     loc.user());
  }
  const auto source = open_file(path, loc);
  LineReader lines(*source);
  CsvTable table;
  if (std::string line; options.header) {
    if (!lines.next(line)) source->fail("line 1: expected names of columns, found the end");
    std::string_view rest = line;
    for (bool more = true; more;) {
      table.columns.emplace_back(
          trim(next_field(*source, lines.number(), options.delimiter, rest, more)));
    }
  }
  const std::size_t columns = table.columns.size();
  if (options.dtype == f32) {
    table.values = read_table<float>(lines, *source, options, columns);
  } else if (options.dtype == f64) {
    table.values = read_table<double>(lines, *source, options, columns);
  } else {
    table.values = read_table<std::int64_t>(lines, *source, options, columns);
  }
  return table;
}

}  // namespace dyad::data
