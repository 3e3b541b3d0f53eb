#include "dyad/codegen/llvm/operands.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/Metadata.h>

#include "dyad/codegen/llvm/program_emitter.h"

namespace dyad::codegen {

using llvm::Value;

llvm::Constant* lane_numbers(llvm::Type* type, unsigned lanes) {
  std::vector<llvm::Constant*> numbers;
  for (unsigned l = 0; l < lanes; ++l) numbers.push_back(llvm::ConstantInt::get(type, l));
  return llvm::ConstantVector::get(numbers);
}

Operands::Operands(llvm::IRBuilder<>& ir, const DyadFunction& function, Value* data, Value* strides)
    : ir_(ir), function_(function) {
  const std::size_t count = function.input_count + function.output_count;
  for (std::size_t i = 0; i < count; ++i) {
    llvm::Type* type = is_index(i) ? static_cast<llvm::Type*>(ir.getInt64Ty()) : ir.getPtrTy();
    base_.push_back(ir.CreateLoad(type, ir.CreateConstInBoundsGEP1_64(ir.getPtrTy(), data, i)));
    const bool used = access(i) == Access::strided;
    stride_.push_back(used ? ir.CreateLoad(ir.getInt64Ty(), ir.CreateConstInBoundsGEP1_64(
                                                                ir.getInt64Ty(), strides, i))
                           : nullptr);
  }
  for (auto& shared : shared_) shared.resize(count);
}

void Operands::load_shared(unsigned lanes) {
  for (std::size_t i = 0; i < function_.input_count; ++i) {
    if (access(i) != Access::broadcast) continue;
    Value* value =
        is_index(i)
            ? base_[i]
            : from_memory(ir_, dtype(i),
                          ir_.CreateLoad(memory_type(ir_.getContext(), dtype(i), 1), base_[i]));
    shared_[0][i] = value;
    shared_[1][i] = lanes > 1 ? ir_.CreateVectorSplat(lanes, value) : value;
  }
}

void Operands::move(Value* row, const std::vector<Value*>& row_strides) {
  for (std::size_t i = 0; i < base_.size(); ++i) {
    Value* distance = ir_.CreateMul(row, row_strides[i]);
    base_[i] = is_index(i) ? ir_.CreateAdd(base_[i], distance)
                           : ir_.CreateGEP(ir_.getInt8Ty(), base_[i], distance);
  }
}

Value* Operands::places(Value* at, unsigned lanes) {
  if (lanes == 1) return at;
  return ir_.CreateAdd(ir_.CreateVectorSplat(lanes, at), lane_numbers(ir_.getInt64Ty(), lanes));
}

Value* Operands::index(std::size_t i, Value* at, unsigned lanes) {
  Value* where = places(at, lanes);
  const auto wide = [&](Value* v) { return lanes == 1 ? v : ir_.CreateVectorSplat(lanes, v); };
  if (access(i) == Access::strided) where = ir_.CreateMul(where, wide(stride_[i]));
  return ir_.CreateAdd(where, wide(base_[i]));
}

/// Pointers to each lane's element, of a strided operand or of clamped places.
Value* Operands::addresses(std::size_t i, Value* at, unsigned lanes, Value* last) {
  Value* where = places(at, lanes);
  if (last != nullptr) {
    Value* zero = llvm::Constant::getNullValue(where->getType());
    Value* most = ir_.CreateVectorSplat(lanes, last);
    where = ir_.CreateSelect(ir_.CreateICmpSLT(where, zero), zero, where);
    where = ir_.CreateSelect(ir_.CreateICmpSGT(where, most), most, where);
  }
  Value* step = access(i) == Access::strided ? stride_[i] : ir_.getInt64(size_of(dtype(i)));
  if (lanes > 1) step = ir_.CreateVectorSplat(lanes, step);
  return ir_.CreateGEP(ir_.getInt8Ty(), base_[i], ir_.CreateMul(where, step));
}

Value* Operands::element(std::size_t i, Value* at) {
  return ir_.CreateGEP(memory_type(ir_.getContext(), dtype(i), 1), base_[i], at);
}

Value* Operands::load(std::size_t i, Value* at, unsigned lanes, Value* mask, Value* last) {
  if (access(i) == Access::broadcast) return shared_[lanes > 1][i];
  if (is_index(i)) return index(i, at, lanes);
  llvm::Type* type = memory_type(ir_.getContext(), dtype(i), lanes);
  const llvm::Align align(1);  // a view may start anywhere
  Value* loaded = nullptr;
  if (lanes == 1) {
    Value* place = access(i) == Access::strided ? addresses(i, at, 1, nullptr) : element(i, at);
    loaded = ir_.CreateAlignedLoad(type, place, align);
  } else if (access(i) == Access::strided || last != nullptr) {
    const llvm::Align element_align(size_of(dtype(i)));
    loaded = ir_.CreateMaskedGather(type, addresses(i, at, lanes, last), element_align);
  } else if (mask != nullptr) {
    loaded =
        ir_.CreateMaskedLoad(type, element(i, at), align, mask, llvm::Constant::getNullValue(type));
  } else {
    loaded = ir_.CreateAlignedLoad(type, element(i, at), align);
  }
  return from_memory(ir_, dtype(i), loaded);
}

void Operands::store(std::size_t i, Value* value, Value* at, unsigned lanes, Value* mask,
                     bool past_caches) {
  Value* stored = to_memory(ir_, dtype(i), value);
  const llvm::Align align(1);
  if (lanes == 1) {
    ir_.CreateAlignedStore(
        stored, access(i) == Access::strided ? addresses(i, at, 1, nullptr) : element(i, at),
        align);
  } else if (access(i) == Access::strided) {
    ir_.CreateMaskedScatter(stored, addresses(i, at, lanes, nullptr),
                            llvm::Align(size_of(dtype(i))));
  } else if (mask != nullptr) {
    ir_.CreateMaskedStore(stored, element(i, at), align, mask);
  } else if (past_caches) {
    const std::uint64_t bytes = stored->getType()->getPrimitiveSizeInBits().getFixedValue() / 8;
    auto* store = ir_.CreateAlignedStore(stored, element(i, at), llvm::Align(bytes));
    llvm::Metadata* one = llvm::ConstantAsMetadata::get(ir_.getInt32(1));
    store->setMetadata(llvm::LLVMContext::MD_nontemporal, llvm::MDNode::get(ir_.getContext(), one));
  } else {
    ir_.CreateAlignedStore(stored, element(i, at), align);
  }
}

}  // namespace dyad::codegen
