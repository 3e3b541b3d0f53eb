#include <llvm/IR/Constants.h>
#include <llvm/IR/IRBuilder.h>

#include <map>

#include "dyad/codegen/llvm/function_emitter.h"
#include "dyad/codegen/llvm/program_emitter.h"

namespace dyad::codegen {
namespace {

using llvm::BasicBlock;
using llvm::Value;
using Values = std::vector<Value*>;

constexpr unsigned kLanes = 16;  // of the definition, whatever the width of the CPU's registers

class ReduceEmitter {
 public:
  ReduceEmitter(llvm::Function& function, const DyadFunction& source, const VectorTarget& target,
                DebugInfo& debug)
      : function_(function),
        source_(source),
        target_(target),
        debug_(debug),
        ir_(function.getContext()) {
    for (std::size_t k = 0; k < source.accumulators; ++k) {
      const DyadInstruction& value = source.program.code[source.program.outputs[k]];
      types_.push_back(static_cast<ScalarType>(value.type));
    }
  }

  void emit() {
    ir_.SetInsertPoint(block("entry"));
    debug_.at_kernel(ir_);
    Value *data = function_.getArg(1), *row_strides = function_.getArg(2),
          *strides = function_.getArg(3);
    Value *rows = function_.getArg(4), *phase = function_.getArg(5);
    n_ = function_.getArg(6);
    flags_ = function_.getArg(10);
    start_ = ir_.CreateNeg(phase);
    Values distances;
    for (std::size_t i = 0; i < source_.input_count; ++i) {
      distances.push_back(ir_.CreateLoad(
          ir_.getInt64Ty(), ir_.CreateConstInBoundsGEP1_64(ir_.getInt64Ty(), row_strides, i)));
    }
    for (const DyadProgram* program : {&source_.program, &source_.combine}) {
      for (std::size_t i = 0; i < program->size; ++i) {
        const DyadInstruction& instruction = program->code[i];
        if (static_cast<Op>(instruction.op) != Op::param) continue;
        params_[{instruction.imm, static_cast<ScalarType>(instruction.type)}] =
            load_param(ir_, instruction, function_.getArg(9));
      }
    }
    const Operands at_first(ir_, source_, data, strides);
    const auto at_row = [&](Value* row) {
      Operands operands = at_first;
      operands.move(row, distances);
      operands.load_shared(kLanes);
      return operands;
    };
    Value* first_row = ir_.getInt64(0);
    if (types_.size() == 1) first_row = pairs(rows, at_row);

    BasicBlock *entry = ir_.GetInsertBlock(), *body = block("row"), *done = block("done");
    ir_.CreateCondBr(ir_.CreateICmpSGT(rows, first_row), body, done);
    ir_.SetInsertPoint(body);
    llvm::PHINode* row = ir_.CreatePHI(ir_.getInt64Ty(), 2);
    Operands operands = at_row(row);
    finish_row(row, elements(operands, first_lanes()));
    Value* next = ir_.CreateAdd(row, ir_.getInt64(1));
    row->addIncoming(first_row, entry);
    row->addIncoming(next, ir_.GetInsertBlock());
    ir_.CreateCondBr(ir_.CreateICmpSLT(next, rows), body, done);
    ir_.SetInsertPoint(done);
    ir_.CreateRetVoid();
  }

 private:
  BasicBlock* block(const char* name) {
    return BasicBlock::Create(function_.getContext(), name, &function_);
  }

  Value* param(std::uint64_t slot, ScalarType type, unsigned lanes) {
    Value* value = params_.at({slot, type});
    return lanes == 1 ? value : ir_.CreateVectorSplat(lanes, value);
  }

  /// Where accumulator k of lanes or results (the function's argument) is.
  Value* accumulator_pointer(unsigned argument, std::size_t k) {
    return ir_.CreateLoad(ir_.getPtrTy(), ir_.CreateConstInBoundsGEP1_64(
                                              ir_.getPtrTy(), function_.getArg(argument), k));
  }
  DType stored(std::size_t k) const { return scalar::dtype_of_type(types_[k]); }

  Value* flag(std::uint32_t bit) {
    return ir_.CreateICmpNE(ir_.CreateAnd(flags_, ir_.getInt32(bit)), ir_.getInt32(0));
  }

  Values first_lanes() {
    BasicBlock *before = ir_.GetInsertBlock(), *load = block("lanes"), *after = block("lanes.done");
    ir_.CreateCondBr(flag(DYAD_REDUCE_INIT), after, load);
    ir_.SetInsertPoint(load);
    Values loaded;
    for (std::size_t k = 0; k < types_.size(); ++k) {
      llvm::Type* type = memory_type(ir_.getContext(), stored(k), kLanes);
      loaded.push_back(from_memory(
          ir_, stored(k), ir_.CreateAlignedLoad(type, accumulator_pointer(7, k), llvm::Align(1))));
    }
    ir_.CreateBr(after);
    ir_.SetInsertPoint(after);
    Values lanes;
    for (std::size_t k = 0; k < types_.size(); ++k) {
      llvm::PHINode* phi = ir_.CreatePHI(value_type(ir_.getContext(), types_[k], kLanes), 2);
      phi->addIncoming(constant_value(ir_.getContext(), types_[k], source_.init[k], kLanes),
                       before);
      phi->addIncoming(loaded[k], load);
      lanes.push_back(phi);
    }
    return lanes;
  }

  Values run(const DyadProgram& program, unsigned lanes, const Values& inputs) {
    return emit_program(
        ir_, program, lanes, target_, inputs,
        [&](std::uint64_t slot, ScalarType type) { return param(slot, type, lanes); },
        [&](const DyadInstruction& i) { debug_.at(ir_, i); });
  }

  Values combine(unsigned lanes, Values a, const Values& b) {
    a.insert(a.end(), b.begin(), b.end());
    return run(source_.combine, lanes, a);
  }

  /// Takes the block of 16 elements at `at` into the lanes; with `partial`, those of them that
  /// exist.
  Values take_block(Operands& operands, Value* at, const Values& lanes, bool partial) {
    debug_.at_kernel(ir_);
    Value *mask = nullptr, *last = nullptr;
    if (partial) {
      Value* place =
          ir_.CreateAdd(ir_.CreateVectorSplat(kLanes, at), lane_numbers(ir_.getInt64Ty(), kLanes));
      Value* from = ir_.CreateICmpSGE(place, llvm::Constant::getNullValue(place->getType()));
      mask = ir_.CreateAnd(from, ir_.CreateICmpSLT(place, ir_.CreateVectorSplat(kLanes, n_)));
      last = ir_.CreateSub(n_, ir_.getInt64(1));
    }
    Values inputs;
    for (std::size_t i = 0; i < source_.input_count; ++i) {
      const bool maskable = operands.access(i) == Access::contiguous &&
                            (target_.masks_narrow || size_of(operands.dtype(i)) >= 4);
      inputs.push_back(
          operands.load(i, at, kLanes, maskable ? mask : nullptr, maskable ? nullptr : last));
    }
    Values next = combine(kLanes, lanes, run(source_.program, kLanes, inputs));
    debug_.at_kernel(ir_);
    for (std::size_t k = 0; partial && k < next.size(); ++k)
      next[k] = ir_.CreateSelect(mask, next[k], lanes[k]);
    return next;
  }

  Values phis(unsigned incoming) {
    Values lanes;
    for (ScalarType t : types_)
      lanes.push_back(ir_.CreatePHI(value_type(ir_.getContext(), t, kLanes), incoming));
    return lanes;
  }
  static void connect(const Values& to, const Values& from, BasicBlock* block) {
    for (std::size_t k = 0; k < to.size(); ++k)
      llvm::cast<llvm::PHINode>(to[k])->addIncoming(from[k], block);
  }

  /// Two rows at once, as long as there are two: the steps of one wait for each other, and those of
  /// the other fill the time. Gives the first row that is left.
  template <class AtRow>
  Value* pairs(Value* rows, const AtRow& at_row) {
    BasicBlock *before = ir_.GetInsertBlock(), *choose = block("pairs"), *body = block("pair"),
               *whole = block("pair.whole"), *rest = block("pair.rest"),
               *partial = block("pair.partial"), *result = block("pair.result"),
               *after = block("pairs.done");
    Value *zero = ir_.getInt64(0), *one = ir_.getInt64(1), *step = ir_.getInt64(kLanes);
    ir_.CreateBr(choose);
    ir_.SetInsertPoint(choose);
    llvm::PHINode* row = ir_.CreatePHI(ir_.getInt64Ty(), 2);
    Value* second = ir_.CreateAdd(row, one);
    ir_.CreateCondBr(ir_.CreateICmpSLT(second, rows), body, after);

    ir_.SetInsertPoint(body);
    Operands operands[] = {at_row(row), at_row(second)};
    Values initial;
    for (std::size_t k = 0; k < types_.size(); ++k)
      initial.push_back(constant_value(ir_.getContext(), types_[k], source_.init[k], kLanes));
    BasicBlock* body_end = ir_.GetInsertBlock();
    ir_.CreateCondBr(ir_.CreateICmpSLE(step, n_), whole, rest);

    const auto take = [&](Value* at, const Values(&lanes)[2], bool only_some, Values(&next)[2]) {
      for (int i = 0; i < 2; ++i) next[i] = take_block(operands[i], at, lanes[i], only_some);
    };
    ir_.SetInsertPoint(whole);
    llvm::PHINode* at = ir_.CreatePHI(ir_.getInt64Ty(), 2);
    const Values lanes[] = {phis(2), phis(2)};
    Values next[2];
    take(at, lanes, false, next);
    Value* end = ir_.CreateAdd(at, step);
    BasicBlock* whole_end = ir_.GetInsertBlock();
    ir_.CreateCondBr(ir_.CreateICmpSLE(ir_.CreateAdd(end, step), n_), whole, rest);
    at->addIncoming(zero, body_end);
    at->addIncoming(end, whole_end);

    ir_.SetInsertPoint(rest);
    llvm::PHINode* rest_at = ir_.CreatePHI(ir_.getInt64Ty(), 2);
    rest_at->addIncoming(zero, body_end);
    rest_at->addIncoming(end, whole_end);
    const Values so_far[] = {phis(2), phis(2)};
    ir_.CreateCondBr(ir_.CreateICmpSLT(rest_at, n_), partial, result);

    ir_.SetInsertPoint(partial);
    Values last[2];
    take(rest_at, so_far, true, last);
    BasicBlock* partial_end = ir_.GetInsertBlock();
    ir_.CreateBr(result);

    ir_.SetInsertPoint(result);
    const Values all[] = {phis(2), phis(2)};
    for (int i = 0; i < 2; ++i) {
      connect(lanes[i], initial, body_end);
      connect(lanes[i], next[i], whole_end);
      connect(so_far[i], initial, body_end);
      connect(so_far[i], next[i], whole_end);
      connect(all[i], so_far[i], rest);
      connect(all[i], last[i], partial_end);
    }
    store_results(row, join(all[0]));
    store_results(second, join(all[1]));
    row->addIncoming(zero, before);
    row->addIncoming(ir_.CreateAdd(second, one), ir_.GetInsertBlock());
    ir_.CreateBr(choose);
    ir_.SetInsertPoint(after);
    return row;
  }

  /// All elements, from place -phase on in steps of 16: blocks that are whole, and at the ends
  /// blocks that are not.
  Values elements(Operands& operands, const Values& first) {
    BasicBlock *before = ir_.GetInsertBlock(), *choose = block("choose"), *whole = block("whole"),
               *partial = block("partial"), *after = block("elements.done");
    Value *zero = ir_.getInt64(0), *step = ir_.getInt64(kLanes);
    ir_.CreateBr(choose);

    ir_.SetInsertPoint(choose);
    llvm::PHINode* at = ir_.CreatePHI(ir_.getInt64Ty(), 3);
    const Values lanes = phis(3);
    Value* fits =
        ir_.CreateAnd(ir_.CreateICmpSGE(at, zero), ir_.CreateICmpSLE(ir_.CreateAdd(at, step), n_));
    ir_.CreateCondBr(fits, whole, partial);

    ir_.SetInsertPoint(whole);
    llvm::PHINode* whole_at = ir_.CreatePHI(ir_.getInt64Ty(), 2);
    const Values whole_lanes = phis(2);
    const Values whole_next = take_block(operands, whole_at, whole_lanes, false);
    Value* whole_end = ir_.CreateAdd(whole_at, step);
    BasicBlock* whole_from = ir_.GetInsertBlock();
    BasicBlock* rest = block("rest");
    ir_.CreateCondBr(ir_.CreateICmpSLE(ir_.CreateAdd(whole_end, step), n_), whole, rest);
    whole_at->addIncoming(at, choose);
    whole_at->addIncoming(whole_end, whole_from);
    connect(whole_lanes, lanes, choose);
    connect(whole_lanes, whole_next, whole_from);
    ir_.SetInsertPoint(rest);
    ir_.CreateCondBr(ir_.CreateICmpSLT(whole_end, n_), choose, after);

    ir_.SetInsertPoint(partial);
    const Values partial_next = take_block(operands, at, lanes, true);
    Value* partial_end = ir_.CreateAdd(at, step);
    BasicBlock* partial_from = ir_.GetInsertBlock();
    ir_.CreateCondBr(ir_.CreateICmpSLT(partial_end, n_), choose, after);

    at->addIncoming(start_, before);
    at->addIncoming(whole_end, rest);
    at->addIncoming(partial_end, partial_from);
    connect(lanes, first, before);
    connect(lanes, whole_next, rest);
    connect(lanes, partial_next, partial_from);
    ir_.SetInsertPoint(after);
    const Values result = phis(2);
    connect(result, whole_next, rest);
    connect(result, partial_next, partial_from);
    return result;
  }

  Values join(Values lanes) {
    for (unsigned half = kLanes / 2; half > 0; half /= 2) {
      Values low, high;
      for (Value* v : lanes) {
        if (half == 1) {
          low.push_back(ir_.CreateExtractElement(v, std::uint64_t{0}));
          high.push_back(ir_.CreateExtractElement(v, std::uint64_t{1}));
          continue;
        }
        std::vector<int> low_lanes(half), high_lanes(half);
        for (unsigned l = 0; l < half; ++l) {
          low_lanes[l] = static_cast<int>(l);
          high_lanes[l] = static_cast<int>(l + half);
        }
        low.push_back(ir_.CreateShuffleVector(v, low_lanes));
        high.push_back(ir_.CreateShuffleVector(v, high_lanes));
      }
      lanes = combine(half, low, high);
    }
    return lanes;
  }

  void store_results(Value* row, const Values& joined) {
    debug_.at_kernel(ir_);
    for (std::size_t k = 0; k < types_.size(); ++k) {
      Value* place = ir_.CreateGEP(memory_type(ir_.getContext(), stored(k), 1),
                                   accumulator_pointer(8, k), row);
      ir_.CreateStore(to_memory(ir_, stored(k), joined[k]), place);
    }
  }

  void finish_row(Value* row, const Values& lanes) {
    BasicBlock *result = block("result"), *keep = block("keep"), *after = block("row.done");
    ir_.CreateCondBr(flag(DYAD_REDUCE_RESULT), result, keep);
    ir_.SetInsertPoint(result);
    store_results(row, join(lanes));
    ir_.CreateBr(after);
    ir_.SetInsertPoint(keep);
    for (std::size_t k = 0; k < types_.size(); ++k) {
      ir_.CreateAlignedStore(to_memory(ir_, stored(k), lanes[k]), accumulator_pointer(7, k),
                             llvm::Align(1));
    }
    ir_.CreateBr(after);
    ir_.SetInsertPoint(after);
  }

  llvm::Function& function_;
  const DyadFunction& source_;
  const VectorTarget& target_;
  DebugInfo& debug_;
  llvm::IRBuilder<> ir_;
  std::vector<ScalarType> types_;
  Value *n_ = nullptr, *flags_ = nullptr, *start_ = nullptr;
  std::map<std::pair<std::uint64_t, ScalarType>, Value*> params_;
};

}  // namespace

void emit_reduce(llvm::Module& module, const DyadFunction& source, const VectorTarget& target,
                 DebugInfo& debug) {
  llvm::LLVMContext& context = module.getContext();
  llvm::Type *ptr = llvm::PointerType::getUnqual(context), *i64 = llvm::Type::getInt64Ty(context);
  auto* type = llvm::FunctionType::get(
      llvm::Type::getVoidTy(context),
      {ptr, ptr, ptr, ptr, i64, i64, i64, ptr, ptr, ptr, llvm::Type::getInt32Ty(context)}, false);
  auto* function =
      llvm::Function::Create(type, llvm::Function::ExternalLinkage, source.symbol, module);
  debug.begin(*function, source);
  ReduceEmitter(*function, source, target, debug).emit();
}

}  // namespace dyad::codegen
