#include "dyad/codegen/block_program.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "dyad/ir/scalar_evaluate.h"
#include "dyad/ir/scalar_schedule.h"

namespace dyad::codegen {

using scalar::Instruction;
using scalar::Op;

BlockProgram::BlockProgram(const ScalarProgram& program) {
  const auto code = program.instructions();
  const auto order = scalar::schedule(code, program.outputs());
  constexpr std::size_t kForever = SIZE_MAX;
  std::vector<std::size_t> last_use(code.size(), 0);  // places in `order`
  for (std::size_t at = 0; at < order.size(); ++at) {
    const Instruction& i = code[order[at].id];
    for (int a = 0; a < scalar::arity(i.op); ++a) last_use[i.args[a]] = at;
  }
  for (std::uint32_t id : program.outputs()) last_use[id] = kForever;

  std::vector<std::uint16_t> place(code.size()), free;
  std::vector<std::pair<std::size_t, std::size_t>> open;  // guards, and the places behind theirs
  for (std::size_t at = 0; at < order.size(); ++at) {
    const std::uint32_t id = order[at].id;
    const Instruction& i = code[id];
    while (!open.empty() && open.back().second == at) {
      const std::size_t guard = open.back().first;
      steps_[guard].guarded = static_cast<std::uint32_t>(steps_.size() - guard - 1);
      open.pop_back();
    }
    if (order[at].guarded > 0) {
      open.emplace_back(steps_.size(), at + 1 + order[at].guarded);
      steps_.push_back({.from = {place[i.args[0]]}});
      continue;
    }
    const bool computed = scalar::arity(i.op) > 0;
    // Constants, params and inputs keep their registers: they are filled before the first step.
    if (computed && !free.empty()) {
      place[id] = free.back();
      free.pop_back();
    } else {
      place[id] = registers_++;
    }
    if (i.op == Op::constant) fills_.push_back({place[id], i.type, false, i.imm});
    if (i.op == Op::param) fills_.push_back({place[id], i.type, true, i.imm});
    if (!computed) continue;
    Step step{i.op, code[i.args[0]].type, i.type, i.dtype, place[id], {}};
    if (is_select(i.op)) step.operand = i.type;
    for (int a = 0; a < scalar::arity(i.op); ++a) {
      const std::uint32_t arg = i.args[a];
      step.from[a] = place[arg];
      const bool again = std::find(i.args.begin(), i.args.begin() + a, arg) != i.args.begin() + a;
      if (last_use[arg] == at && !again && scalar::arity(code[arg].op) > 0)
        free.push_back(place[arg]);
    }
    steps_.push_back(step);
    if (last_use[id] == 0) free.push_back(place[id]);
  }
  for (std::uint32_t id : program.inputs()) inputs_.push_back(place[id]);
  for (std::uint32_t id : program.outputs()) outputs_.push_back(place[id]);
}

BlockProgram::Registers::Registers(const BlockProgram& program, const std::uint64_t* slots,
                                   std::int64_t width)
    : program_(program), memory_(program.registers_ * kBlock * 8 + 64), at_(program.registers_) {
  std::byte* start = memory_.data() + (-reinterpret_cast<std::uintptr_t>(memory_.data()) & 63);
  for (std::size_t r = 0; r < at_.size(); ++r) at_[r] = start + r * kBlock * 8;
  const auto count = static_cast<std::size_t>(std::min<std::int64_t>(width, kBlock));
  for (const Fill& f : program.fills_) {
    const std::uint64_t bits = f.is_param ? slots[f.bits] : f.bits;
    scalar::with_type(f.type, [&](auto zero) {
      using T = decltype(zero);
      std::fill_n(static_cast<T*>(at_[f.to]), count, scalar::from_bits<T>(bits));
    });
  }
}

void BlockProgram::Registers::run(int n) { run_steps(program_.steps_, at_.data(), n); }

}  // namespace dyad::codegen
