#include "dyad/codegen/llvm/program_emitter.h"

#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/PatternMatch.h>

#include <numeric>
#include <stdexcept>

#include "dyad/ir/scalar_schedule.h"
#include "dyad/ir/scalar_semantics.h"

namespace dyad::codegen {
namespace {

using llvm::Value;

llvm::Type* lanes_of(llvm::Type* element, unsigned lanes) {
  return lanes == 1 ? element : llvm::FixedVectorType::get(element, lanes);
}

llvm::Type* like(Value* v, llvm::Type* element) {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(v->getType());
  return vector == nullptr ? element
                           : llvm::FixedVectorType::get(element, vector->getNumElements());
}

llvm::Type* element_type(llvm::LLVMContext& context, ScalarType type) {
  switch (type) {
    case ScalarType::f64:
      return llvm::Type::getDoubleTy(context);
    case ScalarType::f32:
      return llvm::Type::getFloatTy(context);
    case ScalarType::i64:
    case ScalarType::u64:
      return llvm::Type::getInt64Ty(context);
    case ScalarType::i32:
      return llvm::Type::getInt32Ty(context);
    case ScalarType::boolean:
      break;
  }
  return llvm::Type::getInt1Ty(context);
}

Value* number(Value* shape, std::int64_t value) {
  return llvm::ConstantInt::getSigned(shape->getType(), value);
}

Value* round_to_half(llvm::IRBuilder<>& ir, Value* x) {
  return ir.CreateFPTrunc(x, like(x, ir.getHalfTy()));
}

/// The upper 16 bits of an f32 rounded to bfloat16, as i16.
Value* round_to_bfloat(llvm::IRBuilder<>& ir, Value* x) {
  Value* bits = ir.CreateBitCast(x, like(x, ir.getInt32Ty()));
  Value* odd = ir.CreateAnd(ir.CreateLShr(bits, number(bits, 16)), number(bits, 1));
  Value* nearest = ir.CreateAdd(ir.CreateAdd(bits, number(bits, 0x7FFF)), odd);
  Value* quiet = ir.CreateOr(bits, number(bits, 0x00400000));
  Value* chosen = ir.CreateSelect(ir.CreateFCmpUNO(x, x), quiet, nearest);
  return ir.CreateTrunc(ir.CreateLShr(chosen, number(bits, 16)), like(x, ir.getInt16Ty()));
}

Value* from_bfloat(llvm::IRBuilder<>& ir, Value* stored) {
  Value* wide = ir.CreateZExt(stored, like(stored, ir.getInt32Ty()));
  return ir.CreateBitCast(ir.CreateShl(wide, number(wide, 16)), like(stored, ir.getFloatTy()));
}

/// What round_to_bfloat() gave, of which from_bfloat() made the value, or null.
Value* rounded_bfloat(Value* x) {
  using namespace llvm::PatternMatch;
  Value* stored = nullptr;
  const bool is_wide = match(x, m_BitCast(m_Shl(m_ZExt(m_Value(stored)), m_SpecificInt(16))));
  return is_wide && match(stored, m_Trunc(m_Value())) ? stored : nullptr;
}

/// The same of an f16.
Value* rounded_half(Value* x) {
  using namespace llvm::PatternMatch;
  Value* stored = nullptr;
  const bool is_wide = match(x, m_FPExt(m_Value(stored)));
  return is_wide && match(stored, m_FPTrunc(m_Value())) ? stored : nullptr;
}

/// Floating to u64: saturates, NaN gives 0.
Value* to_unsigned(llvm::IRBuilder<>& ir, Value* x, llvm::Type* type) {
  Value* zero = llvm::Constant::getNullValue(x->getType());
  Value* half = llvm::ConstantFP::get(x->getType(), 0x1p63);
  Value* below_limit = ir.CreateFCmpOLT(x, llvm::ConstantFP::get(x->getType(), 0x1p64));
  Value* upper = ir.CreateFCmpOGE(x, half);
  Value* rest = ir.CreateSelect(upper, ir.CreateFSub(x, half), x);
  Value* inside = ir.CreateAnd(ir.CreateFCmpOGT(x, zero), below_limit);
  Value* truncated = ir.CreateFPToSI(ir.CreateSelect(inside, rest, zero), type);
  Value* top = llvm::ConstantInt::get(type, std::uint64_t{1} << 63);
  Value* whole = ir.CreateAdd(truncated, ir.CreateSelect(ir.CreateAnd(upper, below_limit), top,
                                                         llvm::Constant::getNullValue(type)));
  Value* at_limit = ir.CreateFCmpOGE(x, llvm::ConstantFP::get(x->getType(), 0x1p64));
  return ir.CreateSelect(at_limit, llvm::Constant::getAllOnesValue(type), whole);
}

Value* convert(llvm::IRBuilder<>& ir, ScalarType from, ScalarType to, Value* x) {
  llvm::Type* type = like(x, element_type(ir.getContext(), to));
  if (to == ScalarType::boolean) {
    Value* zero = llvm::Constant::getNullValue(x->getType());
    return scalar::is_floating(from) ? ir.CreateFCmpUNE(x, zero) : ir.CreateICmpNE(x, zero);
  }
  if (from == ScalarType::boolean) {
    return scalar::is_floating(to) ? ir.CreateUIToFP(x, type) : ir.CreateZExt(x, type);
  }
  if (scalar::is_floating(from) && scalar::is_floating(to)) {
    return to == ScalarType::f64 ? ir.CreateFPExt(x, type) : ir.CreateFPTrunc(x, type);
  }
  if (scalar::is_integer(from) && scalar::is_integer(to)) return ir.CreateSExtOrTrunc(x, type);
  if (from == ScalarType::u64) return ir.CreateUIToFP(x, type);
  if (scalar::is_integer(from)) return ir.CreateSIToFP(x, type);
  if (to == ScalarType::u64) return to_unsigned(ir, x, type);
  const unsigned width = to == ScalarType::i64 ? 64 : 32;
  Value* limit = llvm::ConstantFP::get(x->getType(), width == 64 ? 0x1p63 : 0x1p31);
  Value* lowest = llvm::ConstantFP::get(x->getType(), width == 64 ? -0x1p63 : -0x1p31);
  Value* above = ir.CreateFCmpOGE(x, limit);
  Value* below = ir.CreateFCmpOLT(x, lowest);
  Value* inside = ir.CreateAnd(ir.CreateFCmpOLT(x, limit), ir.CreateFCmpOGE(x, lowest));
  Value* safe = ir.CreateSelect(inside, x, llvm::Constant::getNullValue(x->getType()));
  Value* truncated = ir.CreateFPToSI(safe, type);
  Value* most = llvm::ConstantInt::get(type, llvm::APInt::getSignedMaxValue(width));
  Value* least = llvm::ConstantInt::get(type, llvm::APInt::getSignedMinValue(width));
  return ir.CreateSelect(above, most, ir.CreateSelect(below, least, truncated));
}

Value* round(llvm::IRBuilder<>& ir, DType dtype, Value* x) {
  switch (dtype) {
    case DType::f16:
      return ir.CreateFPExt(round_to_half(ir, x), x->getType());
    case DType::bf16:
      return from_bfloat(ir, round_to_bfloat(ir, x));
    case DType::i16:
      return ir.CreateSExt(ir.CreateTrunc(x, like(x, ir.getInt16Ty())), x->getType());
    case DType::i8:
      return ir.CreateSExt(ir.CreateTrunc(x, like(x, ir.getInt8Ty())), x->getType());
    case DType::u16:
      return ir.CreateAnd(x, number(x, 0xFFFF));
    case DType::u32:
      return ir.CreateAnd(x, number(x, 0xFFFFFFFF));
    default:
      return ir.CreateAnd(x, number(x, 255));
  }
}

/// Division that gives 0 for x / 0 and wraps for the lowest number / -1.
Value* divide(llvm::IRBuilder<>& ir, Value* a, Value* b, bool remainder, bool is_signed) {
  Value* zero = number(b, 0);
  Value* by_zero = ir.CreateICmpEQ(b, zero);
  if (!is_signed) {
    Value* safe = ir.CreateSelect(by_zero, number(b, 1), b);
    if (remainder) return ir.CreateURem(a, safe);
    return ir.CreateSelect(by_zero, zero, ir.CreateUDiv(a, safe));
  }
  Value* by_minus_one = ir.CreateICmpEQ(b, number(b, -1));
  Value* safe = ir.CreateSelect(ir.CreateOr(by_zero, by_minus_one), number(b, 1), b);
  if (remainder) return ir.CreateSRem(a, safe);  // a rem 1 is 0
  Value* quotient = ir.CreateSDiv(a, safe);
  return ir.CreateSelect(by_zero, zero, ir.CreateSelect(by_minus_one, ir.CreateNeg(a), quotient));
}

Value* shift(llvm::IRBuilder<>& ir, Op op, Value* a, Value* b, bool is_signed) {
  Value* count = ir.CreateAnd(
      b, number(b, static_cast<std::int64_t>(b->getType()->getScalarSizeInBits()) - 1));
  return op == Op::shl                 ? ir.CreateShl(a, count)
         : op == Op::shr || !is_signed ? ir.CreateLShr(a, count)
                                       : ir.CreateAShr(a, count);
}

Value* compare(llvm::IRBuilder<>& ir, Op op, ScalarType type, Value* a, Value* b) {
  const bool floating = scalar::is_floating(type), is_signed = type != ScalarType::u64;
  switch (op) {
    case Op::eq:
      return floating ? ir.CreateFCmpOEQ(a, b) : ir.CreateICmpEQ(a, b);
    case Op::ne:
      return floating ? ir.CreateFCmpUNE(a, b) : ir.CreateICmpNE(a, b);
    case Op::lt:
      return floating    ? ir.CreateFCmpOLT(a, b)
             : is_signed ? ir.CreateICmpSLT(a, b)
                         : ir.CreateICmpULT(a, b);
    default:
      return floating    ? ir.CreateFCmpOLE(a, b)
             : is_signed ? ir.CreateICmpSLE(a, b)
                         : ir.CreateICmpULE(a, b);
  }
}

/// The module's copy of the bits of 2/pi.
llvm::GlobalVariable* two_over_pi_table(llvm::IRBuilder<>& ir) {
  constexpr const char* kName = "two_over_pi";
  llvm::Module& module = *ir.GetInsertBlock()->getModule();
  if (llvm::GlobalVariable* made = module.getNamedGlobal(kName)) return made;
  llvm::Constant* words = llvm::ConstantDataArray::get(
      ir.getContext(), llvm::ArrayRef<std::uint64_t>(scalar::semantics::kTwoOverPi));
  auto* table = new llvm::GlobalVariable(module, words->getType(), /*isConstant=*/true,
                                         llvm::GlobalValue::PrivateLinkage, words, kName);
  table->setAlignment(llvm::Align(8));
  return table;
}

/// Eight bytes from the one that has the lowest of the bits, moved down by less than a byte.
Value* two_over_pi(llvm::IRBuilder<>& ir, Value* from) {
  using namespace scalar::semantics;
  Value *first = number(from, kTwoOverPiFirst), *last = number(from, kTwoOverPiLast);
  Value* inside = ir.CreateSelect(ir.CreateICmpSLT(from, first), first, from);
  inside = ir.CreateSelect(ir.CreateICmpSGT(from, last), last, inside);
  Value* at = ir.CreateSub(last, inside);
  Value* bytes =
      ir.CreateGEP(ir.getInt8Ty(), two_over_pi_table(ir), ir.CreateLShr(at, number(at, 3)));
  Value* word =
      at->getType()->isVectorTy()
          ? static_cast<Value*>(ir.CreateMaskedGather(at->getType(), bytes, llvm::Align(1)))
          : ir.CreateAlignedLoad(at->getType(), bytes, llvm::Align(1));
  return ir.CreateAnd(ir.CreateLShr(word, ir.CreateAnd(at, number(at, 7))),
                      number(at, (std::int64_t{1} << kTwoOverPiWidth) - 1));
}

/// a * 2^n by two factors, as scalar::semantics::ldexp.
Value* scale_by_factors(llvm::IRBuilder<>& ir, Value* a, Value* n) {
  const bool wide = a->getType()->getScalarType()->isDoubleTy();
  llvm::Type* bits = like(a, wide ? ir.getInt64Ty() : ir.getInt32Ty());
  Value* whole_bits =
      llvm::ConstantFP::get(a->getType(), wide ? scalar::semantics::kWholeBits<double>
                                               : scalar::semantics::kWholeBits<float>);
  Value* whole = ir.CreateSub(ir.CreateBitCast(ir.CreateFAdd(n, whole_bits), bits),
                              ir.CreateBitCast(whole_bits, bits));
  Value* half = ir.CreateAShr(whole, number(whole, 1));
  const auto power = [&](Value* e) {
    Value* biased = ir.CreateAdd(e, number(e, wide ? 1023 : 127));
    return ir.CreateBitCast(ir.CreateShl(biased, number(e, wide ? 52 : 23)), a->getType());
  };
  return ir.CreateFMul(ir.CreateFMul(a, power(half)), power(ir.CreateSub(whole, half)));
}

/// a / b of floating-point numbers. LLVM 19 takes a quotient of zeros for zero where some lanes of
/// it are not used and both operands become constants as instructions are selected
/// (SimplifyDemandedVectorElts), as in select(mask, (x - x) / (x - x), 0) of integers: it is not to
/// see what `a` is.
Value* divide_numbers(llvm::IRBuilder<>& ir, Value* a, Value* b) {
  const auto* constant = llvm::dyn_cast<llvm::Constant>(a);
  if (constant == nullptr || constant->isZeroValue())
    a = ir.CreateIntrinsic(llvm::Intrinsic::arithmetic_fence, {a->getType()}, {a});
  return ir.CreateFDiv(a, b);
}

/// a * 2^n: one instruction where the CPU has it for vectors.
Value* scale(llvm::IRBuilder<>& ir, Value* a, Value* n, const VectorTarget& target) {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(a->getType());
  const bool wide = a->getType()->getScalarType()->isDoubleTy();
  const unsigned count = vector == nullptr ? 1 : vector->getNumElements(), most = wide ? 8 : 16;
  if (!target.scales || (count % most != 0 && (wide || count != 8)))
    return scale_by_factors(ir, a, n);
  const auto id = count == 8 && !wide ? llvm::Intrinsic::x86_avx512_mask_scalef_ps_256
                  : wide              ? llvm::Intrinsic::x86_avx512_mask_scalef_pd_512
                                      : llvm::Intrinsic::x86_avx512_mask_scalef_ps_512;
  const auto scale_whole = [&](Value* x, Value* e, unsigned lanes) {
    Value* all = llvm::Constant::getAllOnesValue(ir.getIntNTy(lanes));
    llvm::SmallVector<Value*, 5> operands{x, e, x, all};
    constexpr int kCurrentRounding = 4;
    if (lanes == most) operands.push_back(ir.getInt32(kCurrentRounding));
    return ir.CreateIntrinsic(id, {}, operands);
  };
  if (count <= most) return scale_whole(a, n, count);
  // Wider than a register: piece by piece.
  std::vector<Value*> pieces;
  for (unsigned at = 0; at < count; at += most) {
    llvm::SmallVector<int, 16> lanes(most);
    std::iota(lanes.begin(), lanes.end(), static_cast<int>(at));
    pieces.push_back(
        scale_whole(ir.CreateShuffleVector(a, lanes), ir.CreateShuffleVector(n, lanes), most));
  }
  return llvm::concatenateVectors(ir, pieces);
}

Value* emit(llvm::IRBuilder<>& ir, const DyadInstruction& i, ScalarType operand, Value* a, Value* b,
            Value* c, const VectorTarget& target) {
  const bool floating = scalar::is_floating(operand), is_signed = operand != ScalarType::u64;
  const auto intrinsic = [&](llvm::Intrinsic::ID id) { return ir.CreateUnaryIntrinsic(id, a); };
  switch (static_cast<Op>(i.op)) {
    case Op::neg:
      return floating ? ir.CreateFNeg(a) : ir.CreateNeg(a);
    case Op::abs:
      if (floating) return intrinsic(llvm::Intrinsic::fabs);
      if (!is_signed) return a;
      return ir.CreateSelect(ir.CreateICmpSLT(a, number(a, 0)), ir.CreateNeg(a), a);
    case Op::sqrt:
      return intrinsic(llvm::Intrinsic::sqrt);
    case Op::floor:
      return intrinsic(llvm::Intrinsic::floor);
    case Op::ceil:
      return intrinsic(llvm::Intrinsic::ceil);
    case Op::rint:
      return intrinsic(llvm::Intrinsic::rint);
    case Op::trunc:
      return intrinsic(llvm::Intrinsic::trunc);
    case Op::add:
      return floating ? ir.CreateFAdd(a, b) : ir.CreateAdd(a, b);
    case Op::sub:
      return floating ? ir.CreateFSub(a, b) : ir.CreateSub(a, b);
    case Op::mul:
      return floating ? ir.CreateFMul(a, b) : ir.CreateMul(a, b);
    case Op::div:
      return floating ? divide_numbers(ir, a, b) : divide(ir, a, b, false, is_signed);
    case Op::rem:
      return divide(ir, a, b, true, is_signed);
    case Op::min:
      return ir.CreateSelect(compare(ir, Op::lt, operand, a, b), a, b);
    case Op::max:
      return ir.CreateSelect(compare(ir, Op::lt, operand, b, a), a, b);
    case Op::fma:
      return ir.CreateIntrinsic(llvm::Intrinsic::fma, {a->getType()}, {a, b, c});
    case Op::eq:
    case Op::ne:
    case Op::lt:
    case Op::le:
      return compare(ir, static_cast<Op>(i.op), operand, a, b);
    case Op::select:
    case Op::select_rarely:
      return ir.CreateSelect(a, b, c);
    case Op::bit_and:
      return ir.CreateAnd(a, b);
    case Op::bit_or:
      return ir.CreateOr(a, b);
    case Op::bit_xor:
      return ir.CreateXor(a, b);
    case Op::bit_not:
      return ir.CreateNot(a);
    case Op::shl:
    case Op::shr:
    case Op::sar:
      return shift(ir, static_cast<Op>(i.op), a, b, is_signed);
    case Op::bitcast:
      return ir.CreateBitCast(
          a, like(a, element_type(ir.getContext(), static_cast<ScalarType>(i.type))));
    case Op::convert:
      return convert(ir, operand, static_cast<ScalarType>(i.type), a);
    case Op::round:
      return round(ir, static_cast<DType>(i.dtype), a);
    case Op::two_over_pi:
      return two_over_pi(ir, a);
    case Op::ldexp:
      return scale(ir, a, b, target);
    default:
      throw std::runtime_error("unknown scalar operation " + std::to_string(i.op));
  }
}

/// Emits one program's instructions, those behind a guard in a block of their own.
struct ProgramEmitter {
  llvm::IRBuilder<>& ir;
  const DyadProgram& program;
  unsigned lanes;
  const VectorTarget& target;
  const std::vector<Value*>& inputs;
  const std::function<Value*(std::uint64_t, ScalarType)>& param;
  const std::function<void(const DyadInstruction&)>& place;
  std::vector<Value*> values = std::vector<Value*>(program.size);

  std::vector<Value*> emit_all() {
    std::vector<scalar::Instruction> code(program.size);
    for (std::size_t id = 0; id < program.size; ++id) {
      const DyadInstruction& i = program.code[id];
      code[id].op = static_cast<Op>(i.op);
      code[id].args = {i.args[0], i.args[1], i.args[2]};
    }
    const std::span outputs(program.outputs, program.output_count);
    const auto steps = scalar::schedule(code, outputs);
    emit_steps(steps);
    std::vector<Value*> results;
    for (const std::uint32_t id : outputs) results.push_back(values[id]);
    return results;
  }

  void emit_steps(std::span<const scalar::ScheduledStep> steps) {
    for (std::size_t at = 0; at < steps.size(); ++at) {
      const auto [id, guarded, selects] = steps[at];
      if (guarded == 0) {
        values[id] = value(id);
        continue;
      }
      emit_guarded(steps.subspan(at + 1, guarded), id, selects);
      at += guarded + selects;
    }
  }

  Value* value(std::uint32_t id) {
    const DyadInstruction& i = program.code[id];
    const auto type = static_cast<ScalarType>(i.type);
    switch (static_cast<Op>(i.op)) {
      case Op::constant:
        return constant_value(ir.getContext(), type, i.imm, lanes);
      case Op::input:
        return inputs.at(i.imm);
      case Op::param:
        return param(i.imm, type);
      default:
        break;
    }
    place(i);
    const int arity = scalar::arity(static_cast<Op>(i.op));
    return emit(ir, i, static_cast<ScalarType>(program.code[i.args[0]].type), values[i.args[0]],
                arity > 1 ? values[i.args[1]] : nullptr, arity > 2 ? values[i.args[2]] : nullptr,
                target);
  }

  /// The steps and the selects behind them, in a block that is entered when a lane wants them.
  void emit_guarded(std::span<const scalar::ScheduledStep> steps, std::uint32_t first,
                    std::uint32_t selects) {
    const std::uint32_t condition = program.code[first].args[0];
    Value* any = lanes == 1 ? values[condition] : ir.CreateOrReduce(values[condition]);
    llvm::BasicBlock* before = ir.GetInsertBlock();
    llvm::Function* function = before->getParent();
    auto* rare = llvm::BasicBlock::Create(ir.getContext(), "rare", function);
    auto* after = llvm::BasicBlock::Create(ir.getContext(), "rare.done", function);
    ir.CreateCondBr(any, rare, after,
                    llvm::MDBuilder(ir.getContext()).createBranchWeights(1, 1 << 20));
    ir.SetInsertPoint(rare);
    emit_steps(steps);
    // Compared anew: to keep a mask from one block to the next costs the usual way something.
    Value* const usual = values[condition];
    if (scalar::arity(static_cast<Op>(program.code[condition].op)) == 2)
      values[condition] = value(condition);
    std::vector<Value*> chosen;
    for (std::uint32_t s = first; s < first + selects; ++s) chosen.push_back(value(s));
    values[condition] = usual;
    llvm::BasicBlock* from = ir.GetInsertBlock();
    ir.CreateBr(after);
    ir.SetInsertPoint(after);
    for (std::uint32_t s = first; s < first + selects; ++s) {
      llvm::PHINode* joined = ir.CreatePHI(chosen[s - first]->getType(), 2);
      joined->addIncoming(values[program.code[s].args[2]], before);
      joined->addIncoming(chosen[s - first], from);
      values[s] = joined;
    }
  }
};

}  // namespace

llvm::Type* value_type(llvm::LLVMContext& context, ScalarType type, unsigned lanes) {
  return lanes_of(element_type(context, type), lanes);
}

llvm::Type* memory_type(llvm::LLVMContext& context, DType dtype, unsigned lanes) {
  switch (dtype) {
    case DType::f64:
      return lanes_of(llvm::Type::getDoubleTy(context), lanes);
    case DType::f32:
      return lanes_of(llvm::Type::getFloatTy(context), lanes);
    case DType::f16:
      return lanes_of(llvm::Type::getHalfTy(context), lanes);
    case DType::bf16:
    case DType::i16:
    case DType::u16:
      return lanes_of(llvm::Type::getInt16Ty(context), lanes);
    case DType::i64:
    case DType::u64:
      return lanes_of(llvm::Type::getInt64Ty(context), lanes);
    case DType::i32:
    case DType::u32:
      return lanes_of(llvm::Type::getInt32Ty(context), lanes);
    default:
      return lanes_of(llvm::Type::getInt8Ty(context), lanes);
  }
}

Value* from_memory(llvm::IRBuilder<>& ir, DType dtype, Value* loaded) {
  switch (dtype) {
    case DType::f16:
      return ir.CreateFPExt(loaded, like(loaded, ir.getFloatTy()));
    case DType::bf16:
      return from_bfloat(ir, loaded);
    case DType::i16:
    case DType::i8:
      return ir.CreateSExt(loaded, like(loaded, ir.getInt32Ty()));
    case DType::u16:
    case DType::u8:
      return ir.CreateZExt(loaded, like(loaded, ir.getInt32Ty()));
    case DType::u32:
      return ir.CreateZExt(loaded, like(loaded, ir.getInt64Ty()));
    case DType::boolean:
      return ir.CreateICmpNE(loaded, number(loaded, 0));
    default:
      return loaded;
  }
}

Value* to_memory(llvm::IRBuilder<>& ir, DType dtype, Value* value) {
  // No pass over the code would see that what was rounded needs no more rounding.
  switch (dtype) {
    case DType::f16:
      if (Value* const half = rounded_half(value)) return half;
      return round_to_half(ir, value);
    case DType::bf16:
      if (Value* const bfloat = rounded_bfloat(value)) return bfloat;
      return round_to_bfloat(ir, value);
    case DType::u32:
      return ir.CreateTrunc(value, like(value, ir.getInt32Ty()));
    case DType::i16:
    case DType::u16:
      return ir.CreateTrunc(value, like(value, ir.getInt16Ty()));
    case DType::i8:
    case DType::u8:
      return ir.CreateTrunc(value, like(value, ir.getInt8Ty()));
    case DType::boolean:
      return ir.CreateZExt(value, like(value, ir.getInt8Ty()));
    default:
      return value;
  }
}

Value* constant_value(llvm::LLVMContext& context, ScalarType type, std::uint64_t bits,
                      unsigned lanes) {
  llvm::Type* element = element_type(context, type);
  llvm::Constant* value = nullptr;
  if (type == ScalarType::f64) {
    value = llvm::ConstantFP::get(
        context, llvm::APFloat(llvm::APFloat::IEEEdouble(), llvm::APInt(64, bits)));
  } else if (type == ScalarType::f32) {
    value = llvm::ConstantFP::get(
        context, llvm::APFloat(llvm::APFloat::IEEEsingle(), llvm::APInt(32, bits & 0xFFFFFFFFu)));
  } else {
    const unsigned width = element->getIntegerBitWidth();
    value = llvm::ConstantInt::get(element, llvm::APInt(64, bits).trunc(width));
  }
  return lanes == 1 ? value
                    : llvm::ConstantVector::getSplat(llvm::ElementCount::getFixed(lanes), value);
}

Value* load_param(llvm::IRBuilder<>& ir, const DyadInstruction& instruction, Value* params) {
  const auto type = static_cast<ScalarType>(instruction.type);
  Value* slot = ir.CreateConstInBoundsGEP1_64(ir.getInt64Ty(), params, instruction.imm);
  return type == ScalarType::boolean
             ? ir.CreateICmpNE(ir.CreateLoad(ir.getInt8Ty(), slot), ir.getInt8(0))
             : ir.CreateLoad(value_type(ir.getContext(), type, 1), slot);
}

std::vector<Value*> emit_program(llvm::IRBuilder<>& ir, const DyadProgram& program, unsigned lanes,
                                 const VectorTarget& target, const std::vector<Value*>& inputs,
                                 const std::function<Value*(std::uint64_t, ScalarType)>& param,
                                 const std::function<void(const DyadInstruction&)>& place) {
  return ProgramEmitter{ir, program, lanes, target, inputs, param, place}.emit_all();
}

}  // namespace dyad::codegen
