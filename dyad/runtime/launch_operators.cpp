#include <algorithm>
#include <memory>
#include <utility>

#include "dyad/codegen/kernel_provider.h"
#include "dyad/codegen/program_builder.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/runtime/call_cache.h"
#include "dyad/runtime/cpu/copy.h"
#include "dyad/runtime/kernel_call.h"
#include "dyad/runtime/launch.h"
#include "dyad/runtime/threads.h"

namespace dyad::runtime {
namespace {

using codegen::CompiledKernel;

/// Inputs of one operator that the caches below tell apart: more go to the provider each time.
constexpr std::size_t kMaxInputs = 12;
/// Room for the operands of nearly every call.
constexpr std::size_t kOperands = kMaxInputs + 4;

bool has_attrs(const OpInfo& op) noexcept { return op.attrs != &attrs_info<NoAttrs>; }

std::uint64_t hash_of(const OpInfo& op, const void* attrs) {
  return has_attrs(op) ? attrs_hash(*op.attrs, attrs) : 0;
}

CallCache::Entry& remember(const CallKey& key, const void* attrs,
                           std::shared_ptr<const CompiledKernel> kernel, DType result) {
  CallCache::Entry& entry = CallCache::of_thread().place_for(key, attrs);
  entry = {.key = key,
           .attrs = has_attrs(*key.op) ? Attrs::copy_of(*key.op->attrs, attrs) : Ref<Attrs>(),
           .kernel = std::move(kernel),
           .result = result};
  return entry;
}

std::vector<Tensor> copies(TensorRefs inputs) {
  std::vector<Tensor> result;
  result.reserve(inputs.size());
  for (const Tensor* input : inputs) result.push_back(*input);
  return result;
}

bool overlap(const TensorImpl& a, const TensorImpl& b) {
  if (a.storage != b.storage || a.numel() == 0 || b.numel() == 0) return false;
  // From the element with the lowest address to behind the one with the highest.
  const auto extent = [](const TensorImpl& t) {
    std::int64_t low = 0, high = 1;
    for (std::size_t i = 0; i < t.shape.size(); ++i) {
      const std::int64_t reach = (t.shape[i].number() - 1) * t.strides[i];
      (reach < 0 ? low : high) += reach;
    }
    const auto bytes = static_cast<std::int64_t>(size_of(t.dtype));
    return std::pair(t.data + low * bytes, t.data + high * bytes);
  };
  const auto of_a = extent(a), of_b = extent(b);
  return of_a.first < of_b.second && of_b.first < of_a.second;
}

/// Whether an element-by-element result of that dtype, with the shape of `widest`, may take the
/// place of one of the inputs, which are row-major: nothing else may read the same memory.
bool can_be_overwritten(const TensorImpl& out, DType dtype, const TensorImpl& widest,
                        TensorRefs inputs) {
  if (out.dtype != dtype || !out.contiguous || !out.shape.same_as(widest.shape)) return false;
  const auto end = [](const TensorImpl& t) {
    return t.data + t.numel() * static_cast<std::int64_t>(size_of(t.dtype));
  };
  return std::ranges::all_of(inputs, [&](const Tensor* input) {
    const TensorImpl& t = *input->impl();
    const bool same = t.data == out.data && t.shape.same_as(out.shape) && t.dtype == out.dtype;
    return same || t.data >= end(out) || out.data >= end(t);
  });
}

/// The row behind run_copy: the element itself, converted to the target's dtype.
constexpr ArgInfo kCopied[] = {{"value"}};
constexpr OpInfo kCopyRow{
    .name = "copy",
    .kind = BodyKind::pointwise,
    .inputs = kCopied,
    .eval = [](const void*, std::span<const Scalar> in, std::span<Scalar> out) { out[0] = in[0]; }};

}  // namespace

void run_pointwise_into(const OpInfo& op, const void* attrs, TensorRefs inputs,
                        std::span<const Tensor> outputs) {
  const TensorImpl& out = *outputs[0].impl();
  const auto sizes = out.shape.numbers();
  KernelCall call{codegen::Iteration(sizes)};
  InlineVector<void*, kOperands> data;
  InlineVector<DType, kOperands> dtypes, results;
  CallKey key{&op, 0, 0, hash_of(op, attrs)};
  for (const Tensor* input : inputs) {
    const TensorImpl& t = *input->impl();
    call.space.add(broadcast_strides(t.shape.numbers(), t.strides, sizes));
    data.push_back(t.data);
    dtypes.push_back(t.dtype);
    key.dtypes = key.dtypes << 5 | static_cast<std::uint64_t>(t.dtype);
  }
  for (const Tensor& output : outputs) {
    const TensorImpl& t = *output.impl();
    call.space.add(t.strides);
    data.push_back(t.data);
    results.push_back(t.dtype);
  }

  const bool cached = inputs.size() <= kMaxInputs;
  if (cached) {
    call.space.collapse();
    key.access = call.space.access_key();
    const CallCache::Entry* entry = CallCache::of_thread().find(key, attrs);
    if (entry != nullptr && entry->result == out.dtype) {
      call.prepare(*entry->kernel);
      call.run(data.data(), nullptr);
      return;
    }
  }
  call.prepare(codegen::recipe_of(op, attrs, dtypes, results));
  if (cached) {
    const codegen::KernelCost cost = call.kernel->unit_cost(call.space.args(data.data()));
    CallCache::Entry& entry = remember(key, attrs, call.held, out.dtype);
    // While it holds, the grain for elements in the cache is what decides.
    entry.alone = 2 * grain_for({cost.bytes, cost.flops}, 1);
  }
  call.run(data.data(), nullptr);
}

void run_counted(const OpInfo& op, const void* attrs, TensorRefs inputs, const Tensor& output) {
  constexpr std::int64_t kRepeated = 0, kNext = 1;
  const std::int64_t n = output.impl()->numel();
  if (n == 0) return;
  KernelCall call{codegen::Iteration({&n, 1})};
  InlineVector<void*, kOperands> data;
  InlineVector<DType, kOperands> dtypes;
  CallKey key{&op, 0, 0, hash_of(op, attrs)};
  for (const Tensor* input : inputs) {
    const TensorImpl& t = *input->impl();
    call.space.add({&kRepeated, 1});
    data.push_back(t.data);
    dtypes.push_back(t.dtype);
    key.dtypes = key.dtypes << 5 | static_cast<std::uint64_t>(t.dtype);
  }
  call.space.add_index();
  data.push_back(nullptr);
  call.space.add({&kNext, 1});
  data.push_back(output.impl()->data);
  call.space.collapse();
  key.access = call.space.access_key();
  const DType result = output.dtype();
  const CallCache::Entry* entry = CallCache::of_thread().find(key, attrs);
  if (entry != nullptr && entry->result == result) {
    call.prepare(*entry->kernel);
  } else {
    call.prepare(codegen::recipe_of(op, attrs, dtypes, {&result, 1}));
    remember(key, attrs, call.held, result);
  }
  call.run(data.data(), nullptr);
}

bool try_run_pointwise(const OpInfo& op, const void* attrs, TensorRefs inputs, Tensor& output) {
  if (inputs.size() > kMaxInputs) return false;
  const TensorImpl* widest = nullptr;
  for (const Tensor* input : inputs) {
    const TensorImpl* t = input->impl();
    if (t == nullptr || t->kind != TensorImpl::Kind::concrete || !t->contiguous) return false;
    if (widest == nullptr || t->shape.size() > widest->shape.size() ||
        (t->shape.size() == widest->shape.size() && !t->shape.same_as(widest->shape) &&
         widest->numel() == 1)) {
      widest = t;
    }
  }
  const std::int64_t n = widest ? widest->numel() : 0;
  if (n == 0) return false;

  CallKey key{&op, 0, 0, 0};
  void* data[kMaxInputs + 1];
  std::int64_t strides[kMaxInputs + 1];
  std::size_t count = 0;
  for (const Tensor* input : inputs) {
    const TensorImpl& t = *input->impl();
    bool single = false;
    if (&t != widest && !t.shape.same_as(widest->shape)) {
      if (t.numel() != 1) return false;
      single = n != 1;
    }
    key.dtypes = key.dtypes << 5 | static_cast<std::uint64_t>(t.dtype);
    key.access = key.access << 2 | static_cast<std::uint64_t>(single ? codegen::Access::broadcast
                                                                     : codegen::Access::contiguous);
    strides[count] = single ? 0 : 1;
    data[count++] = t.data;
  }
  key.access <<= 2;
  key.attrs = hash_of(op, attrs);
  const CallCache::Entry* entry = CallCache::of_thread().find(key, attrs);
  if (entry == nullptr) return false;

  if (!output.defined()) {
    output = make_empty(entry->result, widest->shape);
  } else if (!can_be_overwritten(*output.impl(), entry->result, *widest, inputs)) {
    return false;
  }
  data[count] = output.impl()->data;
  strides[count] = 1;
  const CompiledKernel& kernel = *entry->kernel;
  if (n <= entry->alone) {
    kernel.run_dense(data, n);
    return true;
  }
  KernelCall call{codegen::Iteration({&n, 1})};
  for (std::size_t i = 0; i <= count; ++i) call.space.add({&strides[i], 1});
  call.prepare(kernel);
  call.run(data, nullptr);
  return true;
}

void run_pointwise(const OpInfo& op, const void* attrs, TensorRefs inputs,
                   std::span<const Type> types, std::span<Tensor> outputs) {
  const std::vector<Tensor> held = copies(inputs);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Shape& shape = types[i].shape();
    outputs[i] = make_empty_strided(types[i].dtype(), shape,
                                    output_layout(op, attrs, held, shape, static_cast<int>(i)));
  }
  if (op.name == "clone") {
    copy_tensor(*inputs[0], outputs[0]);  // knows rows, turned and backward ones, too
    return;
  }
  run_pointwise_into(op, attrs, inputs, outputs);
}

void run_copy(const Tensor& target, const Tensor& value) {
  const TensorImpl &to = *target.impl(), &from = *value.impl();
  if (overlap(to, from)) {
    const Tensor held = make_empty(from.dtype, from.shape);
    copy_tensor(value, held);
    run_copy(target, held);
    return;
  }
  if (to.dtype == from.dtype) {
    copy_tensor(value, target);
    return;
  }
  const Tensor* inputs[] = {&value};
  run_pointwise_into(kCopyRow, nullptr, inputs, {&target, 1});
}

void run_reduction(const OpInfo& op, const void* attrs, const Tensor& input,
                   std::span<const Type> types, std::span<Tensor> outputs) {
  const TensorImpl& x = *input.impl();
  const auto sizes = x.shape.numbers();
  const Ints reduced = op.reduced_axes(attrs, static_cast<int>(sizes.size()));
  const AxisOrder order(sizes.size(), reduced);
  const Ints space = order.permuted(sizes), x_strides = order.permuted(x.strides);
  // Results are row-major, so their kept axes are, whether reduced ones stay with size 1 or not.
  const std::size_t kept = space.size() - reduced.size();
  Ints out_strides(space.size(), 0);
  std::int64_t step = 1;
  for (std::size_t i = kept; i-- > 0; step *= space[i]) out_strides[i] = step;

  for (std::size_t i = 0; i < outputs.size(); ++i) {
    outputs[i] = make_empty(types[i].dtype(), types[i].shape());
  }
  if (outputs[0].impl()->numel() == 0) return;
  const int results = static_cast<int>(outputs.size());
  const auto iteration = [&](int index_input) {
    codegen::Iteration it(space, static_cast<int>(reduced.size()));
    if (index_input == 0) it.add_index();
    it.add(x_strides);
    if (index_input == 1) it.add_index();
    for (int i = 0; i < results; ++i) it.add(out_strides);
    return it;
  };
  // An index never changes how axes merge, so the key leaves it out.
  codegen::Iteration plain = iteration(-1);
  plain.collapse();
  const CallKey key{&op, static_cast<std::uint64_t>(x.dtype),
                    plain.access_key(results) * 2 + (plain.reduced() > 0), hash_of(op, attrs)};
  const CallCache::Entry* entry = CallCache::of_thread().find(key, attrs);
  int index_input = entry != nullptr ? entry->index_input : -1;
  const CompiledKernel* kernel =
      entry != nullptr && entry->result == types[0].dtype() ? entry->kernel.get() : nullptr;
  codegen::KernelRecipe recipe;
  if (kernel == nullptr) {
    std::vector<DType> dtypes;
    for (const Type& type : types) dtypes.push_back(type.dtype());
    recipe = codegen::recipe_of(op, attrs, {&x.dtype, 1}, dtypes);
    for (std::size_t i = 0; i < recipe.inputs.size(); ++i) {
      if (recipe.inputs[i].index) index_input = static_cast<int>(i);
    }
  }
  KernelCall call(iteration(index_input));
  InlineVector<void*, 8> data;
  if (index_input == 0) data.push_back(nullptr);
  data.push_back(x.data);
  if (index_input == 1) data.push_back(nullptr);
  for (const Tensor& out : outputs) data.push_back(out.impl()->data);
  if (kernel != nullptr) {
    call.space.collapse();
    call.prepare(*kernel);
  } else {
    call.prepare(std::move(recipe));
    remember(key, attrs, call.held, types[0].dtype()).index_input = index_input;
  }
  call.run(data.data(), nullptr);
}

}  // namespace dyad::runtime
