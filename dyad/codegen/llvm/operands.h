#pragma once

#include <llvm/IR/IRBuilder.h>

#include <vector>

#include "dyad/codegen/plugin_abi.h"
#include "dyad/codegen/recipe.h"

namespace dyad::codegen {

/// What of the target the shape of the code depends on.
struct VectorTarget {
  unsigned bytes = 32;        ///< of a vector register
  bool masks_narrow = false;  ///< whether masked loads and stores of 8- and 16-bit elements exist
  bool scales = false;        ///< whether vectors are multiplied by powers of two at once
  /// Registers that a large program computes on side by side: its operations wait for one another,
  /// and a CPU looks too few instructions ahead to find the next register's.
  unsigned interleave = 1;
  unsigned interleave_long = 1;     ///< the same where an elementary function has company
  unsigned interleave_longest = 1;  ///< the same for programs of several elementary functions
};

/// The operands of a row: addresses and strides loaded once, elements loaded and stored for a block
/// of lanes.
class Operands {
 public:
  /// Emits the loads of addresses at the builder's place. `data` and `strides` are the function's
  /// arguments.
  Operands(llvm::IRBuilder<>& ir, const DyadFunction& function, llvm::Value* data,
           llvm::Value* strides);

  [[nodiscard]] DType dtype(std::size_t i) const {
    return static_cast<DType>(function_.operands[i].dtype);
  }
  [[nodiscard]] Access access(std::size_t i) const {
    return static_cast<Access>(function_.operands[i].access);
  }
  [[nodiscard]] bool is_index(std::size_t i) const { return function_.operands[i].is_index != 0; }

  /// Loads elements that all iterations share; call where control reaches only with elements to do.
  /// The values are used by `load` from then on.
  void load_shared(unsigned lanes);
  /// Moves all operands by row * row_strides (bytes).
  void move(llvm::Value* row, const std::vector<llvm::Value*>& row_strides);

  /// Elements at..at+lanes-1 as computed values. With `mask`, only its lanes are read. With `last`,
  /// places are clamped to 0..last instead, and read one by one.
  llvm::Value* load(std::size_t i, llvm::Value* at, unsigned lanes, llvm::Value* mask = nullptr,
                    llvm::Value* last = nullptr);
  void store(std::size_t i, llvm::Value* value, llvm::Value* at, unsigned lanes,
             llvm::Value* mask = nullptr, bool past_caches = false);

  [[nodiscard]] llvm::Value* address(std::size_t i) const { return base_[i]; }
  void set_address(std::size_t i, llvm::Value* address) { base_[i] = address; }
  /// Whether operand i walks through memory element by element.
  [[nodiscard]] bool walks(std::size_t i) const {
    return !is_index(i) && access(i) == Access::contiguous;
  }

 private:
  llvm::Value* places(llvm::Value* at, unsigned lanes);
  llvm::Value* index(std::size_t i, llvm::Value* at, unsigned lanes);
  llvm::Value* addresses(std::size_t i, llvm::Value* at, unsigned lanes, llvm::Value* last);
  llvm::Value* element(std::size_t i, llvm::Value* at);

  llvm::IRBuilder<>& ir_;
  const DyadFunction& function_;
  std::vector<llvm::Value*> base_, stride_;  // pointers, or the origin of an index; bytes or steps
  std::vector<llvm::Value*> shared_[2];      // one lane, many
};

/// 0, 1, ... lanes-1 as a vector of integers of `type`.
[[nodiscard]] llvm::Constant* lane_numbers(llvm::Type* type, unsigned lanes);

}  // namespace dyad::codegen
