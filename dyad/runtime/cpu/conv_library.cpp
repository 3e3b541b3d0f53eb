#include <bit>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "dyad/core/tensor_impl.h"
#include "dyad/ops/attrs/epilogue.h"
#include "dyad/runtime/cpu/conv.h"
#include "dyad/runtime/cpu/conv_layouts.h"
#include "dyad/runtime/cpu/copy.h"
#include "dyad/runtime/cpu/integer_gemm.h"
#include "dyad/runtime/cpu/lru.h"
#include "dyad/runtime/cpu/onednn.h"
#include "dyad/runtime/cpu/pixel_product.h"
#include "dyad/runtime/cpu/tensor_data.h"
#include "dyad/runtime/cpu/winograd.h"
#include "dyad/runtime/threads.h"

namespace dyad::runtime::cpu {

#ifdef DYAD_PLAIN_LOOPS

bool conv_library_forward(const ConvShape&, const Tensor&, const Tensor&, const Tensor&,
                          const Tensor&, const OpCall&, const Epilogue&) {
  return false;
}
bool conv_library_blocks(const ConvShape&, const Tensor&, const Tensor&, const Tensor&,
                         const Tensor&, const OpCall&, const Epilogue&) {
  return false;
}
bool conv_winograd(const ConvShape&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                   const Tensor&, bool, const OpCall&, const Epilogue&) {
  return false;
}
bool conv_pixels(const ConvShape&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                 const OpCall&, const Epilogue&) {
  return false;
}
bool conv_library_backward_input(const ConvShape&, const Tensor&, const Tensor&, const Tensor&) {
  return false;
}
bool conv_library_backward_weight(const ConvShape&, const Tensor&, const Tensor&, const Tensor&) {
  return false;
}
bool conv_library_integer(const ConvShape&, const std::uint8_t*, const Tensor&, std::int32_t*) {
  return false;
}

#else

namespace {

using dnnl::memory;

enum class Direction : std::int64_t { forward, backward_input, backward_weight, integer, blocks };

/// A planned convolution, or none where the library has no primitive for it.
struct Plan {
  std::optional<onednn::Held> convolution;
  Turned x, out;                        ///< images on both sides, or their gradients
  memory::desc plain, packed;           ///< weights as the tensor has them, as the primitive wants
  std::optional<onednn::Held> reorder;  ///< between the two, when they differ
  bool adds_last = false;  ///< a residual is added to the sums; other kernels begin with it
};

/// What is known of a weight that primitives want packed. A copy is kept from the second time on
/// that it is asked for without a write between: training writes at each step, and would keep
/// copies for nothing. It is good while the weight's elements are those that it was made from.
struct Packed {
  std::optional<std::uint32_t> version;  ///< when it was asked for last
  std::uint64_t fingerprint = 0;         ///< of the elements that the copy has
  Ref<Storage> copy;
};

/// What tells one content of a buffer from another: 64 bits over all of it, in eight independent
/// chains so that it reads as fast as memory gives.
std::uint64_t fingerprint(const std::byte* data, std::size_t bytes) noexcept {
  constexpr std::uint64_t kPrime = 0x9E3779B97F4A7C15u;
  std::uint64_t lanes[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  const auto mix = [](std::uint64_t h, std::uint64_t word) {
    return std::rotl(h ^ word, 29) * kPrime;
  };
  std::size_t at = 0;
  for (; at + 64 <= bytes; at += 64) {
    std::uint64_t words[8];
    std::memcpy(words, data + at, 64);
    for (int i = 0; i < 8; ++i) lanes[i] = mix(lanes[i], words[i]);
  }
  std::uint64_t result = bytes;
  for (; at < bytes; at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, data + at, std::min<std::size_t>(8, bytes - at));
    result = mix(result, word);
  }
  for (const std::uint64_t lane : lanes) result = mix(result, lane);
  return result ^ (result >> 32);
}

PlanKey plan_key_of(Direction direction, const ConvShape& s, bool with_bias, int threads) {
  PlanKey key{static_cast<std::int64_t>(direction),
              static_cast<std::int64_t>(s.dtype),
              threads,
              with_bias,
              s.n,
              s.c,
              s.o,
              s.groups};
  for (const auto* numbers : {s.in, s.out, s.kernel, s.stride, s.low, s.dilation}) {
    for (int i = 0; i < 3; ++i) key.push_back(numbers[i]);
  }
  return key;
}

dnnl::convolution_forward::primitive_desc forward_descriptor(const Layouts& l, bool with_bias,
                                                             const Epilogue& epilogue = {}) {
  dnnl::primitive_attr attributes;
  attributes.set_post_ops(epilogue.post_ops());
  using Forward = dnnl::convolution_forward;
  constexpr auto kind = dnnl::prop_kind::forward_training;
  constexpr auto algorithm = dnnl::algorithm::convolution_direct;
  if (with_bias) {
    return {Forward::desc(kind, algorithm, l.any_x, l.any_weights, l.bias, l.any_out, l.strides,
                          l.dilations, l.low, l.high),
            attributes, onednn::engine()};
  }
  return {Forward::desc(kind, algorithm, l.any_x, l.any_weights, l.any_out, l.strides, l.dilations,
                        l.low, l.high),
          attributes, onednn::engine()};
}

Plan make_forward(const Layouts& l, bool with_bias, const Epilogue& epilogue = {}) {
  const auto pd = forward_descriptor(l, with_bias, epilogue);
  Plan plan{.convolution = {},
            .x = {l.x, pd.src_desc()},
            .out = {pd.dst_desc(), l.out},
            .plain = l.plain_weights,
            .packed = pd.weights_desc(),
            .reorder = {},
            .adds_last = std::string_view(pd.impl_info_str()).starts_with("brg")};
  if (with_bias) {
    plan.convolution.emplace(
        dnnl::convolution_forward(pd),
        std::initializer_list<onednn::Held::Argument>{{DNNL_ARG_WEIGHTS, plan.packed},
                                                      {DNNL_ARG_SRC, pd.src_desc()},
                                                      {DNNL_ARG_DST, pd.dst_desc()},
                                                      {DNNL_ARG_BIAS, l.bias}});
  } else {
    plan.convolution.emplace(
        dnnl::convolution_forward(pd),
        std::initializer_list<onednn::Held::Argument>{{DNNL_ARG_WEIGHTS, plan.packed},
                                                      {DNNL_ARG_SRC, pd.src_desc()},
                                                      {DNNL_ARG_DST, pd.dst_desc()}});
  }
  if (plan.packed != plan.plain) plan.reorder = make_reorder(plan.plain, plan.packed);
  return plan;
}

Plan make_backward_input(const ConvShape& s) {
  const Layouts l(
      s, input_gradient_channels_last(s.c, s.groups) ? Images::channels_last : Images::row_major);
  const dnnl::convolution_backward_data::primitive_desc pd(
      dnnl::convolution_backward_data::desc(dnnl::algorithm::convolution_direct, l.any_x,
                                            l.any_weights, l.any_out, l.strides, l.dilations, l.low,
                                            l.high),
      onednn::engine(), forward_descriptor(l, false));
  Plan plan{.convolution = {},
            .x = {pd.diff_src_desc(), l.x},
            .out = {l.out, pd.diff_dst_desc()},
            .plain = l.plain_weights,
            .packed = pd.weights_desc(),
            .reorder = {}};
  plan.convolution.emplace(
      dnnl::convolution_backward_data(pd),
      std::initializer_list<onednn::Held::Argument>{{DNNL_ARG_WEIGHTS, plan.packed},
                                                    {DNNL_ARG_DIFF_DST, pd.diff_dst_desc()},
                                                    {DNNL_ARG_DIFF_SRC, pd.diff_src_desc()}});
  if (plan.packed != plan.plain) plan.reorder = make_reorder(plan.plain, plan.packed);
  return plan;
}

Plan make_backward_weight(const ConvShape& s) {
  const Layouts l(s, Images::channels_last);
  const dnnl::convolution_backward_weights::primitive_desc pd(
      dnnl::convolution_backward_weights::desc(dnnl::algorithm::convolution_direct, l.any_x,
                                               l.any_weights, l.any_out, l.strides, l.dilations,
                                               l.low, l.high),
      onednn::engine(), forward_descriptor(l, false));
  Plan plan{.convolution = {},
            .x = {l.x, pd.src_desc()},
            .out = {l.out, pd.diff_dst_desc()},
            .plain = l.plain_weights,
            .packed = pd.diff_weights_desc(),
            .reorder = {}};
  plan.convolution.emplace(
      dnnl::convolution_backward_weights(pd),
      std::initializer_list<onednn::Held::Argument>{{DNNL_ARG_DIFF_WEIGHTS, plan.packed},
                                                    {DNNL_ARG_DIFF_DST, pd.diff_dst_desc()},
                                                    {DNNL_ARG_SRC, pd.src_desc()}});
  if (plan.packed != plan.plain) plan.reorder = make_reorder(plan.packed, plan.plain);
  return plan;
}

/// This thread's plan for the problem, made where there is none yet; without a primitive when the
/// library has none.
template <class Make>
Plan& planned(const PlanKey& key, Make make) {
  constexpr std::size_t kHeld = 256;
  thread_local Lru<Plan> plans(kHeld);
  return plans.get(key, [&]() -> Plan {
    try {
      return make();
    } catch (const dnnl::error& error) {
      if (error.status != dnnl_unimplemented) onednn::fail(error);
    }
    return {};
  });
}

/// What a step of a plan keeps of a convolution.
struct ConstantWeight final : KernelMemo {
  std::shared_ptr<const memory> elements;
};

/// Whether the weight of a call is a constant, and `weight` its elements as they are.
bool has_constant_weight(const OpCall& call, const Tensor& weight) {
  return call.is_constant(1) && call.inputs[1].impl()->data == weight.impl()->data;
}

/// The constant weight of a call in another layout.
const memory& constant_weight(const memory::desc& plain, const memory::desc& wanted,
                              const Tensor& weight, const OpCall& call) {
  std::shared_ptr<const memory>& elements = call.memo_as<ConstantWeight>().elements;
  if (!elements || elements->get_desc() != wanted) {
    elements = onednn::packed_constant(weight, plain, wanted);
  }
  return *elements;
}

/// The weight's elements in the layout of the plan: its own, a copy that is kept, or one in this
/// thread's memory for packing.
const void* packed_weight(Plan& plan, PlanKey key, const Tensor& weight) {
  const std::byte* const elements = weight.impl()->data;
  if (!plan.reorder) return elements;
  constexpr std::size_t kPacked = 128;
  thread_local Lru<Packed> copies(kPacked);
  key.push_back(static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(elements)));
  Packed& packed = copies.get(key, [] { return Packed(); });
  const std::uint32_t version = weight.impl()->storage->version();
  std::byte* into = nullptr;
  if (std::exchange(packed.version, version) == version) {
    const std::uint64_t print = fingerprint(
        elements, static_cast<std::size_t>(weight.impl()->numel()) * size_of(weight.dtype()));
    if (packed.copy && packed.fingerprint == print) return packed.copy->data();
    if (!packed.copy) packed.copy = Storage::allocate(plan.packed.get_size());
    packed.fingerprint = print;
    into = packed.copy->data();
  } else {
    packed.copy = {};
    into = onednn::packing_memory(plan.packed.get_size());
  }
  plan.reorder->run({elements, into});
  return into;
}

/// A convolution as planned; `key` is the plan's.
void run_forward(Plan& plan, PlanKey key, const Tensor& image, const Tensor& weight,
                 const Tensor& bias, const Tensor& out, const OpCall& call) {
  const memory* const constant = plan.reorder && has_constant_weight(call, weight)
                                     ? &constant_weight(plan.plain, plan.packed, weight, call)
                                     : nullptr;
  const void* const packed = constant ? nullptr : packed_weight(plan, std::move(key), weight);
  const ContentsHold read(plan.reorder ? Ref<Storage>() : weight.impl()->storage);
  Tensor turned_in, turned_out;
  plan.convolution->run({packed, plan.x.taken(image, turned_in), plan.out.place(out, turned_out),
                         bias.defined() ? bias.impl()->data : nullptr},
                        {constant});
  plan.out.give(turned_out, out);
}

}  // namespace

bool conv_library_forward(const ConvShape& s, const Tensor& x, const Tensor& weight,
                          const Tensor& bias, const Tensor& out, const OpCall& call,
                          const Epilogue& epilogue) {
  if (!onednn::takes(s.dtype)) return false;
  const int threads = worth_a_team(s.flops()) ? team_size() : 1;
  const Tensor image = channels_last(x);
  const LibraryTeam team(threads);
  PlanKey key = plan_key_of(Direction::forward, s, bias.defined(), threads);
  epilogue.add_to(key);
  Plan& plan =
      planned(key, [&] { return make_forward(Layouts::forwards(s), bias.defined(), epilogue); });
  if (!plan.convolution) return false;
  if (epilogue.adds && (plan.out.turns() || (epilogue.adds_last && !plan.adds_last))) return false;
  run_forward(plan, std::move(key), image, weight, bias, out, call);
  return true;
}

bool conv_library_blocks(const ConvShape& s, const Tensor& x, const Tensor& weight,
                         const Tensor& bias, const Tensor& out, const OpCall& call,
                         const Epilogue& epilogue) {
  const int threads = worth_a_team(s.flops()) ? team_size() : 1;
  const LibraryTeam team(threads);
  const Images lie = x.rank() == 5                   ? Images::blocks
                     : s.c % ops::kChannelBlock == 0 ? Images::channels_last
                                                     : Images::row_major;
  PlanKey key = plan_key_of(Direction::blocks, s, bias.defined(), threads);
  key.push_back(static_cast<std::int64_t>(lie));
  epilogue.add_to(key);
  Plan& plan = planned(
      key, [&] { return make_forward(Layouts::into_blocks(s, lie), bias.defined(), epilogue); });
  if (!plan.convolution) return false;
  run_forward(plan, std::move(key), x, weight, bias, out, call);
  return true;
}

bool conv_winograd(const ConvShape& s, const Tensor& x, const Tensor& weight, const Tensor& bias,
                   const Tensor& residual, const Tensor& out, bool out_is_channels_last,
                   const OpCall& call, const Epilogue& epilogue) {
  const bool is_constant = has_constant_weight(call, weight);
  if (!suits_winograd(s, epilogue)) return false;
  if (out_is_channels_last ? !repays_winograd(s) || !is_channels_last(out) : !is_constant) {
    return false;
  }
  const bool x_is_channels_last = out_is_channels_last || x.rank() == 4;
  const Tensor image = out_is_channels_last ? channels_last(x) : x;
  Tensor panels;
  const float* packed = nullptr;
  if (is_constant) {
    static_assert(kWinogradPanel == 16);
    const memory::desc plain = Layouts(s, Images::blocks).plain_weights;
    const memory::desc wanted(plain.dims(), plain.data_type(), memory::format_tag::Oihw16o);
    packed =
        static_cast<const float*>(constant_weight(plain, wanted, weight, call).get_data_handle());
  } else {
    const ContentsHold read(weight.impl()->storage);
    panels = make_empty(DType::f32, weight.impl()->shape);
    pack_for_winograd(elements_of<float>(weight), s.o, s.c, elements_of<float>(panels));
    packed = elements_of<float>(panels);
  }
  winograd_forward(s,
                   {.x = elements_of<float>(image),
                    .weight = packed,
                    .bias = elements_of<float>(bias),
                    .residual = elements_of<float>(residual),
                    .out = elements_of<float>(out),
                    .x_is_channels_last = x_is_channels_last,
                    .out_is_channels_last = out_is_channels_last},
                   epilogue);
  return true;
}

bool conv_pixels(const ConvShape& s, const Tensor& x, const Tensor& weight, const Tensor& bias,
                 const Tensor& out, const OpCall& call, const Epilogue& epilogue) {
  const std::int64_t pixels = s.n * s.positions();
  if (!is_pointwise(s) || !takes_pixel_product(pixels, s.o, s.c)) return false;
  if (!is_channels_last(out)) return false;
  const Tensor image = channels_last(x);
  Tensor turned;
  const float* rows = nullptr;  // of the weight, [c, o]
  if (has_constant_weight(call, weight)) {
    const memory::desc plain = Layouts(s, Images::channels_last).plain_weights;
    memory::dims strides(plain.dims().size(), s.o * s.c);
    strides[0] = 1;
    strides[1] = s.o;
    const memory::desc wanted(plain.dims(), plain.data_type(), strides);
    rows =
        static_cast<const float*>(constant_weight(plain, wanted, weight, call).get_data_handle());
  } else {
    const ContentsHold read(weight.impl()->storage);
    turned = make_empty(DType::f32, {s.c, s.o});
    const std::int64_t sizes[] = {s.c, s.o};
    copy_elements(DType::f32, sizes, turned.impl()->data, Ints{s.o, 1}, weight.impl()->data,
                  Ints{1, s.c});
    rows = elements_of<float>(turned);
  }
  pixel_product({.m = pixels,
                 .n = s.o,
                 .k = s.c,
                 .a = elements_of<const float>(image),
                 .b = rows,
                 .bias = elements_of<const float>(bias),
                 .c = elements_of<float>(out),
                 .epilogue = epilogue});
  return true;
}

bool conv_library_integer(const ConvShape& s, const std::uint8_t* image, const Tensor& weight,
                          std::int32_t* out) {
  if (!integer_library_is_exact()) return false;
  // Four bytes are multiplied in the place of one f32.
  const int threads = worth_a_team(s.flops() / 4) ? team_size() : 1;
  const LibraryTeam team(threads);
  const PlanKey key = plan_key_of(Direction::integer, s, false, threads);
  Plan& plan = planned(key, [&] {
    return make_forward(Layouts(s, Images::channels_last, memory::data_type::u8,
                                memory::data_type::s8, memory::data_type::s32),
                        false);
  });
  if (!plan.convolution) return false;
  plan.convolution->run({packed_weight(plan, key, weight), image, out});
  return true;
}

bool conv_library_backward_input(const ConvShape& s, const Tensor& grad, const Tensor& weight,
                                 const Tensor& out) {
  if (!onednn::takes(s.dtype)) return false;
  const int threads = worth_a_team(s.flops()) ? team_size() : 1;
  const Tensor rows =
      input_gradient_channels_last(s.c, s.groups) ? channels_last(grad) : contiguous_copy(grad);
  const LibraryTeam team(threads);
  const PlanKey key = plan_key_of(Direction::backward_input, s, false, threads);
  Plan& plan = planned(key, [&] { return make_backward_input(s); });
  if (!plan.convolution) return false;
  const void* const packed = packed_weight(plan, key, weight);
  Tensor turned_in, turned_out;
  plan.convolution->run({packed, plan.out.taken(rows, turned_in), plan.x.place(out, turned_out)});
  plan.x.give(turned_out, out);
  return true;
}

bool conv_library_backward_weight(const ConvShape& s, const Tensor& grad, const Tensor& x,
                                  const Tensor& out) {
  if (!onednn::takes(s.dtype)) return false;
  const int threads = worth_a_team(s.flops()) ? team_size() : 1;
  const Tensor rows = channels_last(grad), image = channels_last(x);
  const LibraryTeam team(threads);
  Plan& plan = planned(plan_key_of(Direction::backward_weight, s, false, threads),
                       [&] { return make_backward_weight(s); });
  if (!plan.convolution) return false;
  std::byte* const made =
      plan.reorder ? onednn::packing_memory(plan.packed.get_size()) : out.impl()->data;
  Tensor turned_grad, turned_image;
  plan.convolution->run(
      {made, plan.out.taken(rows, turned_grad), plan.x.taken(image, turned_image)});
  if (plan.reorder) plan.reorder->run({made, out.impl()->data});
  return true;
}

#endif

}  // namespace dyad::runtime::cpu
