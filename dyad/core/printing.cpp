#include "dyad/core/printing.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "dyad/core/element.h"
#include "dyad/core/evaluator.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/core/text.h"

// The layout and the rules for digits are those of NumPy's arrayprint with its default options:
// 8 digits of precision, 75 columns, 3 items at each edge above 1000 elements.

namespace dyad {
namespace {

constexpr int kPrecision = 8;
constexpr std::size_t kLineWidth = 75;
constexpr std::int64_t kThreshold = 1000, kEdgeItems = 3;

/// From here on a scalar is written with an exponent, because T has no digits left for the units.
template <class T>
constexpr double kExponentFrom = std::is_same_v<T, double>  ? 1e16
                                 : std::is_same_v<T, float> ? 1e6
                                                            : 1e3;

std::string chars(double value, std::chars_format format, int precision) {
  std::array<char, 512> buffer;
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, format, precision).ptr;
  return {buffer.data(), end};
}

/// The fewest digits that read back as the same T: one to the left of the point, and an exponent.
template <class T>
std::string shortest(double value) {
  if constexpr (std::is_floating_point_v<T>) {
    std::array<char, 64> buffer;
    const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(),
                                   static_cast<T>(value), std::chars_format::scientific)
                         .ptr;
    return {buffer.data(), end};
  } else {
    const auto round = [](double x) { return to_float(convert_element<T>(x)); };
    for (int digits = 0;; ++digits) {
      std::string text = chars(value, std::chars_format::scientific, digits);
      double back = 0;
      std::from_chars(text.data(), text.data() + text.size(), back);
      if (round(back) == round(value)) return text;
    }
  }
}

/// A finite number split as NumPy's scientific form: `whole.fraction e exponent`.
struct Scientific {
  std::string whole, fraction;
  int exponent;
};

Scientific split_scientific(const std::string& text) {
  const auto e = text.find('e');
  std::string mantissa = text.substr(0, e);
  const auto point = mantissa.find('.');
  Scientific result;
  result.whole = mantissa.substr(0, point);
  if (point != std::string::npos) result.fraction = mantissa.substr(point + 1);
  while (!result.fraction.empty() && result.fraction.back() == '0') result.fraction.pop_back();
  result.exponent = std::stoi(text.substr(e + 1));
  return result;
}

/// At most `precision` digits after the point (rounded from the exact value), no zeros at the end.
template <class T>
Scientific scientific(double value, int precision) {
  Scientific result = split_scientific(shortest<T>(value));
  if (result.fraction.size() > static_cast<std::size_t>(precision)) {
    result = split_scientific(chars(value, std::chars_format::scientific, precision));
  }
  return result;
}

struct Positional {
  std::string whole, fraction;
};

template <class T>
Positional positional(double value, int precision) {
  const Scientific digits = split_scientific(shortest<T>(value));
  Positional result;
  const bool negative = digits.whole[0] == '-';
  const std::string all = digits.whole.substr(negative ? 1 : 0) + digits.fraction;
  const int whole = digits.exponent + 1;  // digits before the point
  const auto count = static_cast<int>(all.size());
  if (count - whole > precision) {
    const std::string text = chars(value, std::chars_format::fixed, precision);
    const auto point = text.find('.');
    result = {text.substr(0, point), text.substr(point + 1)};
    while (!result.fraction.empty() && result.fraction.back() == '0') result.fraction.pop_back();
    return result;
  }
  if (whole <= 0) {
    result.whole = "0";
    result.fraction = all == "0" ? "" : std::string(static_cast<std::size_t>(-whole), '0') + all;
  } else {
    const auto cut = static_cast<std::size_t>(std::min(whole, count));
    result.whole = all.substr(0, cut) + std::string(static_cast<std::size_t>(whole) - cut, '0');
    result.fraction = all.substr(cut);
    if (result.fraction == "0") result.fraction.clear();
  }
  if (negative) result.whole.insert(0, 1, '-');
  return result;
}

std::string exponent_text(int exponent, int digits) {
  std::string number = std::to_string(std::abs(exponent));
  number.insert(0, static_cast<std::size_t>(std::max(0, digits - static_cast<int>(number.size()))),
                '0');
  return (exponent < 0 ? "-" : "+") + number;
}

std::string pad(std::string text, std::size_t width) {
  if (text.size() < width) text.insert(0, width - text.size(), ' ');
  return text;
}

/// Column widths and form of an array of floats, decided by all that will be shown.
template <class T>
class FloatFormat {
 public:
  explicit FloatFormat(const std::vector<double>& shown) {
    double largest = 0, smallest = 0;
    bool finite = false, other = false, negative_infinity = false;
    for (const double value : shown) {
      if (!std::isfinite(value)) {
        other = true;
        negative_infinity = negative_infinity || value < 0;
        continue;
      }
      finite = true;
      const double magnitude = std::abs(value);
      if (magnitude == 0) continue;
      largest = std::max(largest, magnitude);
      smallest = smallest == 0 ? magnitude : std::min(smallest, magnitude);
    }
    // Compared in T, as NumPy does.
    if (largest > 0) {
      exponents_ = largest >= std::min(kExponentFrom<T>, 1e8) || smallest < in_type(0.0001) ||
                   in_type(largest / smallest) > 1000;
    }
    if (finite) measure(shown);
    if (other) {
      const auto left = static_cast<int>(left_), right = static_cast<int>(right_) + 1;
      left_ = static_cast<std::size_t>(
          std::max({left, 3 - right, 3 + (negative_infinity ? 1 : 0) - right}));
    }
  }

  [[nodiscard]] std::string operator()(double value) const {
    if (!std::isfinite(value)) {
      return pad(std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf", left_ + right_ + 1);
    }
    if (exponents_) {
      Scientific s = scientific<T>(value, static_cast<int>(fraction_));
      if (s.fraction.size() < fraction_) {  // filled up with what the exact value has there
        s = split_scientific(
            chars(value, std::chars_format::scientific, static_cast<int>(fraction_)));
        s.fraction.resize(fraction_, '0');
      }
      return pad(s.whole, left_) + "." + s.fraction + "e" +
             exponent_text(s.exponent, exponent_digits_);
    }
    Positional p = positional<T>(value, kPrecision);
    p.fraction.resize(right_, ' ');
    return pad(p.whole, left_) + "." + p.fraction;
  }

 private:
  static double in_type(double value) {
    if constexpr (std::is_floating_point_v<T>) {
      return static_cast<double>(static_cast<T>(value));
    } else {
      return to_float(convert_element<T>(value));
    }
  }

  void measure(const std::vector<double>& shown) {
    for (const double value : shown) {
      if (!std::isfinite(value)) continue;
      if (exponents_) {
        const Scientific s = scientific<T>(value, kPrecision);
        left_ = std::max(left_, s.whole.size());
        fraction_ = std::max(fraction_, s.fraction.size());
        exponent_digits_ = std::max(exponent_digits_, std::abs(s.exponent) >= 100 ? 3 : 2);
      } else {
        const Positional p = positional<T>(value, kPrecision);
        left_ = std::max(left_, p.whole.size());
        right_ = std::max(right_, p.fraction.size());
      }
    }
    if (exponents_) right_ = fraction_ + static_cast<std::size_t>(exponent_digits_) + 2;
  }

  bool exponents_ = false;
  std::size_t left_ = 0, right_ = 0, fraction_ = 0;
  int exponent_digits_ = 2;
};

class IntegerFormat {
 public:
  explicit IntegerFormat(const std::vector<std::string>& shown) {
    for (const std::string& digits : shown) width_ = std::max(width_, digits.size());
  }
  [[nodiscard]] std::string operator()(const std::string& digits) const {
    return pad(digits, width_);
  }

 private:
  std::size_t width_ = 0;
};

struct BoolFormat {
  [[nodiscard]] std::string operator()(bool value) const { return value ? " True" : "False"; }
};

/// Calls `f(offset)` for the elements that are shown of an array with its middle left out.
template <class F>
void for_each_shown(const TensorImpl& impl, bool summary, std::size_t axis, std::int64_t offset,
                    F&& f) {
  if (axis == impl.shape.size()) {
    f(offset);
    return;
  }
  const std::int64_t size = impl.shape[axis].number();
  for (std::int64_t i = 0; i < size; ++i) {
    if (summary && size > 2 * kEdgeItems && i == kEdgeItems) i = size - kEdgeItems;
    for_each_shown(impl, summary, axis + 1, offset + i * impl.strides[axis], f);
  }
}

/// Rows, brackets, line breaks.
template <class Format>
class Layout {
 public:
  Layout(const TensorImpl& impl, bool summary, const Format& format)
      : impl_(impl), summary_(summary), format_(format) {}

  /// The part of the array below `axis`, its lines after the first indented by `indent`.
  [[nodiscard]] std::string text(std::size_t axis, std::int64_t offset, const std::string& indent,
                                 std::size_t width) const {
    const bool last_axis = axis + 1 == impl_.shape.size();
    const std::int64_t size = impl_.shape[axis].number(), stride = impl_.strides[axis];
    const bool skip = summary_ && size > 2 * kEdgeItems;
    const std::string breaks(impl_.shape.size() - axis - 1, '\n');
    std::string done, line = last_axis ? indent : "";
    for (std::int64_t i = 0; i < size; ++i) {
      const bool dots = skip && i == kEdgeItems;
      if (dots) i = size - kEdgeItems - 1;
      const bool last = i == size - 1;
      if (last_axis) {
        extend(done, line, dots ? "..." : format_(offset + i * stride), indent, width - 1);
        if (!last) line += ' ';
      } else {
        line += indent;
        line += dots ? "..." : text(axis + 1, offset + i * stride, indent + ' ', width - 1);
        if (!last) line += breaks;
      }
    }
    done += line;
    return '[' + done.substr(indent.size()) + ']';
  }

 private:
  static void extend(std::string& done, std::string& line, const std::string& word,
                     const std::string& indent, std::size_t width) {
    if (line.size() + word.size() > width && line.size() > indent.size()) {
      line.erase(line.find_last_not_of(' ') + 1);
      done += line + '\n';
      line = indent;
    }
    line += word;
  }

  const TensorImpl& impl_;
  bool summary_;
  const Format& format_;
};

template <class Format>
std::string layout(const TensorImpl& impl, bool summary, const Format& format) {
  return Layout<Format>(impl, summary, format).text(0, 0, " ", kLineWidth);
}

std::string without_point(std::string number) {
  if (number.ends_with(".0")) number.resize(number.size() - 2);
  return number;
}

/// ` 1.5-2.j `: the j follows the last digit, the blanks that align the fractions come after it.
std::string complex_text(const std::string& real, std::string imaginary) {
  const auto blank = imaginary.find_first_not_of(' ');
  const std::string padding(blank, ' ');
  imaginary.erase(0, blank);
  if (imaginary[0] != '-') imaginary.insert(0, 1, '+');
  const auto end = imaginary.find_last_not_of(' ') + 1;
  imaginary.insert(end, 1, 'j');
  return real + imaginary + padding;
}

/// A scalar has all its digits.
template <class T>
std::string scalar_text(T element) {
  if constexpr (std::is_same_v<T, bool>) {
    return element ? "True" : "False";
  } else if constexpr (std::is_integral_v<T>) {
    return std::to_string(element);
  } else if constexpr (is_small_int<T>) {
    return std::to_string(to_int(element));
  } else if constexpr (is_complex_element<T>) {
    const std::string imaginary = scalar_text(element.imag());
    return "(" + without_point(scalar_text(element.real())) + (imaginary[0] == '-' ? "" : "+") +
           without_point(imaginary) + "j)";
  } else {
    const auto value = convert_element<double>(element);
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
    const double magnitude = std::abs(value);
    if (magnitude == 0 || (magnitude >= 1e-4 && magnitude < kExponentFrom<T>)) {
      const Positional p = positional<T>(value, 400);
      return p.whole + "." + (p.fraction.empty() ? "0" : p.fraction);
    }
    const Scientific s = scientific<T>(value, 400);
    return s.whole + (s.fraction.empty() ? "" : "." + s.fraction) + "e" +
           exponent_text(s.exponent, 2);
  }
}

/// 'it''s', as Python has it.
std::string quoted(std::string_view text) {
  const char quote = text.find('\'') != text.npos && text.find('"') == text.npos ? '"' : '\'';
  std::string out(1, quote);
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
    } else {
      if (c == quote || c == '\\') out += '\\';
      out += c;
    }
  }
  return out + quote;
}

std::string strings_text(const TensorImpl& impl) {
  const auto* data = reinterpret_cast<const Text*>(impl.data);
  if (impl.shape.empty()) return std::string(data[0].view());
  if (impl.numel() == 0) return "[]";
  return layout(impl, impl.numel() > kThreshold,
                [&](std::int64_t at) { return quoted(data[at].view()); });
}

template <class T>
std::string array_text(const TensorImpl& impl) {
  const auto* data = reinterpret_cast<const T*>(impl.data);
  if (impl.shape.empty()) return scalar_text(data[0]);
  if (impl.numel() == 0) return "[]";
  const bool summary = impl.numel() > kThreshold;
  if constexpr (std::is_same_v<T, bool>) {
    return layout(impl, summary, [&](std::int64_t at) { return BoolFormat()(data[at]); });
  } else if constexpr (std::is_integral_v<T> || is_small_int<T>) {
    const auto digits = [&](std::int64_t at) { return scalar_text(data[at]); };
    std::vector<std::string> shown;
    for_each_shown(impl, summary, 0, 0, [&](std::int64_t at) { shown.push_back(digits(at)); });
    const IntegerFormat format(shown);
    return layout(impl, summary, [&](std::int64_t at) { return format(digits(at)); });
  } else if constexpr (is_complex_element<T>) {
    using Part = typename T::value_type;
    std::vector<double> real, imaginary;
    for_each_shown(impl, summary, 0, 0, [&](std::int64_t at) {
      real.push_back(data[at].real());
      imaginary.push_back(data[at].imag());
    });
    const FloatFormat<Part> real_format(real), imaginary_format(imaginary);
    return layout(impl, summary, [&](std::int64_t at) {
      return complex_text(real_format(data[at].real()), imaginary_format(data[at].imag()));
    });
  } else {
    std::vector<double> shown;
    const auto number = [&](std::int64_t at) { return convert_element<double>(data[at]); };
    for_each_shown(impl, summary, 0, 0, [&](std::int64_t at) { shown.push_back(number(at)); });
    const FloatFormat<T> format(shown);
    return layout(impl, summary, [&](std::int64_t at) { return format(number(at)); });
  }
}

}  // namespace

std::string to_string(const Tensor& tensor) {
  if (!tensor.defined()) return "undefined";
  if (tensor.impl()->kind == TensorImpl::Kind::deferred) {
    Evaluator::current().host_access(tensor, Loc().user());
  }
  const TensorImpl& impl = *tensor.impl();
  if (!tensor.is_concrete()) {
    const std::string name = impl.recorded ? impl.recorded->name() : "";
    return (name.empty() ? "" : name + ": ") + type_string(tensor);
  }
  if (impl.dtype == DType::string) return strings_text(impl);
  return visit_element(impl.dtype,
                       [&]<class T>(std::type_identity<T>) { return array_text<T>(impl); });
}

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) {
  return out << to_string(tensor);
}
std::ostream& operator<<(std::ostream& out, DType dtype) { return out << name_of(dtype); }
std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << size_text(shape); }
std::ostream& operator<<(std::ostream& out, Dim dim) { return out << size_text(dim); }
std::ostream& operator<<(std::ostream& out, const Ints& numbers) {
  return out << to_string(Shape(std::span(numbers)));
}
std::ostream& operator<<(std::ostream& out, Device device) {
  out << "cpu";
  return device.index == 0 ? out : out << ':' << int{device.index};
}

}  // namespace dyad
