#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace dyad {

/// Base of objects counted in themselves. T's destructor runs through `destroy`, which T may shadow
/// to return its memory to a pool.
template <class T>
class RefCounted {
 public:
  // Only the maker of an object sees it with no owner, and only its single owner sees one: neither
  // needs a locked instruction, which is most of the cost of a short-lived object.
  void retain() const noexcept {
    if (refs_.load(std::memory_order_relaxed) == 0) {
      refs_.store(1, std::memory_order_relaxed);
    } else {
      refs_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  void release() const noexcept {
    if (refs_.load(std::memory_order_acquire) == 1 ||
        refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      T::destroy(const_cast<T*>(static_cast<const T*>(this)));
    }
  }
  [[nodiscard]] std::int32_t use_count() const noexcept {
    return refs_.load(std::memory_order_relaxed);
  }
  static void destroy(T* object) noexcept { delete object; }

 protected:
  RefCounted() noexcept = default;
  ~RefCounted() = default;
  RefCounted(const RefCounted&) noexcept {}
  RefCounted& operator=(const RefCounted&) noexcept {  // NOLINT(cert-oop54-cpp): assigns nothing
    return *this;
  }

 private:
  mutable std::atomic<std::int32_t> refs_{0};
};

/// How a Ref counts. A specialisation without bodies lets a class be owned where it is incomplete.
template <class T>
struct RefCounting {
  static void retain(const T* object) noexcept { object->retain(); }
  static void release(const T* object) noexcept { object->release(); }
};

/// Shared owner of a RefCounted object: one pointer, copies are counted.
template <class T>
class Ref {
 public:
  constexpr Ref() noexcept = default;
  constexpr Ref(std::nullptr_t) noexcept {}
  explicit Ref(T* object) noexcept : object_(object) {
    if (object_) RefCounting<T>::retain(object_);
  }
  Ref(const Ref& other) noexcept : Ref(other.object_) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  template <class U>
    requires std::is_convertible_v<U*, T*>
  Ref(const Ref<U>& other) noexcept : Ref(static_cast<T*>(other.get())) {}
  template <class U>
    requires std::is_convertible_v<U*, T*>
  Ref(Ref<U>&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  ~Ref() {
    if (object_) RefCounting<T>::release(object_);
  }
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }

  [[nodiscard]] T* get() const noexcept { return object_; }
  T* operator->() const noexcept { return object_; }
  T& operator*() const noexcept { return *object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }
  bool operator==(const Ref&) const noexcept = default;

 private:
  template <class>
  friend class Ref;
  T* object_ = nullptr;
};

template <class T, class... Args>
Ref<T> make_ref(Args&&... args) {
  return Ref<T>(new T(std::forward<Args>(args)...));
}

}  // namespace dyad
