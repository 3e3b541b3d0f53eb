#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "dyad/core/tensor.h"

namespace dyad {

/// What a symbolic or deferred tensor stands for; the ir and exec layers derive from it.
class Recorded : public RefCounted<Recorded> {
 public:
  virtual ~Recorded() = default;
  /// What a printed symbolic tensor is called; empty when it has no name.
  [[nodiscard]] virtual std::string name() const { return {}; }
};

/// The gradient side of a tensor: the node of the tape that computed it, or a leaf's gradient and
/// hooks. The autograd layer derives from it.
class GradMeta : public RefCounted<GradMeta> {
 public:
  enum class Kind : std::uint8_t { leaf, node };
  [[nodiscard]] Kind kind() const noexcept { return kind_; }
  static void destroy(GradMeta* meta) noexcept { meta->dispose(); }

 protected:
  explicit GradMeta(Kind kind) noexcept : kind_(kind) {}
  ~GradMeta() = default;

 private:
  virtual void dispose() noexcept = 0;
  Kind kind_;
};

/// The object behind a Tensor. Library code only: users see Tensor.
struct TensorImpl : RefCounted<TensorImpl> {
  enum class Kind : std::uint8_t { concrete, symbolic, deferred };

  TensorImpl() noexcept = default;
  /// Concrete and row-major; its memory is still to come.
  TensorImpl(DType dtype, const Shape& shape)
      : dtype(dtype), shape(shape), strides(contiguous_strides(shape)) {}

  Kind kind = Kind::concrete;
  DType dtype = DType::f32;
  bool contiguous = true;         ///< concrete: row-major without gaps
  bool requires_grad = false;     ///< a leaf to differentiate by, or computed from one
  bool is_number = false;         ///< made from a host number: its dtype yields to a tensor's
  std::uint32_t grad_output = 0;  ///< which output of the node at grad_meta this is
  std::byte* data = nullptr;      ///< concrete: the first element
  Ref<Storage> storage;           ///< concrete: keeps data alive
  Shape shape;
  Strides strides;          ///< concrete: in elements
  Ref<Recorded> recorded;   ///< symbolic: the graph value
  Ref<GradMeta> grad_meta;  ///< null while there is nothing to keep

  static void destroy(TensorImpl* impl) noexcept;
  static void* operator new(std::size_t bytes) { return detail::pool_allocate(bytes); }
  static void operator delete(void* block, std::size_t bytes) noexcept {
    detail::pool_free(block, bytes);
  }

  /// Elements of a concrete tensor.
  [[nodiscard]] std::int64_t numel() const noexcept {
    std::uint64_t n = 1;  // wraps only beside a size of 0, which makes it 0
    for (const std::int64_t size : shape.numbers()) n *= static_cast<std::uint64_t>(size);
    return static_cast<std::int64_t>(n);
  }
};

/// A new concrete, contiguous, uninitialised tensor. The shape must be concrete.
[[nodiscard]] Tensor make_empty(DType dtype, const Shape& shape, Device device = {});
/// The same with given strides, which must address distinct elements (a permutation of a dense
/// layout, such as channels-last).
[[nodiscard]] Tensor make_empty_strided(DType dtype, const Shape& shape, const Strides& strides);
/// A tensor over the storage of `base`: same data from `offset` elements after its first, other
/// shape and strides.
[[nodiscard]] Tensor make_view(const Tensor& base, const Shape& shape, const Strides& strides,
                               std::int64_t offset);
/// The same bytes as elements of another dtype; offset and strides are in elements of that one.
[[nodiscard]] Tensor make_view_as(DType dtype, const Tensor& base, const Shape& shape,
                                  const Strides& strides, std::int64_t offset);

/// True when the strides are those of a row-major array without gaps (axes of size 1 do not count).
[[nodiscard]] bool is_contiguous(const Shape& shape, const Strides& strides) noexcept;

}  // namespace dyad
