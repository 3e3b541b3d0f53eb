#pragma once

namespace dyad::bench {

/// Bytes a second, read and written, of a copy of 64 MB by as many threads as kernels use: the
/// floor of whatever only moves memory. Ordinary stores into warm pages.
[[nodiscard]] double copy_rate();
/// The same with stores past the caches, where the CPU has them: nothing that writes as much as it
/// reads is faster.
[[nodiscard]] double stream_rate();
/// Bytes a second that are only read: 64 MB, from two places at once in each thread, which is
/// faster than from one.
[[nodiscard]] double read_rate();

/// Fused multiply-adds in float32, two operations each, that as many threads as kernels use do in a
/// second out of registers: the floor of products and convolutions.
[[nodiscard]] double peak_flops();

/// The same of the product of two f32 matrices of 1024 x 1024: what products reach in practice.
[[nodiscard]] double product_flops();

}  // namespace dyad::bench
