#include <algorithm>

#include "dyad/core/create.h"
#include "dyad/core/text.h"
#include "dyad/core/text_pattern.h"
#include "dyad/onnx/importer.h"
#include "dyad/onnx/text_ops.h"
#include "dyad/ops/ops.h"

// What ONNX's operators of strings mean, and of n-grams.

namespace dyad::onnx {
namespace {

void change_case(NodeImport& n, Tensor& x) {
  const std::string action = n.text("case_change_action", "NONE");
  if (action == "UPPER" || action == "LOWER") {
    x = text_in_case(x, action == "UPPER", n.loc());
  } else if (action != "NONE") {
    n.fail("its case_change_action is '" + action + "'");
  }
}

/// x[c] or [1, c] without stop words; one empty string when nothing is left.
void normalize_strings(NodeImport& n) {
  const Tensor x = n.input(0);
  const Loc loc = n.loc();
  std::vector<std::string> stops = n.texts("stopwords");
  Tensor words = x.rank() == 2 ? squeeze(x, 0, loc) : x;
  if (!stops.empty()) {
    const bool exact = n.flag("is_case_sensitive");
    if (!exact) {
      for (std::string& stop : stops) stop = with_case(stop, false);
    }
    const Tensor compared = exact ? words : text_in_case(words, false, loc);
    const Tensor stop_words = n.importer().constant(strings(stops));
    const Tensor keep =
        logical_not(any(eq(unsqueeze(compared, -1, loc), stop_words, loc), {-1}, false, loc), loc);
    const Tensor none_kept = logical_not(any(keep, {0}, true, loc), loc);
    const Tensor empty = n.importer().constant(strings(std::vector<std::string>{""}));
    words = compress(concat({keep, none_kept}, 0, loc), concat({words, empty}, 0, loc), 0, loc);
  }
  change_case(n, words);
  n.output(0, x.rank() == 2 ? unsqueeze(words, 0, loc) : words);
}

/// The n-grams of a pool, n elements each, in a tensor [n, grams].
struct Grams {
  std::int64_t length = 1;
  std::int64_t count = 0;
  Tensor elements;
};

std::vector<Grams> grams_of(NodeImport& n) {
  const Ints begins = n.integers("ngram_counts", {});
  const Ints numbers = n.integers("pool_int64s", {});
  const std::vector<std::string> words = n.texts("pool_strings");
  const auto size = static_cast<std::int64_t>(words.empty() ? numbers.size() : words.size());
  std::vector<Grams> found;
  for (std::size_t i = 0; i < begins.size(); ++i) {
    const auto length = static_cast<std::int64_t>(i) + 1;
    const std::int64_t begin = begins[i], end = i + 1 < begins.size() ? begins[i + 1] : size;
    if (begin < 0 || end < begin || end > size || (end - begin) % length != 0) {
      n.fail("its ngram_counts do not fit its pool of " + std::to_string(size));
    }
    Grams grams{.length = length, .count = (end - begin) / length, .elements = {}};
    std::vector<std::int64_t> as_numbers;
    std::vector<std::string> as_words;
    for (std::int64_t k = 0; k < length; ++k) {
      for (std::int64_t g = 0; g < grams.count; ++g) {
        const auto at = static_cast<std::size_t>(begin + g * length + k);
        if (words.empty()) as_numbers.push_back(numbers[at]);
        if (!words.empty()) as_words.push_back(words[at]);
      }
    }
    const Shape shape{length, grams.count};
    grams.elements = words.empty() ? tensor(as_numbers, shape) : strings(as_words, shape);
    found.push_back(std::move(grams));
  }
  return found;
}

constexpr std::int64_t kMostSkips = std::int64_t{1} << 32;

/// How often each n-gram stands in x[..., c], elements up to `skips` apart: [..., grams].
Tensor counts_of(NodeImport& n, const Tensor& x, const Grams& grams, std::int64_t skips) {
  const Loc loc = n.loc();
  if (x.rank() == 0) n.fail("its input must have an axis");
  const Dim length = x.size(x.rank() - 1, loc);
  if (skips < 0 || skips > kMostSkips) {
    n.fail("its max_skip_count is " + std::to_string(skips) + ", not from 0 to " +
           std::to_string(kMostSkips));
  }
  Shape shape;
  for (int i = 0; i + 1 < x.rank(); ++i) shape.push_back(x.size(i, loc));
  shape.push_back(grams.count);
  Tensor total = zeros(shape, i64, loc);
  const Tensor elements = n.importer().constant(grams.elements);
  for (std::int64_t apart = 1; apart <= (grams.length == 1 ? 1 : skips + 1); ++apart) {
    n.importer().count_step();
    const Dim places = length - (grams.length - 1) * apart;
    if (places.is_number() && places.number() <= 0) break;
    Tensor found;
    for (std::int64_t k = 0; k < grams.length; ++k) {
      const Tensor part = slice(x, -1, k * apart, places + k * apart, 1, loc);
      const Tensor same = eq(unsqueeze(part, -1, loc), select(elements, 0, k, loc), loc);
      found = found.defined() ? logical_and(found, same, loc) : same;
    }
    total = add(total, sum(to(found, i64, loc), {-2}, false, loc), loc);
  }
  return total;
}

void count_grams(NodeImport& n) {
  const Tensor x = n.input(0);
  const Loc loc = n.loc();
  const std::int64_t least = n.integer("min_gram_length", 1),
                     most = n.integer("max_gram_length", 1);
  const std::string mode = n.text("mode", "TF");
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF") n.fail("its mode is '" + mode + "'");
  const std::vector<Grams> all = grams_of(n);
  const Ints columns = n.integers("ngram_indexes", {});
  std::int64_t width = 0, grams = 0;
  constexpr std::int64_t kMostColumns = std::int64_t{1} << 40;
  for (const std::int64_t column : columns) {
    if (column < 0 || column >= kMostColumns) {
      n.fail("its ngram_indexes must be from 0 to " + std::to_string(kMostColumns - 1));
    }
    width = std::max(width, column + 1);
  }
  for (const Grams& of : all) grams += of.count;
  if (grams != static_cast<std::int64_t>(columns.size())) {
    n.fail("its pool has " + std::to_string(grams) + " n-grams, but ngram_indexes are " +
           std::to_string(columns.size()));
  }
  std::vector<Tensor> parts;
  for (const Grams& of : all) {
    Shape none;
    for (int i = 0; i + 1 < x.rank(); ++i) none.push_back(x.size(i, loc));
    none.push_back(of.count);
    const bool counted = of.count > 0 && of.length >= least && of.length <= most;
    parts.push_back(counted ? counts_of(n, x, of, n.integer("max_skip_count", 0))
                            : zeros(none, i64, loc));
  }
  Tensor weighted = to(concat(parts, -1, loc), f32, loc);
  if (mode == "IDF") weighted = to(gt(weighted, 0, loc), f32, loc);
  if (mode != "TF" && n.has_attribute("weights")) {
    const std::vector<double> weights = n.numbers("weights");
    weighted = mul(weighted, to(n.importer().constant(tensor(weights)), f32, loc), loc);
  }
  Shape shape;
  for (int i = 0; i + 1 < x.rank(); ++i) shape.push_back(x.size(i, loc));
  shape.push_back(width);
  const std::vector<std::int64_t> at(columns.begin(), columns.end());
  n.output(0,
           index_add(zeros(shape, f32, loc), -1, n.importer().constant(tensor(at)), weighted, loc));
}

/// To and from strings; anything else is the rule of numbers.
void cast_to(NodeImport& n, DType dtype) {
  const Tensor x = n.input(0);
  if (x.dtype() == DType::string) {
    n.output(0, dtype == DType::string ? x : number_of_text(x, dtype, n.loc()));
  } else if (dtype == DType::string) {
    n.output(0, text_of(x, n.loc()));
  } else {
    find_onnx_rule("", n.op(), n.version())->build(n);
  }
}

}  // namespace

std::span<const ModelRule> text_rules() {
  static constexpr ModelRule kRules[] = {
      {"StringConcat", 20,
       [](NodeImport& n) { n.output(0, text_concat(n.input(0), n.input(1), n.loc())); }},
      {"StringSplit", 20,
       [](NodeImport& n) {
         const auto [pieces, counts] =
             text_split(n.input(0), n.text("delimiter", ""), n.integer("maxsplit", -1), n.loc());
         n.output(0, pieces);
         n.output(1, counts);
       }},
      {"RegexFullMatch", 20,
       [](NodeImport& n) {
         n.output(0, text_matches(n.input(0), n.text("pattern", ""), n.loc()));
       }},
      {"StringNormalizer", 10, normalize_strings},
      {"TfIdfVectorizer", 9, count_grams},
      {"Cast", 6, [](NodeImport& n) { cast_to(n, n.dtype("to", f32)); }},
      {"CastLike", 15, [](NodeImport& n) { cast_to(n, n.input(1).dtype()); }},
  };
  return kRules;
}

}  // namespace dyad::onnx
