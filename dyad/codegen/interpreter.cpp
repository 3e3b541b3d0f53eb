#include "dyad/codegen/interpreter.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "dyad/codegen/address.h"
#include "dyad/codegen/block_program.h"
#include "dyad/codegen/functions.h"
#include "dyad/ir/scalar_evaluate.h"

namespace dyad::codegen {
namespace {

/// Calls f(Stored{}, Computed{}, load, store) for the C++ types behind a dtype.
template <class F>
void with_element(DType dtype, F&& f) {
  const auto same = [](auto v) { return v; };
  const auto narrow = [&](auto zero) {
    using T = decltype(zero);
    f(
        T{}, std::int32_t{}, [](T v) { return static_cast<std::int32_t>(v); },
        [](std::int32_t v) { return static_cast<T>(v); });
  };
  switch (dtype) {
    case DType::f64:
      return f(double{}, double{}, same, same);
    case DType::f32:
      return f(float{}, float{}, same, same);
    case DType::f16:
      return f(
          Half{}, float{}, [](Half v) { return to_float(v); }, [](float v) { return to_half(v); });
    case DType::bf16:
      return f(
          BFloat16{}, float{}, [](BFloat16 v) { return to_float(v); },
          [](float v) { return to_bfloat16(v); });
    case DType::i64:
      return f(std::int64_t{}, std::int64_t{}, same, same);
    case DType::i32:
      return f(std::int32_t{}, std::int32_t{}, same, same);
    case DType::i16:
      return narrow(std::int16_t{});
    case DType::i8:
      return narrow(std::int8_t{});
    case DType::u64:
      return f(std::uint64_t{}, std::uint64_t{}, same, same);
    case DType::u32:
      return f(
          std::uint32_t{}, std::int64_t{}, [](std::uint32_t v) { return std::int64_t{v}; },
          [](std::int64_t v) { return static_cast<std::uint32_t>(v); });
    case DType::u16:
      return narrow(std::uint16_t{});
    case DType::u8:
      return narrow(std::uint8_t{});
    default:
      return f(
          std::uint8_t{}, bool{}, [](std::uint8_t v) { return v != 0; },
          [](bool v) { return static_cast<std::uint8_t>(v); });
  }
}

std::int64_t stride_of(const Operand& o, std::int64_t stride) {
  if (o.access == Access::broadcast) return 0;
  if (o.access == Access::strided) return stride;
  return o.index ? 1 : static_cast<std::int64_t>(size_of(o.dtype));
}

void load(const Operand& o, const char* at, std::int64_t stride, int n, void* to) {
  if (o.index) {
    const auto origin = static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(at));
    for (int i = 0; i < n; ++i) static_cast<std::int64_t*>(to)[i] = origin + i * stride;
    return;
  }
  with_element(o.dtype, [&](auto stored, auto computed, auto convert, auto) {
    using S = decltype(stored);
    auto* values = static_cast<decltype(computed)*>(to);
    for (int i = 0; i < n; ++i) {
      S value;
      std::memcpy(&value, at + i * stride, sizeof value);
      values[i] = convert(value);
    }
  });
}

void store(const Operand& o, char* at, std::int64_t stride, int n, const void* from) {
  with_element(o.dtype, [&](auto, auto computed, auto, auto convert) {
    const auto* values = static_cast<const decltype(computed)*>(from);
    for (int i = 0; i < n; ++i) {
      const auto value = convert(values[i]);
      std::memcpy(at + i * stride, &value, sizeof value);
    }
  });
}

/// A program with the operands of a row.
struct Row {
  explicit Row(const KernelFunction& f) : inputs(f.inputs), outputs(f.outputs), block(f.program) {}
  std::vector<Operand> inputs, outputs;
  BlockProgram block;
};

void run_row(const void* context, char* const* data, const std::int64_t* strides, std::int64_t n,
             const std::uint64_t* slots, std::uint32_t) {
  const Row& row = *static_cast<const Row*>(context);
  BlockProgram::Registers registers(row.block, slots, n);
  const std::size_t inputs = row.inputs.size();
  for (std::int64_t first = 0; first < n; first += kBlock) {
    const int count = static_cast<int>(std::min<std::int64_t>(kBlock, n - first));
    for (std::size_t i = 0; i < inputs; ++i) {
      const std::int64_t stride = stride_of(row.inputs[i], strides[i]);
      load(row.inputs[i], moved(data[i], first * stride), stride, count, registers.input(i));
    }
    registers.run(count);
    for (std::size_t o = 0; o < row.outputs.size(); ++o) {
      const std::int64_t stride = stride_of(row.outputs[o], strides[inputs + o]);
      store(row.outputs[o], data[inputs + o] + first * stride, stride, count, registers.output(o));
    }
  }
}

struct Reduce {
  explicit Reduce(const KernelFunction& f) : map(f), combine(f.combine), init(f.init) {
    for (std::size_t k = 0; k < init.size(); ++k) {
      bytes.push_back(size_of(scalar::dtype_of_type(f.program.output_type(k))));
    }
  }
  Row map;
  BlockProgram combine;
  std::vector<std::uint64_t> init;
  std::vector<std::size_t> bytes;
};

void run_reduce(const void* context, char* const* data, const std::int64_t* row_strides,
                const std::int64_t* strides, std::int64_t rows, std::int64_t phase, std::int64_t n,
                char* const* lanes, char* const* results, const std::uint64_t* slots,
                std::uint32_t flags) {
  const Reduce& reduce = *static_cast<const Reduce*>(context);
  const std::size_t accumulators = reduce.bytes.size(), inputs = reduce.map.inputs.size();
  BlockProgram::Registers map(reduce.map.block, slots, n),
      combine(reduce.combine, slots, kReduceLanes);
  std::uint64_t memory[kMaxAccumulators][kReduceLanes];

  const auto combine_lanes = [&](int lane, int count, auto&& value_of) {
    for (std::size_t k = 0; k < accumulators; ++k) {
      combine.set_input(k, reinterpret_cast<char*>(memory[k]) + lane * reduce.bytes[k]);
      combine.set_input(accumulators + k, value_of(k));
    }
    combine.run(count);
    // An output may be another accumulator's input, so all are read before any is written.
    std::uint64_t joined[kMaxAccumulators][kReduceLanes];
    for (std::size_t k = 0; k < accumulators; ++k)
      std::memcpy(joined[k], combine.output(k), count * reduce.bytes[k]);
    for (std::size_t k = 0; k < accumulators; ++k) {
      std::memcpy(reinterpret_cast<char*>(memory[k]) + lane * reduce.bytes[k], joined[k],
                  count * reduce.bytes[k]);
    }
  };

  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::size_t k = 0; k < accumulators; ++k) {
      if ((flags & DYAD_REDUCE_INIT) == 0) {
        std::memcpy(memory[k], lanes[k], kReduceLanes * reduce.bytes[k]);
        continue;
      }
      for (int lane = 0; lane < kReduceLanes; ++lane) {
        std::memcpy(reinterpret_cast<char*>(memory[k]) + lane * reduce.bytes[k], &reduce.init[k],
                    reduce.bytes[k]);
      }
    }
    for (std::int64_t first = 0; first < n; first += kBlock) {
      const int count = static_cast<int>(std::min<std::int64_t>(kBlock, n - first));
      for (std::size_t i = 0; i < inputs; ++i) {
        const std::int64_t stride = stride_of(reduce.map.inputs[i], strides[i]);
        load(reduce.map.inputs[i], moved(data[i], row * row_strides[i] + first * stride), stride,
             count, map.input(i));
      }
      map.run(count);
      for (int done = 0; done < count;) {
        const int lane = static_cast<int>((phase + first + done) % kReduceLanes);
        const int part = std::min(kReduceLanes - lane, count - done);
        combine_lanes(lane, part, [&](std::size_t k) {
          return static_cast<char*>(const_cast<void*>(map.output(k))) + done * reduce.bytes[k];
        });
        done += part;
      }
    }
    if ((flags & DYAD_REDUCE_RESULT) == 0) {
      for (std::size_t k = 0; k < accumulators; ++k)
        std::memcpy(lanes[k], memory[k], kReduceLanes * reduce.bytes[k]);
      continue;
    }
    for (int half = kReduceLanes / 2; half > 0; half /= 2) {
      combine_lanes(0, half, [&](std::size_t k) {
        return reinterpret_cast<char*>(memory[k]) + half * reduce.bytes[k];
      });
    }
    for (std::size_t k = 0; k < accumulators; ++k) {
      std::memcpy(results[k] + row * reduce.bytes[k], memory[k], reduce.bytes[k]);
    }
  }
}

/// All that the entry points of one recipe point to.
struct Interpreted {
  std::vector<std::unique_ptr<Row>> rows;
  std::unique_ptr<Reduce> reduce;
};

}  // namespace

std::unique_ptr<CompiledKernel> interpret(const KernelRecipe& recipe) {
  recipe.verify();
  auto owner = std::make_shared<Interpreted>();
  DyadKernelCode code{};
  const void* contexts[kKernelParts] = {};
  for (const KernelFunction& f : functions_of(recipe)) {
    if (f.part == KernelPart::reduce) {
      owner->reduce = std::make_unique<Reduce>(f);
      contexts[static_cast<int>(f.part)] = owner->reduce.get();
      code.reduce = &run_reduce;
    } else {
      owner->rows.push_back(std::make_unique<Row>(f));
      contexts[static_cast<int>(f.part)] = owner->rows.back().get();
      row_entry(code, f.part) = &run_row;
    }
  }
  return std::make_unique<CompiledKernel>(recipe, code, KernelOrigin::interpreter, owner, contexts);
}

}  // namespace dyad::codegen
