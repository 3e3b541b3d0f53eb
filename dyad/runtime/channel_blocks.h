#pragma once

namespace dyad::runtime {

/// Whether this CPU's convolutions are faster with the channels of images in blocks of eight
/// ([n, c / 8, h, w, 8]) than with channels that lie side by side: without AVX-512.
[[nodiscard]] bool prefers_channel_blocks() noexcept;

}  // namespace dyad::runtime
