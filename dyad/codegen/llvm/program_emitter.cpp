#include "dyad/codegen/llvm/program_emitter.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/Intrinsics.h>

#include <stdexcept>

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

Value* emit(llvm::IRBuilder<>& ir, const DyadInstruction& i, ScalarType operand, Value* a, Value* b,
            Value* c) {
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
      return floating ? ir.CreateFDiv(a, b) : divide(ir, a, b, false, is_signed);
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
    default:
      throw std::runtime_error("unknown scalar operation " + std::to_string(i.op));
  }
}

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
  switch (dtype) {
    case DType::f16:
      return round_to_half(ir, value);
    case DType::bf16:
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

std::vector<Value*> emit_program(llvm::IRBuilder<>& ir, const DyadProgram& program, unsigned lanes,
                                 const std::vector<Value*>& inputs,
                                 const std::function<Value*(std::uint64_t, ScalarType)>& param,
                                 const std::function<void(const DyadInstruction&)>& place) {
  std::vector<Value*> values(program.size);
  for (std::size_t id = 0; id < program.size; ++id) {
    const DyadInstruction& i = program.code[id];
    const auto type = static_cast<ScalarType>(i.type);
    switch (static_cast<Op>(i.op)) {
      case Op::constant:
        values[id] = constant_value(ir.getContext(), type, i.imm, lanes);
        continue;
      case Op::input:
        values[id] = inputs.at(i.imm);
        continue;
      case Op::param:
        values[id] = param(i.imm, type);
        continue;
      default:
        break;
    }
    place(i);
    const int arity = scalar::arity(static_cast<Op>(i.op));
    values[id] =
        emit(ir, i, static_cast<ScalarType>(program.code[i.args[0]].type), values[i.args[0]],
             arity > 1 ? values[i.args[1]] : nullptr, arity > 2 ? values[i.args[2]] : nullptr);
  }
  std::vector<Value*> outputs;
  for (std::size_t o = 0; o < program.output_count; ++o)
    outputs.push_back(values[program.outputs[o]]);
  return outputs;
}

}  // namespace dyad::codegen
