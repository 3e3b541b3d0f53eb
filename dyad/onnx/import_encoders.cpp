#include <algorithm>
#include <cmath>
#include <limits>

#include "dyad/core/create.h"
#include "dyad/core/text.h"
#include "dyad/onnx/importer.h"
#include "dyad/ops/ops.h"

// What the encoders and scalers of ai.onnx.ml mean. Tables of keys are compared whole: an element
// with each key.

namespace dyad::onnx {
namespace {

/// A list of the node as an operand: integers, strings or f32.
Tensor listed(NodeImport& n, std::string_view name) {
  const pb::AttributeProto* found = n.attribute(name);
  if (found == nullptr) return {};
  if (found->has_t()) return n.importer().constant(n.tensor(name));
  if (found->strings_size() > 0) return n.importer().constant(strings(n.texts(name)));
  if (found->ints_size() > 0) {
    return n.importer().constant(
        tensor(std::vector<std::int64_t>(found->ints().begin(), found->ints().end())));
  }
  return n.importer().constant(
      tensor(std::vector<float>(found->floats().begin(), found->floats().end())));
}

/// The first list that the node has.
Tensor first_listed(NodeImport& n, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    if (n.has_attribute(name)) return listed(n, name);
  }
  n.fail("it has no " + std::string(*names.begin()));
}

/// Whether each element of x is each of the keys: [..., keys]. NaN is NaN here.
Tensor is_key(const Tensor& x, const Tensor& keys, Loc loc) {
  const Tensor wide = unsqueeze(x, -1, loc);
  Tensor same = eq(wide, keys, loc);
  if (!is_floating(x.dtype())) return same;
  return logical_or(same, logical_and(isnan(wide, loc), isnan(keys, loc), loc), loc);
}

/// values[i] where x is keys[i], `otherwise` elsewhere.
Tensor looked_up(NodeImport& n, const Tensor& x, const Tensor& keys, const Tensor& values,
                 const Tensor& otherwise) {
  const Loc loc = n.loc();
  if (keys.rank() != 1 || values.rank() != 1 || keys.numel().value() != values.numel().value()) {
    n.fail("it has " + std::to_string(keys.numel().value()) + " keys for " +
           std::to_string(values.numel().value()) + " values");
  }
  const Tensor hits = is_key(x, keys, loc);
  const Tensor at = argmax(to(hits, i32, loc), -1, false, false, loc);
  Shape shape;
  for (int i = 0; i < x.rank(); ++i) shape.push_back(x.size(i, loc));
  const Tensor found = reshape(index_select(values, 0, reshape(at, {-1}, loc), loc), shape, loc);
  return where(any(hits, {-1}, false, loc), found, otherwise, loc);
}

/// What is not in a table of values of this dtype.
Tensor default_of(NodeImport& n, DType dtype) {
  if (n.has_attribute("default_tensor")) {
    return n.importer().constant(reshape(n.tensor("default_tensor"), {}));
  }
  if (dtype == DType::string) {
    return n.importer().constant(
        reshape(strings(std::vector<std::string>{n.text("default_string", "_Unused")}), {}));
  }
  const Tensor number = is_floating(dtype)
                            ? tensor(static_cast<float>(n.number("default_float", -0.0)))
                            : tensor(n.integer("default_int64", -1));
  return n.importer().constant(to(number, dtype));
}

void encode_labels(NodeImport& n) {
  const Tensor keys =
      first_listed(n, {"keys_tensor", "keys_strings", "keys_int64s", "keys_floats"});
  const Tensor values =
      first_listed(n, {"values_tensor", "values_strings", "values_int64s", "values_floats"});
  n.output(0, looked_up(n, n.input(0), keys, values, default_of(n, values.dtype())));
}

/// Strings to numbers or back, by what enters.
void map_strings(NodeImport& n, const Tensor& words, const Tensor& numbers) {
  const Tensor x = n.input(0);
  const bool from_strings = x.dtype() == DType::string;
  const Tensor& values = from_strings ? numbers : words;
  n.output(0,
           looked_up(n, x, from_strings ? words : numbers, values, default_of(n, values.dtype())));
}

void encode_labels_by_place(NodeImport& n) {
  const std::vector<std::string> classes = n.texts("classes_strings");
  std::vector<std::int64_t> places;
  for (std::size_t i = 0; i < classes.size(); ++i) places.push_back(static_cast<std::int64_t>(i));
  map_strings(n, n.importer().constant(strings(classes)), n.importer().constant(tensor(places)));
}

void one_hot_categories(NodeImport& n) {
  Tensor x = n.input(0);
  const Tensor categories = first_listed(n, {"cats_strings", "cats_int64s"});
  if (x.dtype() != DType::string) x = to(x, i64, n.loc());
  if ((x.dtype() == DType::string) != (categories.dtype() == DType::string)) {
    n.fail("its categories are not of the kind of its input");
  }
  if (!n.flag("zeros", true)) n.fail("a category that it does not know is to be an error");
  n.output(0, to(is_key(x, categories, n.loc()), f32, n.loc()));
}

void impute(NodeImport& n) {
  const Tensor x = n.input(0);
  const Loc loc = n.loc();
  if (is_floating(x.dtype())) {
    const double replaced = n.number("replaced_value_float", 0);
    const Tensor found = std::isnan(replaced) ? isnan(x, loc) : eq(x, replaced, loc);
    n.output(0, where(found, to(listed(n, "imputed_value_floats"), x.dtype(), loc), x, loc));
    return;
  }
  const Tensor found = eq(x, n.integer("replaced_value_int64", 0), loc);
  n.output(0, where(found, to(listed(n, "imputed_value_int64s"), x.dtype(), loc), x, loc));
}

void normalize_rows(NodeImport& n) {
  const Tensor x = to(n.input(0), f32, n.loc());
  const Loc loc = n.loc();
  const std::string by = n.text("norm", "MAX");
  Tensor length;
  if (by == "MAX") {
    length = max(x, {-1}, true, loc);
  } else if (by == "L1") {
    length = sum(abs(x, loc), {-1}, true, loc);
  } else if (by == "L2") {
    length = sqrt(sum(mul(x, x, loc), {-1}, true, loc), loc);
  } else {
    n.fail("its norm is '" + by + "'");
  }
  n.output(0, where(eq(length, 0, loc), x, div(x, length, loc), loc));
}

void scale_features(NodeImport& n) {
  const Tensor x = to(n.input(0), f32, n.loc());
  n.output(0, mul(sub(x, listed(n, "offset"), n.loc()), listed(n, "scale"), n.loc()));
}

void join_features(NodeImport& n) {
  std::vector<Tensor> parts;
  for (const Tensor& part : n.inputs_from(0)) {
    const Tensor row = part.rank() == 1 ? unsqueeze(part, 0, n.loc()) : part;
    parts.push_back(to(row, f32, n.loc()));
  }
  n.output(0, concat(parts, 1, n.loc()));
}

void pick_features(NodeImport& n) {
  const Tensor x = n.input(0), at = reshape(n.input(1), {-1}, n.loc());
  n.output(0, index_select(x.rank() == 1 ? unsqueeze(x, 0, n.loc()) : x, -1, at, n.loc()));
}

void binarize(NodeImport& n) {
  const Tensor x = n.input(0);
  n.output(0, to(gt(x, n.number("threshold", 0), n.loc()), x.dtype(), n.loc()));
}

}  // namespace

std::span<const ModelRule> encoder_rules() {
  static constexpr ModelRule kRules[] = {
      {"ArrayFeatureExtractor", 1, pick_features, kMl},
      {"Binarizer", 1, binarize, kMl},
      {"CategoryMapper", 1,
       [](NodeImport& n) { map_strings(n, listed(n, "cats_strings"), listed(n, "cats_int64s")); },
       kMl},
      {"FeatureVectorizer", 1, join_features, kMl},
      {"Imputer", 1, impute, kMl},
      {"LabelEncoder", 1, encode_labels_by_place, kMl},
      {"LabelEncoder", 2, encode_labels, kMl},
      {"Normalizer", 1, normalize_rows, kMl},
      {"OneHotEncoder", 1, one_hot_categories, kMl},
      {"Scaler", 1, scale_features, kMl},
  };
  return kRules;
}

}  // namespace dyad::onnx
