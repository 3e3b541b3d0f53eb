#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dyad/ir/scalar.h"

namespace dyad::codegen {

inline constexpr int kBlock = 256;

/// A scalar program laid out for blocks of elements: each value has a register of kBlock elements,
/// shared by values that do not live together.
class BlockProgram {
 public:
  explicit BlockProgram(const ScalarProgram& program);

  struct Step {
    scalar::Op op = scalar::Op::constant;
    ScalarType operand = ScalarType::f32;  ///< type of the operands
    ScalarType type = ScalarType::f32;     ///< of the result
    DType dtype = DType::f32;              ///< what `round` rounds to
    std::uint16_t to = 0;
    std::uint16_t from[3] = {};
    /// Not 0: this is no operation; so many steps after it are left out unless an element of
    /// register from[0] is true.
    std::uint32_t guarded = 0;
  };

  /// Registers with the constants and params in place; `run` may then be called any number of
  /// times.
  class Registers {
   public:
    Registers(const BlockProgram& program, const std::uint64_t* slots, std::int64_t width);
    /// Where input `i` is read from: write elements there, or point it elsewhere with `set_input`.
    [[nodiscard]] void* input(std::size_t i) noexcept { return at_[program_.inputs_[i]]; }
    void set_input(std::size_t i, void* elements) noexcept { at_[program_.inputs_[i]] = elements; }
    [[nodiscard]] const void* output(std::size_t i) const noexcept {
      return at_[program_.outputs_[i]];
    }
    /// Computes n <= kBlock elements.
    void run(int n);

   private:
    const BlockProgram& program_;
    std::vector<std::byte> memory_;
    std::vector<void*> at_;
  };

 private:
  struct Fill {
    std::uint16_t to;
    ScalarType type;
    bool is_param;
    std::uint64_t bits;  ///< or the slot
  };
  std::vector<Step> steps_;
  std::vector<Fill> fills_;
  std::vector<std::uint16_t> inputs_, outputs_;
  std::uint16_t registers_ = 0;
};

/// Runs steps on registers; the best of several builds of the same code for the CPU at hand.
void run_steps(std::span<const BlockProgram::Step> steps, void* const* registers, int n);

}  // namespace dyad::codegen
