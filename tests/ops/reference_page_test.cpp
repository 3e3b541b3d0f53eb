#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "dyad/ops/registry.h"

namespace dyad {
namespace {

std::string names_of(DTypeSet set) {
  if (set == kAny) return "any";
  if (set == kNumber) return "number";
  if (set == kFloat) return "floating";
  if (set == kIndex) return "i64 or i32";
  std::string names;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (contains(set, dtype)) names += (names.empty() ? "" : " or ") + std::string(name_of(dtype));
  }
  return names;
}

std::string arguments(std::span<const ArgInfo> args) {
  std::string text;
  for (const ArgInfo& arg : args) {
    text += (text.empty() ? "`" : ", `") + std::string(arg.name) + (arg.optional ? "?" : "") +
            (arg.variadic ? "...`" : "`") + " " + names_of(arg.dtypes);
  }
  return text;
}

std::string attributes(const OpInfo& row) {
  const Ref<Attrs> defaults = Attrs::edited(*row.attrs, nullptr, [](void*) {});
  const std::string text = to_string(*row.attrs, defaults->data());
  return text.empty() ? "" : "`" + text.substr(1, text.size() - 2) + "`";
}

std::string_view kind_name(BodyKind kind) {
  switch (kind) {
    case BodyKind::pointwise:
      return "element by element";
    case BodyKind::reduction:
      return "reduction";
    case BodyKind::view:
      return "view";
    case BodyKind::composite:
      return "of other operators";
    case BodyKind::opaque:
      return "kernel";
    case BodyKind::control:
      return "control";
    case BodyKind::structural:
      return "graph";
  }
  return "";
}

std::string gradient(const OpInfo& row) {
  if (row.grad) return "rule";
  const bool by_expansion = row.kind == BodyKind::composite && row.samples.differentiable;
  return by_expansion ? "of its parts" : "";
}

std::string onnx(const OpInfo& row) {
  if (!row.onnx.op.empty()) {
    return std::string(row.onnx.op) + " (" + std::to_string(row.onnx.since) + ")";
  }
  return row.to_onnx ? "yes" : "";
}

/// A bar would end the cell.
std::string cell(std::string_view text) {
  std::string escaped;
  for (const char c : text) escaped += c == '|' ? "\\|" : std::string(1, c);
  return escaped;
}

std::string page() {
  const std::pair<std::string_view, std::span<const OpInfo* const>> families[] = {
      {"Arithmetic", ops::arithmetic_rows()},
      {"Comparison and logic", ops::compare_rows()},
      {"Elementary functions", ops::elementary_rows()},
      {"Trigonometric and hyperbolic functions", ops::trigonometry_rows()},
      {"Special functions", ops::special_rows()},
      {"Division, rounding and bounds", ops::division_rows()},
      {"Bits", ops::bits_rows()},
      {"Activations", ops::activation_rows()},
      {"Piecewise activations", ops::piecewise_rows()},
      {"Reductions", ops::reduce_rows()},
      {"Extremes", ops::extremes_rows()},
      {"Moments and norms", ops::moments_rows()},
      {"Running sums and recurrences", ops::cumulative_rows()},
      {"Sorting and searching", ops::sort_rows()},
      {"Counting", ops::statistics_rows()},
      {"Indices", ops::index_rows()},
      {"Scattering", ops::scatter_rows()},
      {"Rearranging", ops::rearrange_rows()},
      {"Views", ops::views_rows()},
      {"Slices", ops::slices_rows()},
      {"Creation", ops::creation_rows()},
      {"Indexing and joining", ops::indexing_rows()},
      {"Products", ops::linalg_rows()},
      {"Products by equation", ops::einsum_rows()},
      {"Systems of equations", ops::solve_rows()},
      {"Matrix decompositions", ops::decompositions_rows()},
      {"Convolution", ops::conv_rows()},
      {"Deformable convolution", ops::deform_conv_rows()},
      {"Pooling", ops::pooling_rows()},
      {"Windows as columns", ops::im2col_rows()},
      {"Resizing", ops::resize_rows()},
      {"Sampling by a grid", ops::grid_sample_rows()},
      {"Regions of images", ops::roi_rows()},
      {"Normalisation of layers and groups", ops::group_norm_rows()},
      {"Other normalisations", ops::normalize_rows()},
      {"Softmax and normalisation", ops::norm_rows()},
      {"Triangles and diagonals", ops::diagonal_rows()},
      {"Losses", ops::loss_rows()},
      {"More losses", ops::loss_function_rows()},
      {"Random numbers", ops::random_rows()},
      {"Embeddings", ops::embedding_rows()},
      {"Attention", ops::attention_rows()},
      {"Recurrent layers", ops::recurrent_rows()},
      {"Positions and caches", ops::positional_rows()},
      {"Connectionist temporal classification", ops::ctc_rows()},
  };
  std::string text =
      "# Operators\n\n"
      "The rows of the registry, written by `tests/ops/reference_page_test.cpp`. The functions "
      "that "
      "users call are in `dyad/ops/*.h`;\nmany take friendlier arguments than the row that they "
      "apply. Attributes are shown with their defaults. The ONNX column names the\noperator and "
      "the opset that brought the form that is written; `yes` is a form of several nodes, or one "
      "that depends "
      "on attributes.\n";
  for (const auto& [name, rows] : families) {
    text += "\n## " + std::string(name) +
            "\n\n| operator | | inputs | attributes | runs as | gradient | ONNX |\n"
            "|---|---|---|---|---|---|---|\n";
    for (const OpInfo* row : rows) {
      text += "| `" + std::string(row->name) + "` | " + cell(row->doc) + " | " +
              arguments(row->inputs) + " | " + attributes(*row) + " | " +
              std::string(kind_name(row->kind)) + " | " + gradient(*row) + " | " + onnx(*row) +
              " |\n";
    }
  }
  return text;
}

/// With DYAD_UPDATE_DOCS=1 in the environment the page is written anew.
TEST(ReferencePage, IsWhatTheRowsSay) {
  const char* const path = "docs/operators.md";
  if (std::getenv("DYAD_UPDATE_DOCS") != nullptr) std::ofstream(path) << page();
  std::ifstream file(path);
  std::stringstream found;
  found << file.rdbuf();
  EXPECT_TRUE(found.str() == page())
      << "run: DYAD_UPDATE_DOCS=1 build/bin/test_ops --gtest_filter='ReferencePage*'";
}

}  // namespace
}  // namespace dyad
