#include <llvm/IR/Constants.h>
#include <llvm/IR/IRBuilder.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <utility>

#include "dyad/codegen/llvm/function_emitter.h"
#include "dyad/codegen/llvm/program_emitter.h"

namespace dyad::codegen {
namespace {

using llvm::BasicBlock;
using llvm::Value;

/// How a row is cut into vectors.
struct Shape {
  unsigned lanes;   // elements in a vector, of several registers where large programs interleave
  unsigned unroll;  // vectors in a turn of the main loop
  enum class Tail : std::uint8_t {
    masked,    // a second copy of the program, with masks: small programs
    buffered,  // the last elements pass through buffers, so that the main loop takes them: large
               // programs, whose second copy would double the time to compile
    single     // a second copy for one element at a time: where vectors have no masks
  } tail;
  bool maskable;  // elements of every operand may be loaded and stored with masks
  bool streams;   // has a loop with stores past the caches
};

int cost_of(const DyadProgram& program) {
  int cost = 0;
  for (std::size_t i = 0; i < program.size; ++i)
    cost += scalar::arity(static_cast<Op>(program.code[i].op)) > 0;
  return cost;
}

Shape shape_of(const DyadFunction& f, const VectorTarget& target) {
  unsigned widest = 1;
  bool strided = false, narrow = false;
  for (std::size_t i = 0; i < f.program.size; ++i) {
    const auto type = static_cast<ScalarType>(f.program.code[i].type);
    if (type != ScalarType::boolean) {
      widest =
          std::max<unsigned>(widest, static_cast<unsigned>(size_of(scalar::dtype_of_type(type))));
    }
  }
  for (std::size_t i = 0; i < f.input_count + f.output_count; ++i) {
    const auto size = static_cast<unsigned>(size_of(static_cast<DType>(f.operands[i].dtype)));
    widest = std::max(widest, size);
    narrow = narrow || size < 4;
    strided = strided || static_cast<Access>(f.operands[i].access) == Access::strided;
  }
  const int cost = cost_of(f.program);
  constexpr int kLarge = 12, kLong = 30, kLongest = 80;
  const bool large = cost > kLarge;
  const unsigned registers = strided || !large ? 1
                             : cost > kLongest ? target.interleave_longest
                             : cost > kLong    ? target.interleave_long
                                               : target.interleave;
  const unsigned lanes = target.bytes / widest * registers;
  // A store past the caches takes at least 16 bytes.
  bool streams = !strided;
  for (std::size_t o = 0; o < f.output_count; ++o) {
    const auto dtype = static_cast<DType>(f.operands[f.input_count + o].dtype);
    streams = streams && lanes * size_of(dtype) >= 16;
  }
  const bool maskable = target.masks_narrow || !narrow;
  return {.lanes = lanes,
          .unroll = strided || large ? 1u
                    : cost > 8       ? 2u
                                     : 4u,
          .tail = strided    ? Shape::Tail::single
                  : large    ? Shape::Tail::buffered
                  : maskable ? Shape::Tail::masked
                             : Shape::Tail::single,
          .maskable = maskable,
          .streams = streams};
}

class RowEmitter {
 public:
  RowEmitter(llvm::Function& function, const DyadFunction& source, const VectorTarget& target,
             DebugInfo& debug)
      : function_(function),
        source_(source),
        target_(target),
        shape_(shape_of(source, target)),
        debug_(debug),
        ir_(function.getContext()) {}

  void emit() {
    BasicBlock* entry = block("entry");
    ir_.SetInsertPoint(entry);
    debug_.at_kernel(ir_);
    n_ = function_.getArg(3);
    Operands operands(ir_, source_, function_.getArg(1), function_.getArg(2));
    operands_ = &operands;
    operands.load_shared(shape_.lanes);
    for (std::size_t i = 0; i < source_.program.size; ++i) {
      const DyadInstruction& instruction = source_.program.code[i];
      if (static_cast<Op>(instruction.op) == Op::param) keep_param(instruction);
    }
    if (shape_.tail == Shape::Tail::buffered) {
      buffered_loop();
    } else {
      Value* at = ir_.getInt64(0);
      if (shape_.streams) at = streaming_loop(at);
      at = vector_loop(at, false);
      small_loop(at, n_, shape_.tail == Shape::Tail::masked ? shape_.lanes : 1);
    }
    ir_.CreateRetVoid();
    operands_ = nullptr;
  }

 private:
  BasicBlock* block(const char* name) {
    return BasicBlock::Create(function_.getContext(), name, &function_);
  }

  void keep_param(const DyadInstruction& instruction) {
    Value* value = load_param(ir_, instruction, function_.getArg(4));
    auto& entry = params_[{instruction.imm, static_cast<ScalarType>(instruction.type)}];
    entry[0] = value;
    entry[1] = shape_.lanes > 1 ? ir_.CreateVectorSplat(shape_.lanes, value) : value;
  }

  /// One step of the program for `lanes` elements at each of the given places.
  void step(const std::vector<Value*>& places, unsigned lanes, Value* mask, bool past_caches) {
    store(places, lanes, mask, past_caches, results(places, lanes, mask));
  }

  std::vector<std::vector<Value*>> results(const std::vector<Value*>& places, unsigned lanes,
                                           Value* mask) {
    std::vector<std::vector<Value*>> inputs(places.size()), outputs(places.size());
    debug_.at_kernel(ir_);
    for (std::size_t u = 0; u < places.size(); ++u) {
      for (std::size_t i = 0; i < source_.input_count; ++i) {
        inputs[u].push_back(operands_->load(i, places[u], lanes, mask));
      }
    }
    for (std::size_t u = 0; u < places.size(); ++u) {
      outputs[u] = emit_program(
          ir_, source_.program, lanes, target_, inputs[u],
          [&](std::uint64_t slot, ScalarType type) { return params_.at({slot, type})[lanes > 1]; },
          [&](const DyadInstruction& i) { debug_.at(ir_, i); });
    }
    return outputs;
  }

  void store(const std::vector<Value*>& places, unsigned lanes, Value* mask, bool past_caches,
             const std::vector<std::vector<Value*>>& outputs) {
    debug_.at_kernel(ir_);
    for (std::size_t u = 0; u < places.size(); ++u) {
      for (std::size_t o = 0; o < source_.output_count; ++o) {
        operands_->store(source_.input_count + o, outputs[u][o], places[u], lanes, mask,
                         past_caches);
      }
    }
  }

  /// Whole vectors from `start` on, as long as a full turn fits; gives where it stopped.
  Value* vector_loop(Value* start, bool past_caches) {
    const unsigned turn = shape_.lanes * shape_.unroll;
    BasicBlock *before = ir_.GetInsertBlock(), *body = block("vectors"),
               *after = block("vectors.done");
    Value* first_end = ir_.CreateAdd(start, ir_.getInt64(turn));
    ir_.CreateCondBr(ir_.CreateICmpSLE(first_end, n_), body, after);
    ir_.SetInsertPoint(body);
    llvm::PHINode* at = ir_.CreatePHI(ir_.getInt64Ty(), 2);
    std::vector<Value*> places;
    for (unsigned u = 0; u < shape_.unroll; ++u)
      places.push_back(u == 0 ? at
                              : ir_.CreateAdd(at, ir_.getInt64(std::uint64_t{u} * shape_.lanes)));
    step(places, shape_.lanes, nullptr, past_caches);
    Value* next = ir_.CreateAdd(at, ir_.getInt64(turn));
    ir_.CreateCondBr(ir_.CreateICmpSLE(ir_.CreateAdd(next, ir_.getInt64(turn)), n_), body, after);
    at->addIncoming(start, before);
    at->addIncoming(next, ir_.GetInsertBlock());
    BasicBlock* end_of_body = ir_.GetInsertBlock();
    ir_.SetInsertPoint(after);
    llvm::PHINode* done = ir_.CreatePHI(ir_.getInt64Ty(), 2);
    done->addIncoming(start, before);
    done->addIncoming(next, end_of_body);
    return done;
  }

  /// Whether the call asks for stores past the caches.
  Value* asks_for_streams() {
    return ir_.CreateICmpNE(ir_.CreateAnd(function_.getArg(5), ir_.getInt32(DYAD_KERNEL_STREAM)),
                            ir_.getInt32(0));
  }

  /// Elements up to the place from which on vectors of all outputs are aligned; and whether there
  /// is such a place, before the end.
  std::pair<Value*, Value*> aligned_place() {
    Value *head = nullptr, *possible = nullptr;
    for (std::size_t o = 0; o < source_.output_count; ++o) {
      const std::size_t out = source_.input_count + o;
      const auto size = static_cast<std::int64_t>(size_of(operands_->dtype(out)));
      Value* last = ir_.getInt64(size * shape_.lanes - 1);
      Value* address = ir_.CreatePtrToInt(operands_->address(out), ir_.getInt64Ty());
      if (o == 0) {
        Value* misaligned = ir_.CreateAnd(ir_.CreateNeg(address), last);
        head = ir_.CreateLShr(misaligned,
                              ir_.getInt64(std::countr_zero(static_cast<std::uint64_t>(size))));
        possible = ir_.CreateICmpSLT(head, n_);
      }
      // Elements that are not even aligned to their size never come to an aligned place.
      Value* there = ir_.CreateAdd(address, ir_.CreateMul(head, ir_.getInt64(size)));
      possible =
          ir_.CreateAnd(possible, ir_.CreateICmpEQ(ir_.CreateAnd(there, last), ir_.getInt64(0)));
    }
    return {head, possible};
  }

  /// When the call asks for it: single elements up to an aligned place of the outputs, then vectors
  /// past the caches.
  Value* streaming_loop(Value* start) {
    BasicBlock *before = ir_.GetInsertBlock(), *stream = block("stream"),
               *after = block("stream.done");
    ir_.CreateCondBr(asks_for_streams(), stream, after);
    ir_.SetInsertPoint(stream);
    const auto [head, possible] = aligned_place();
    BasicBlock* aligned = block("stream.head");
    BasicBlock* from_stream = ir_.GetInsertBlock();
    ir_.CreateCondBr(possible, aligned, after);
    ir_.SetInsertPoint(aligned);
    Value* first = small_loop(start, head, 1);
    Value* stopped = vector_loop(first, true);
    BasicBlock* from_vectors = ir_.GetInsertBlock();
    ir_.CreateBr(after);
    ir_.SetInsertPoint(after);
    llvm::PHINode* at = ir_.CreatePHI(ir_.getInt64Ty(), 3);
    at->addIncoming(start, before);
    at->addIncoming(start, from_stream);
    at->addIncoming(stopped, from_vectors);
    return at;
  }

  /// `lanes` elements at a time from `start` to `end`, with masks when there are several; gives
  /// `end`.
  Value* small_loop(Value* start, Value* end, unsigned lanes) {
    BasicBlock *before = ir_.GetInsertBlock(), *body = block("rest"), *after = block("rest.done");
    ir_.CreateCondBr(ir_.CreateICmpSLT(start, end), body, after);
    ir_.SetInsertPoint(body);
    llvm::PHINode* at = ir_.CreatePHI(ir_.getInt64Ty(), 2);
    Value* mask = nullptr;
    if (lanes > 1) {
      Value* left = ir_.CreateSub(end, at);
      Value* few = ir_.CreateICmpSLT(left, ir_.getInt64(lanes));
      Value* count =
          ir_.CreateTrunc(ir_.CreateSelect(few, left, ir_.getInt64(lanes)), ir_.getInt32Ty());
      mask = ir_.CreateICmpUGT(ir_.CreateVectorSplat(lanes, count),
                               lane_numbers(ir_.getInt32Ty(), lanes));
    }
    step({at}, lanes, mask, false);
    Value* next = ir_.CreateAdd(at, ir_.getInt64(lanes));
    ir_.CreateCondBr(ir_.CreateICmpSLT(next, end), body, after);
    at->addIncoming(start, before);
    at->addIncoming(next, ir_.GetInsertBlock());
    ir_.SetInsertPoint(after);
    return end;
  }

  /// Whole vectors, and in a last turn the elements that fill none, by way of buffers on the stack.
  /// When the call asks for stores past the caches, in two rounds: up to an aligned place, and from
  /// there on.
  void buffered_loop() {
    const std::size_t count = source_.input_count + source_.output_count;
    std::vector<Value*> buffers(count);
    for (std::size_t i = 0; i < count; ++i) {
      if (!operands_->walks(i)) continue;
      llvm::IRBuilder<> entry(&function_.getEntryBlock(), function_.getEntryBlock().begin());
      auto* buffer =
          entry.CreateAlloca(memory_type(ir_.getContext(), operands_->dtype(i), shape_.lanes));
      buffer->setAlignment(llvm::Align(64));
      buffers[i] = buffer;
    }
    Value *lanes = ir_.getInt64(shape_.lanes), *zero = ir_.getInt64(0), *first_end = n_;
    if (shape_.streams) {
      const auto [head, possible] = aligned_place();
      first_end = ir_.CreateSelect(ir_.CreateAnd(asks_for_streams(), possible), head, n_);
    }
    BasicBlock *before = ir_.GetInsertBlock(), *next = block("next"), *body = block("vectors"),
               *few = block("few"), *fill = block("fill"), *more = block("more"),
               *drain = block("drain"), *round = block("round"), *done = block("done");
    ir_.CreateBr(next);

    ir_.SetInsertPoint(next);
    llvm::PHINode* at = ir_.CreatePHI(ir_.getInt64Ty(), 3);
    llvm::PHINode* end = ir_.CreatePHI(ir_.getInt64Ty(), 3);
    llvm::PHINode* past_caches = ir_.CreatePHI(ir_.getInt1Ty(), 3);
    Value* left = ir_.CreateSub(end, at);
    ir_.CreateCondBr(ir_.CreateICmpSGE(left, lanes), body, few);
    ir_.SetInsertPoint(few);
    ir_.CreateCondBr(ir_.CreateICmpSGT(left, zero), fill, round);
    ir_.SetInsertPoint(fill);
    std::vector<Value*> displaced(count);
    for (std::size_t i = 0; i < count; ++i) {
      if (buffers[i] == nullptr) continue;
      if (i < source_.input_count) copy(i, place(i, operands_->address(i), at), buffers[i], left);
      displaced[i] = place(i, buffers[i], ir_.CreateNeg(at));
    }
    BasicBlock* filled = ir_.GetInsertBlock();
    ir_.CreateBr(body);

    ir_.SetInsertPoint(body);
    llvm::PHINode* last = ir_.CreatePHI(ir_.getInt1Ty(), 2);
    last->addIncoming(ir_.getFalse(), next);
    last->addIncoming(ir_.getTrue(), filled);
    Operands here = *operands_;
    for (std::size_t i = 0; i < count; ++i) {
      if (buffers[i] == nullptr) continue;
      llvm::PHINode* address = ir_.CreatePHI(ir_.getPtrTy(), 2);
      address->addIncoming(operands_->address(i), next);
      address->addIncoming(displaced[i], filled);
      here.set_address(i, address);
    }
    Operands* const outside = std::exchange(operands_, &here);
    const auto outputs = results({at}, shape_.lanes, nullptr);
    if (shape_.streams) {
      BasicBlock *stream = block("stream"), *keep = block("keep");
      ir_.CreateCondBr(ir_.CreateAnd(past_caches, ir_.CreateNot(last)), stream, keep);
      ir_.SetInsertPoint(stream);
      store({at}, shape_.lanes, nullptr, true, outputs);
      ir_.CreateBr(more);
      ir_.SetInsertPoint(keep);
    }
    store({at}, shape_.lanes, nullptr, false, outputs);
    operands_ = outside;
    ir_.CreateCondBr(last, drain, more);

    ir_.SetInsertPoint(more);
    Value* following = ir_.CreateAdd(at, lanes);
    ir_.CreateBr(next);
    ir_.SetInsertPoint(drain);
    for (std::size_t i = source_.input_count; i < count; ++i) {
      if (buffers[i] != nullptr) copy(i, buffers[i], place(i, operands_->address(i), at), left);
    }
    ir_.CreateBr(round);
    ir_.SetInsertPoint(round);
    BasicBlock* second = block("second");
    ir_.CreateCondBr(ir_.CreateICmpSLT(end, n_), second, done);
    ir_.SetInsertPoint(second);
    ir_.CreateBr(next);
    at->addIncoming(zero, before);
    at->addIncoming(following, more);
    at->addIncoming(end, second);
    end->addIncoming(first_end, before);
    end->addIncoming(end, more);
    end->addIncoming(n_, second);
    past_caches->addIncoming(ir_.getFalse(), before);
    past_caches->addIncoming(past_caches, more);
    past_caches->addIncoming(ir_.getTrue(), second);
    ir_.SetInsertPoint(done);
  }

  Value* place(std::size_t i, Value* address, Value* at) {
    return ir_.CreateGEP(memory_type(ir_.getContext(), operands_->dtype(i), 1), address, at);
  }

  /// Copies `count` elements of operand i, less than a vector of them, into its buffer or out of
  /// it.
  void copy(std::size_t i, Value* from, Value* to, Value* count) {
    const llvm::Align align(1);
    if (shape_.maskable) {
      llvm::Type* type = memory_type(ir_.getContext(), operands_->dtype(i), shape_.lanes);
      Value* splat = ir_.CreateVectorSplat(shape_.lanes, ir_.CreateTrunc(count, ir_.getInt32Ty()));
      Value* mask = ir_.CreateICmpUGT(splat, lane_numbers(ir_.getInt32Ty(), shape_.lanes));
      if (i < source_.input_count) {
        Value* zeros = llvm::Constant::getNullValue(type);
        ir_.CreateAlignedStore(ir_.CreateMaskedLoad(type, from, align, mask, zeros), to, align);
      } else {
        ir_.CreateMaskedStore(ir_.CreateAlignedLoad(type, from, align), to, align, mask);
      }
      return;
    }
    llvm::Type* type = memory_type(ir_.getContext(), operands_->dtype(i), 1);
    BasicBlock *before = ir_.GetInsertBlock(), *body = block("copy"), *after = block("copied");
    ir_.CreateBr(body);
    ir_.SetInsertPoint(body);
    llvm::PHINode* at = ir_.CreatePHI(ir_.getInt64Ty(), 2);
    ir_.CreateAlignedStore(ir_.CreateAlignedLoad(type, ir_.CreateGEP(type, from, at), align),
                           ir_.CreateGEP(type, to, at), align);
    Value* next = ir_.CreateAdd(at, ir_.getInt64(1));
    ir_.CreateCondBr(ir_.CreateICmpSLT(next, count), body, after);
    at->addIncoming(ir_.getInt64(0), before);
    at->addIncoming(next, body);
    ir_.SetInsertPoint(after);
  }

  llvm::Function& function_;
  const DyadFunction& source_;
  const VectorTarget& target_;
  Shape shape_;
  DebugInfo& debug_;
  llvm::IRBuilder<> ir_;
  Value* n_ = nullptr;
  Operands* operands_ = nullptr;
  std::map<std::pair<std::uint64_t, ScalarType>, std::array<Value*, 2>> params_;
};

}  // namespace

void emit_row(llvm::Module& module, const DyadFunction& source, const VectorTarget& target,
              DebugInfo& debug) {
  llvm::LLVMContext& context = module.getContext();
  llvm::Type *ptr = llvm::PointerType::getUnqual(context), *i64 = llvm::Type::getInt64Ty(context);
  auto* type =
      llvm::FunctionType::get(llvm::Type::getVoidTy(context),
                              {ptr, ptr, ptr, i64, ptr, llvm::Type::getInt32Ty(context)}, false);
  auto* function =
      llvm::Function::Create(type, llvm::Function::ExternalLinkage, source.symbol, module);
  debug.begin(*function, source);
  RowEmitter(*function, source, target, debug).emit();
}

}  // namespace dyad::codegen
