#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "cases.h"
#include "dyad/ir/onnx_node.h"
#include "dyad/ops/registry.h"
#include "dyad/runtime/op_kernel.h"
#include "onnx_forms.h"

namespace dyad {
namespace {

std::string names_of(DTypeSet set) {
  if (set == kAny) return "any";
  if (set == kNumber) return "number";
  if (set == kFloat) return "floating";
  if (set == kEverything) return "everything";
  if (set == (kEverything & ~kComplex)) return "everything but complex";
  if (set == kPlain) return "everything but string";
  if (set == (kAny | kSmall)) return "any or small";
  if (set == kComplex) return "complex";
  if (set == (kNumber | kComplex)) return "number or complex";
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

/// `forms`: what rows write themselves as.
std::string onnx_form(const OpInfo& row, const std::map<std::string, std::string>& forms) {
  if (!row.onnx.op.empty()) {
    return std::string(row.onnx.op) + " (" + std::to_string(row.onnx.since) + ")";
  }
  if (row.to_onnx) {
    const auto form = forms.find(std::string(row.name));
    return form == forms.end() ? "" : form->second;
  }
  if (row.expand) return "by its parts";
  const bool reads_bits = row.name == "bitcast" || row.name == "nextafter";
  return row.kind == BodyKind::pointwise && !reads_bits ? "by what it computes" : "";
}

/// Whether a compiler joins it with its neighbours into one kernel.
std::string_view fused(const OpInfo& row) {
  switch (row.kind) {
    case BodyKind::pointwise:
      return "yes";
    case BodyKind::reduction:
      return "with its input";
    case BodyKind::view:
      return "no work";
    case BodyKind::composite:
      return "its parts";
    default:
      return "";
  }
}

std::string_view devices(const OpInfo& row) {
  return row.kind != BodyKind::opaque || runtime::find_kernel(row) ? "CPU" : "none";
}

/// A bar would end the cell.
std::string cell(std::string_view text) {
  std::string escaped;
  for (const char c : text) escaped += c == '|' ? "\\|" : std::string(1, c);
  return escaped;
}

// --- the functions that users call ---------------------------------------------------------------

struct Function {
  std::string name, doc;
};

/// The first sentence of the text of a doc comment.
std::string first_sentence(const std::string& text) {
  for (std::size_t at = text.find(". "); at != std::string::npos; at = text.find(". ", at + 1)) {
    // A formula goes on with a small letter or a digit.
    const char next = at + 2 < text.size() ? text[at + 2] : 'A';
    const bool abbreviation = at > 0 && text[at - 1] == '.';
    if (!abbreviation && (std::isupper(static_cast<unsigned char>(next)) != 0 || next == '`')) {
      return text.substr(0, at + 1);
    }
  }
  return text;
}

/// The functions that a header declares in namespace dyad, each once, with the doc comment right
/// above it.
std::vector<Function> functions_of(const std::filesystem::path& header) {
  std::ifstream file(header);
  std::vector<Function> found;
  std::string comment;
  bool outside = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("namespace dyad::") || line.starts_with("namespace ops") ||
        line.starts_with("namespace custom") || line.starts_with("namespace detail") ||
        line.starts_with("namespace exec")) {
      outside = true;
    }
    if (line.starts_with("}  // namespace")) outside = false;
    if (outside) continue;
    if (line.starts_with("///")) {
      const std::string text = line.size() > 4 ? line.substr(4) : "";
      comment += (comment.empty() ? "" : " ") + text;
      continue;
    }
    if (line.empty() || line.starts_with("//") || line.starts_with("#") || line.starts_with(" ")) {
      if (line.empty()) comment.clear();
      continue;
    }
    if (line.starts_with("template")) continue;
    if (line.starts_with("using")) {
      comment.clear();
      continue;
    }
    const std::size_t paren = line.find('(');
    if (paren == std::string::npos || line.starts_with("struct") || line.starts_with("class") ||
        line.starts_with("inline constexpr")) {
      continue;
    }
    std::size_t begin = paren;
    while (begin > 0 && (std::isalnum(static_cast<unsigned char>(line[begin - 1])) != 0 ||
                         line[begin - 1] == '_')) {
      --begin;
    }
    const std::string name = line.substr(begin, paren - begin);
    if (name.empty() || line.find("operator") != std::string::npos || begin == 0) continue;
    const auto known = std::ranges::find(found, name, &Function::name);
    if (known == found.end()) found.push_back({name, first_sentence(comment)});
    comment.clear();
  }
  return found;
}

/// The headers of functions for programs.
std::vector<std::filesystem::path> headers_of_functions() {
  std::vector<std::filesystem::path> headers;
  for (const auto& entry : std::filesystem::directory_iterator("dyad/ops")) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".h") || name.find("support") != std::string::npos) continue;
    if (name != "registry.h") headers.push_back(entry.path());
  }
  std::ranges::sort(headers);
  return headers;
}

std::string functions() {
  std::string text =
      "\n## Functions\n\nWhat programs call, by header: some apply one row, others several.\n";
  for (const auto& header : headers_of_functions()) {
    const std::vector<Function> declared = functions_of(header);
    if (declared.empty()) continue;
    text += "\n`" + header.generic_string() + "`\n\n| function | |\n|---|---|\n";
    for (const Function& f : declared) text += "| `" + f.name + "` | " + cell(f.doc) + " |\n";
  }
  return text;
}

std::string page() {
  const std::map<std::string, std::string> forms = testing::onnx_forms();
  const std::pair<std::string_view, std::span<const OpInfo* const>> families[] = {
      {"Arithmetic", ops::arithmetic_rows()},
      {"Comparison and logic", ops::compare_rows()},
      {"Elementary functions", ops::elementary_rows()},
      {"Trigonometric and hyperbolic functions", ops::trigonometry_rows()},
      {"Special functions", ops::special_rows()},
      {"More functions of numbers", ops::numeric_rows()},
      {"Bessel functions", ops::bessel_rows()},
      {"Division, rounding and bounds", ops::division_rows()},
      {"Bits", ops::bits_rows()},
      {"Bits as another dtype", ops::bitcast_rows()},
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
      {"Quantisation", ops::quantize_rows()},
      {"Products of quantised numbers", ops::quantized_products_rows()},
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
      {"Checks of elements", ops::checked_rows()},
      {"Embeddings", ops::embedding_rows()},
      {"Complex numbers", ops::complex_rows()},
      {"Fourier transforms", ops::fft_rows()},
      {"Attention", ops::attention_rows()},
      {"Recurrent layers", ops::recurrent_rows()},
      {"Positions and caches", ops::positional_rows()},
      {"Connectionist temporal classification", ops::ctc_rows()},
      {"Decoding of its results", ops::ctc_decode_rows()},
  };
  std::string text =
      "# Operators\n\n"
      "The rows of the registry, written by `tests/ops/reference_page_test.cpp`. The functions "
      "that "
      "users call are in `dyad/ops/*.h`;\nmany take friendlier arguments than the row that they "
      "apply. Attributes are shown with their defaults. The ONNX column names the\noperator and "
      "the opset that brought the version that is written; several make the form together, the "
      "shortest one where it depends on attributes\nand dtypes (beside `Cast` and `Constant`).\n";
  for (const auto& [name, rows] : families) {
    text += "\n## " + std::string(name) +
            "\n\n| operator | | inputs | attributes | runs as | fused | devices | "
            "gradient | ONNX |\n"
            "|---|---|---|---|---|---|---|---|---|\n";
    for (const OpInfo* row : rows) {
      text += "| `" + std::string(row->name) + "` | " + cell(row->doc) + " | " +
              arguments(row->inputs) + " | " + attributes(*row) + " | " +
              std::string(kind_name(row->kind)) + " | " + std::string(fused(*row)) + " | " +
              std::string(devices(*row)) + " | " + gradient(*row) + " | " + onnx_form(*row, forms) +
              " |\n";
    }
  }
  return text + functions();
}

TEST(ReferencePage, ListsPlainFunctionsWithTheirFirstSentences) {
  const std::vector<Function> views = functions_of("dyad/ops/views.h");
  const auto transpose = std::ranges::find(views, "transpose", &Function::name);
  ASSERT_NE(transpose, views.end());
  EXPECT_EQ(transpose->doc, "x with two axes exchanged.");
  const auto reshape = std::ranges::find(views, "reshape", &Function::name);
  ASSERT_NE(reshape, views.end());
  EXPECT_EQ(reshape->doc,
            "The elements in row-major order in another shape; one size may be -1: what the others "
            "leave.");
}

TEST(ReferencePage, EveryFunctionHasACommentOfItsOwn) {
  for (const auto& header : headers_of_functions()) {
    for (const Function& f : functions_of(header)) {
      EXPECT_FALSE(f.doc.empty()) << header << " says nothing of " << f.name;
    }
  }
}

std::string onnx_page() {
  ops::register_builtin_ops();
  std::string text =
      "# ONNX operators that are read\n\n"
      "The rules of `dyad/ops/*_onnx.cpp`, and the pointwise operators of Dyad that are ONNX's "
      "own, written by\n"
      "`tests/ops/reference_page_test.cpp`. An operator that changed "
      "has a rule for each meaning, from the version (opset) of its domain on in which it got it. "
      "Beside these:\n"
      "functions of the model, functions that ONNX defines by other operators, and, in "
      "`dyad/onnx/import_*.cpp`, operators with\n"
      "subgraphs and those of sequences, optionals and strings, and the learned models of "
      "ai.onnx.ml.\n";
  std::map<std::string_view, std::map<std::string_view, std::string>> versions;
  for (const OnnxRule* rule : all_onnx_rules()) {
    std::string& all = versions[rule->domain][rule->op];
    all += (all.empty() ? "" : ", ") + std::to_string(rule->since);
  }
  // A row that is exported as an operator is its meaning where no rule is, in every version.
  for (const OpInfo* row : all_ops()) {
    const bool is_rule = !row->onnx.op.empty() && row->attrs == &attrs_info<NoAttrs> &&
                         row->outputs.size() == 1 && row->kind == BodyKind::pointwise;
    if (is_rule) versions[{}].try_emplace(row->onnx.op, "1");
  }
  for (const auto& [domain, operators] : versions) {
    text += "\n## " + std::string(domain.empty() ? "ai.onnx" : domain) +
            "\n\n| operator | versions that brought a meaning |\n|---|---|\n";
    for (const auto& [op, numbers] : operators) {
      text += "| `" + std::string(op) + "` | " + numbers + " |\n";
    }
  }
  return text;
}

/// With DYAD_UPDATE_DOCS=1 in the environment the page is written anew.
void expect_page(const char* path, const std::string& text) {
  if (std::getenv("DYAD_UPDATE_DOCS") != nullptr) std::ofstream(path) << text;
  std::ifstream file(path);
  std::stringstream found;
  found << file.rdbuf();
  EXPECT_TRUE(found.str() == text)
      << "run: DYAD_UPDATE_DOCS=1 build/bin/test_ops --gtest_filter='ReferencePage*'";
}

TEST(ReferencePage, IsWhatTheRowsSay) {
  if (testing::only_some_cases()) GTEST_SKIP() << "the ONNX forms are those of all cases";
  expect_page("docs/operators.md", page());
}

TEST(ReferencePage, OnnxRulesAreListed) { expect_page("docs/onnx_operators.md", onnx_page()); }

}  // namespace
}  // namespace dyad
