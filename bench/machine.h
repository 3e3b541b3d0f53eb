#pragma once

namespace dyad::bench {

/// Bytes that copy_rate and read_rate move by default: more than caches hold.
inline constexpr double kManyBytes = 128 << 20;

/// Bytes a second, read and written, of a copy that moves so many by as many threads as kernels
/// use: the floor of whatever only moves memory. In huge pages, with stores past the caches or
/// ordinary ones, whichever are faster: the latter are where everything lies in caches.
[[nodiscard]] double copy_rate(double bytes = kManyBytes);
/// Bytes a second that are only read, from two places at once in each thread, which is faster than
/// from one.
[[nodiscard]] double read_rate(double bytes = kManyBytes / 2);

/// Fused multiply-adds in float32, two operations each, that as many threads as kernels use do in a
/// second out of registers: the floor of products and convolutions.
[[nodiscard]] double peak_flops();

/// The same of the product of two f32 matrices of 512 x 512: what products reach in practice.
[[nodiscard]] double product_flops();

/// Nanoseconds that a cache line takes from one thread to another and back, each on a core of its
/// own. Virtual cores may come to lie in two groups of cores without a common cache while programs
/// run (here 340 in the place of 55): steps on several threads are slower then.
[[nodiscard]] double core_round_trip_ns();

}  // namespace dyad::bench
