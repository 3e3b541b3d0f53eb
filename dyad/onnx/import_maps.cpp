#include "dyad/core/create.h"
#include "dyad/core/text.h"
#include "dyad/onnx/import_scores.h"
#include "dyad/onnx/text_ops.h"
#include "dyad/ops/ops.h"

// Maps of ai.onnx.ml. A graph has tensors only, so a map is two of them: keys and values, in the
// same order; a list of maps with the same keys has a row of values for each.

namespace dyad::onnx {
namespace {

/// Scores [n, classes] with the names of the classes.
void name_scores(NodeImport& n) {
  const Tensor keys = class_labels(n, "classlabels_int64s", "classlabels_strings");
  if (!keys.defined()) n.fail("it names no classes");
  const Tensor x = features(n);
  const Dim columns = x.size(1, n.loc());
  if (columns.is_number() && columns.number() != keys.numel().value()) {
    n.fail("it has " + std::to_string(keys.numel().value()) + " classes for " +
           std::to_string(columns.number()) + " columns");
  }
  Imported made = imported(x);
  made.keys = keys;
  n.set_output(0, std::move(made));
}

struct MapInput {
  Tensor keys, values;
};

MapInput map_input(NodeImport& n) {
  const Imported& given = n.value(0);
  if (!given.keys.defined()) n.fail("input 0 must be a map");
  return {n.importer().constant(given.keys), n.importer().constant(given.tensor)};
}

/// The values of the keys of a vocabulary, 0 for those that the map does not have: [1, words].
void vectorize(NodeImport& n) {
  const Loc loc = n.loc();
  const auto [keys, values] = map_input(n);
  const Tensor words = class_labels(n, "int64_vocabulary", "string_vocabulary");
  if (!words.defined()) n.fail("it has no vocabulary");
  if (values.dtype() == DType::string) n.fail("the values of its map are strings");
  const Tensor found = eq(unsqueeze(words, -1, loc), keys, loc);
  const Tensor row = sum(where(found, values, 0, loc), {-1}, false, loc);
  n.output(0, unsqueeze(to(row, values.dtype(), loc), 0, loc));
}

/// The values of a map with integer keys: in the order of the keys, or each at the place that its
/// key says. Numbers become text as Cast writes them, not with ONNX Runtime's six decimals.
void flatten_map(NodeImport& n) {
  const Loc loc = n.loc();
  const auto [keys, given] = map_input(n);
  const std::string kind = n.text("cast_to", "TO_FLOAT");
  Tensor values = given;
  if (kind == "TO_STRING") {
    if (values.dtype() != DType::string) values = text_of(values, loc);
  } else {
    const DType dtype = kind == "TO_INT64" ? i64 : f32;
    values = values.dtype() == DType::string ? number_of_text(values, dtype, loc)
                                             : to(values, dtype, loc);
  }
  if (n.text("map_form", "DENSE") == "DENSE") {
    values = index_select(values, 0, argsort(keys, 0, false, loc), loc);
  } else {
    if (values.dtype() == DType::string) n.fail("its map is sparse and has strings");
    const Tensor places = arange(n.integer("max_map", 1), i64, loc);
    const Tensor found = eq(unsqueeze(places, -1, loc), keys, loc);
    values = to(sum(where(found, values, 0, loc), {-1}, false, loc), values.dtype(), loc);
  }
  n.output(0, unsqueeze(values, 0, loc));
}

}  // namespace

std::span<const ModelRule> map_rules() {
  static constexpr ModelRule kRules[] = {
      {"CastMap", 1, flatten_map, kMl},
      {"DictVectorizer", 1, vectorize, kMl},
      {"ZipMap", 1, name_scores, kMl},
  };
  return kRules;
}

}  // namespace dyad::onnx
