#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dyad::runtime::cpu {

// Products whose factors fit the caches, on one thread, with AVX-512. A factor is words of 32 bits
// along k: one f32, or two bf16 that follow one another, the first in the low half. Of the latter
// an instruction adds both products to a sum of f32 (VDPBF16PS): twice the work of f32, and nothing
// has to be widened. Sums are taken in the order of k, of f32 each step rounded once (FMA); to
// VDPBF16PS subnormal elements are 0.

enum class WordKind : std::uint8_t { f32, bf16_pair };

/// Whether this CPU has the instructions, and the library may use them (ONEDNN_MAX_CPU_ISA).
[[nodiscard]] bool has_word_products(WordKind kind) noexcept;

using Word = std::uint32_t;

/// B[k, n] as the kernels read it: panels of columns, in each the words of k one after the other.
/// Where half a word is left a zero is behind it.
class WordPanels {
 public:
  explicit WordPanels(WordKind kind) : kind_(kind) {}

  /// Of B itself, whose rows are `row` bytes apart.
  void pack(const std::byte* b, std::int64_t row, std::int64_t k, std::int64_t n);
  /// Of B's transpose [n, k], whose rows are `row` bytes apart; k is whole words.
  void pack_transposed(const std::byte* b, std::int64_t row, std::int64_t k, std::int64_t n);

  /// Columns that follow one another in a panel.
  static constexpr std::int64_t kColumns = 64;
  [[nodiscard]] WordKind kind() const noexcept { return kind_; }
  /// The panel of columns kColumns * number and on.
  [[nodiscard]] const Word* panel(std::int64_t number) const noexcept {
    return lines_.data()->words + number * kColumns * depth_;
  }
  /// From one word of k to the next in that panel.
  [[nodiscard]] std::int64_t row(std::int64_t number) const noexcept;

 private:
  struct alignas(64) Line {
    Word words[16];
  };
  void resize(std::int64_t k, std::int64_t n);
  /// Calls `pack` for each panel with its first column, how many, where it is to be, and its rows'
  /// distance.
  template <class Pack>
  void each_panel(std::int64_t n, Pack pack);

  WordKind kind_;
  std::vector<Line> lines_;
  std::int64_t depth_ = 0, columns_ = 0;  // words of k, and n as whole vectors
};

/// A[m, k]: where its first word is, and bytes from one row to the next and from word to word.
struct WordRows {
  const std::byte* at = nullptr;
  std::int64_t row = 0, word = sizeof(Word);
};

/// C[m, n] = scale A[m, k] B[k, n], or plus that, of the first k and n of B; rows of C are `c_row`
/// apart. With `adds` the scale is 1. Where half a word of k is left all of it is taken, of A and
/// of B.
void word_product(std::int64_t m, std::int64_t n, std::int64_t k, const WordRows& a,
                  const WordPanels& b, bool adds, float* c, std::int64_t c_row, float scale = 1);

/// Dense x[m, n] as A[m, n], rounded into `room` where words are of bf16.
[[nodiscard]] WordRows as_factor(WordKind kind, const float* x, std::int64_t m, std::int64_t n,
                                 std::vector<Word>& room);
/// Its transpose, A[n, m].
[[nodiscard]] WordRows as_transposed_factor(WordKind kind, const float* x, std::int64_t m,
                                            std::int64_t n, std::vector<Word>& room);

}  // namespace dyad::runtime::cpu
