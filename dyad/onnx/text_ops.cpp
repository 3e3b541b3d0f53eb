#include "dyad/onnx/text_ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <vector>

#include "dyad/base/error.h"
#include "dyad/core/create.h"
#include "dyad/core/element.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/core/text.h"
#include "dyad/core/text_pattern.h"
#include "dyad/ir/op.h"
#include "dyad/ops/shapes.h"
#include "dyad/runtime/op_kernel.h"

namespace dyad::onnx {
namespace {

using runtime::OpCall;

constexpr DTypeSet kText = set_of(DType::string);
constexpr ArgInfo kOneText[] = {{"x", kText}};
constexpr ArgInfo kTwoTexts[] = {{"a", kText}, {"b", kText}};
constexpr ArgInfo kNumbers[] = {{"x", kAny}};
constexpr ArgInfo kResult[] = {{"out", kEverything}};
constexpr ArgInfo kPieces[] = {{"pieces", kText}, {"counts", set_of(DType::i64)}};

template <class T>
T* elements(const Tensor& x) {
  return reinterpret_cast<T*>(x.impl()->data);
}

/// Calls f with the place in row-major order and the text of each element.
template <class F>
void for_each_text(const Tensor& x, F&& f) {
  std::int64_t i = 0;
  for_each_offset(x.shape(), x.strides(),
                  [&](std::int64_t offset) { f(i++, elements<const Text>(x)[offset].view()); });
}

// --- element by element --------------------------------------------------------------------------

struct TextConcat {
  using Attrs = NoAttrs;
  static constexpr Schema schema{.name = "text_concat",
                                 .inputs = kTwoTexts,
                                 .outputs = kResult,
                                 .doc = "a then b, element by element.",
                                 .samples = {.differentiable = false}};
  static Types infer(const InferIn& in, const Attrs&) { return {in[0]}; }
  static void to_onnx(OnnxEmitter& e, const Attrs&) {
    e.output(0, e.node("StringConcat", {e.input(0), e.input(1)}));
  }
  static void run(const OpCall& call) {
    // An element may stand for a text of any length: one is put together at a time.
    std::vector<std::string_view> first;
    for_each_text(call.inputs[0],
                  [&](std::int64_t, std::string_view text) { first.push_back(text); });
    std::string whole;
    for_each_text(call.inputs[1], [&](std::int64_t i, std::string_view text) {
      whole.assign(first[static_cast<std::size_t>(i)]).append(text);
      elements<Text>(call.outputs[0])[i] = text_element(whole);
    });
  }
};

struct PatternAttrs {
  std::string pattern;
};

struct TextMatches {
  using Attrs = PatternAttrs;
  static constexpr Schema schema{.name = "text_matches",
                                 .inputs = kOneText,
                                 .outputs = kResult,
                                 .doc = "Whether a regular expression matches the whole element.",
                                 .samples = {.differentiable = false}};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    const TextPattern checked(attrs.pattern);
    return {Type(boolean, in[0].shape())};
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    e.output(0, e.node("RegexFullMatch", {e.input(0)}, {{"pattern", attrs.pattern}}));
  }
  static void run(const OpCall& call) {
    const TextPattern pattern(call.attrs_as<Attrs>().pattern);
    for_each_text(call.inputs[0], [&](std::int64_t i, std::string_view text) {
      elements<bool>(call.outputs[0])[i] = pattern.matches_all(text);
    });
  }
};

struct CaseAttrs {
  bool upper = false;
};

struct TextCase {
  using Attrs = CaseAttrs;
  static constexpr Schema schema{.name = "text_in_case",
                                 .inputs = kOneText,
                                 .outputs = kResult,
                                 .doc = "Each element in capitals or in small letters.",
                                 .samples = {.differentiable = false}};
  static Types infer(const InferIn& in, const Attrs&) { return {in[0]}; }
  static void run(const OpCall& call) {
    for_each_text(call.inputs[0], [&](std::int64_t i, std::string_view text) {
      elements<Text>(call.outputs[0])[i] =
          text_element(with_case(text, call.attrs_as<Attrs>().upper));
    });
  }
};

// --- pieces --------------------------------------------------------------------------------------

struct SplitAttrs {
  std::string delimiter;
  std::int64_t most = -1;
};

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/// Calls f with each piece; how many there are.
template <class F>
std::int64_t for_each_word(std::string_view text, std::int64_t most, F&& f) {
  std::int64_t found = 0;
  const auto skip = [&] {
    while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  };
  for (skip(); !text.empty(); skip(), ++found) {
    if (found == most) {
      while (is_space(text.back())) text.remove_suffix(1);
      f(text);
      return found + 1;
    }
    const auto end = static_cast<std::size_t>(std::ranges::find_if(text, is_space) - text.begin());
    f(text.substr(0, end));
    text.remove_prefix(end);
  }
  return found;
}

template <class F>
std::int64_t for_each_piece(std::string_view text, const SplitAttrs& by, F&& f) {
  if (by.delimiter.empty()) return for_each_word(text, by.most, f);
  for (std::int64_t found = 0;; ++found) {
    const std::size_t at = found == by.most ? std::string_view::npos : text.find(by.delimiter);
    f(text.substr(0, at));
    if (at == std::string_view::npos) return found + 1;
    text.remove_prefix(at + by.delimiter.size());
  }
}

struct TextSplit {
  using Attrs = SplitAttrs;
  static constexpr Schema schema{.name = "text_split",
                                 .inputs = kOneText,
                                 .outputs = kPieces,
                                 .doc = "The pieces of each element, and how many there are.",
                                 .samples = {.differentiable = false}};
  static Types infer(const InferIn& in, const Attrs&) {
    Shape shape = in[0].shape();
    shape.push_back(unknown_size());
    return {Type(DType::string, shape), Type(DType::i64, in[0].shape())};
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    OnnxAttrs options{{"delimiter", attrs.delimiter}};
    if (attrs.most >= 0) options.emplace_back("maxsplit", attrs.most);
    const auto made = e.node_multi("StringSplit", {e.input(0)}, options, 2);
    e.output(0, made[0]);
    e.output(1, made[1]);
  }
  static void run(const OpCall& call) {
    const Tensor& x = call.inputs[0];
    const SplitAttrs& by = call.attrs_as<Attrs>();
    Shape shape = x.shape();
    if (!call.outputs[1].defined()) call.outputs[1] = make_empty(DType::i64, shape);
    std::int64_t longest = 0;
    for_each_text(x, [&](std::int64_t i, std::string_view text) {
      const std::int64_t count = for_each_piece(text, by, [](std::string_view) {});
      elements<std::int64_t>(call.outputs[1])[i] = count;
      longest = std::max(longest, count);
    });
    shape.push_back(longest);
    call.outputs[0] = make_empty(DType::string, shape);
    for_each_text(x, [&](std::int64_t i, std::string_view text) {
      Text* to = elements<Text>(call.outputs[0]) + i * longest;
      Text* const end = to + longest;
      for_each_piece(text, by, [&](std::string_view piece) { *to++ = text_element(piece); });
      std::fill(to, end, Text());
    });
  }
};

// --- numbers -------------------------------------------------------------------------------------

template <class T>
std::string written(T value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? "1" : "0";
  } else if constexpr (std::is_integral_v<T>) {
    return std::to_string(value);
  } else {
    const auto number = convert_element<double>(value);
    if (std::isnan(number)) return "NaN";
    if (std::isinf(number)) return number > 0 ? "INF" : "-INF";
    return std::is_same_v<T, double> ? fmt::format("{}", number)
                                     : fmt::format("{}", static_cast<float>(number));
  }
}

struct TextOfNumbers {
  using Attrs = NoAttrs;
  static constexpr Schema schema{.name = "text_of",
                                 .inputs = kNumbers,
                                 .outputs = kResult,
                                 .doc = "Numbers as text.",
                                 .samples = {.differentiable = false}};
  static Types infer(const InferIn& in, const Attrs&) {
    return {Type(DType::string, in[0].shape())};
  }
  static void to_onnx(OnnxEmitter& e, const Attrs&) {
    e.output(0, e.cast(e.input(0), DType::string));
  }
  static void run(const OpCall& call) {
    const Tensor& x = call.inputs[0];
    Text* to = elements<Text>(call.outputs[0]);
    visit_dtype(x.dtype(), [&]<class T>(std::type_identity<T>) {
      for_each_offset(x.shape(), x.strides(), [&](std::int64_t offset) {
        *to++ = text_element(written(elements<const T>(x)[offset]));
      });
    });
  }
};

struct NumberAttrs {
  DType dtype = DType::f32;
};

struct NumberOfText {
  using Attrs = NumberAttrs;
  static constexpr Schema schema{.name = "number_of_text",
                                 .inputs = kOneText,
                                 .outputs = kResult,
                                 .doc = "Text as numbers.",
                                 .samples = {.differentiable = false}};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    return {Type(attrs.dtype, in[0].shape())};
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    e.output(0, e.cast(e.input(0), attrs.dtype));
  }
  static void run(const OpCall& call) {
    const Tensor& out = call.outputs[0];
    visit_dtype(out.dtype(), [&]<class T>(std::type_identity<T>) {
      for_each_text(call.inputs[0], [&](std::int64_t i, std::string_view text) {
        elements<T>(out)[i] = read<T>(text, out.dtype(), call.loc);
      });
    });
  }

 private:
  template <class T>
  static T read(std::string_view text, DType dtype, Loc loc) {
    using Wide =
        std::conditional_t<std::is_same_v<T, std::uint64_t>, std::uint64_t,
                           std::conditional_t<std::is_integral_v<T>, std::int64_t, double>>;
    std::string_view rest = text;
    if (rest.starts_with('+')) rest.remove_prefix(1);
    Wide value{};
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    if (error != std::errc() || end != rest.data() + rest.size()) {
      throw ValueError(fmt::format("cast to {}: \"{}\" is no number of that dtype", name_of(dtype),
                                   text.substr(0, 40)),
                       loc);
    }
    return convert_element<T>(value);
  }
};

template <class Op>
void add_kernel() {
  runtime::register_kernel(Op::schema.name, {.run = Op::run});
}

}  // namespace

Tensor text_concat(const Tensor& a, const Tensor& b, Loc loc) {
  const Tensor both[] = {a, b};
  const std::vector<Tensor> wide = broadcast_tensors(both, loc);
  return apply<TextConcat>({}, loc, wide[0], wide[1]);
}
Tensor text_matches(const Tensor& x, const std::string& pattern, Loc loc) {
  return apply<TextMatches>({.pattern = pattern}, loc, x);
}
Tensor text_in_case(const Tensor& x, bool upper, Loc loc) {
  return apply<TextCase>({.upper = upper}, loc, x);
}
std::array<Tensor, 2> text_split(const Tensor& x, const std::string& delimiter, std::int64_t most,
                                 Loc loc) {
  const Tensor* const inputs[] = {&x};
  const std::vector<Tensor> made =
      apply_multi<TextSplit>({.delimiter = delimiter, .most = most}, loc, inputs, 2);
  return {made[0], made[1]};
}
Tensor text_of(const Tensor& numbers, Loc loc) { return apply<TextOfNumbers>({}, loc, numbers); }
Tensor number_of_text(const Tensor& x, DType dtype, Loc loc) {
  return apply<NumberOfText>({.dtype = dtype}, loc, x);
}

void register_text_ops() {
  static const bool done = [] {
    add_kernel<TextConcat>();
    add_kernel<TextMatches>();
    add_kernel<TextCase>();
    add_kernel<TextSplit>();
    add_kernel<TextOfNumbers>();
    add_kernel<NumberOfText>();
    return true;
  }();
  static_cast<void>(done);
}

}  // namespace dyad::onnx
