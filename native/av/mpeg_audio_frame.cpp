#include "av/mpeg_audio_frame.h"

#include <array>

namespace spdl {
namespace {

// The layers as headers number them.
constexpr std::size_t kLayerTwo = 2;
constexpr std::size_t kLayerOne = 3;

std::size_t layer_of(Bytes frame) {
    return (frame[1] >> 1) & 3;
}

}  // namespace

// ISO/IEC 11172-3, section 2.4.2.3, and for lower rates ISO/IEC 13818-3.
std::size_t mpeg_audio_bytes(Bytes frame) {
    using Rates = std::array<std::size_t, 15>;
    constexpr Rates kOne{0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448};
    constexpr Rates kTwo{0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384};
    constexpr Rates kThree{0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320};
    constexpr Rates kLowOne{0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256};
    constexpr Rates kLow{0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160};
    constexpr std::array<std::size_t, 3> kRates{44100, 48000, 32000};
    constexpr std::size_t kSync = 0xFFE;
    if (frame.size() < 4 || ((frame[0] << 4) | ((frame[1] >> 4) & 0xE)) != kSync || layer_of(frame) == 0) {
        return 0;
    }
    const std::size_t version = (frame[1] >> 3) & 3;  // 3 is MPEG-1, 2 is MPEG-2, 0 is MPEG-2.5.
    const std::size_t layer = layer_of(frame);
    const std::size_t bits = frame[2] >> 4;
    const std::size_t rate = (frame[2] >> 2) & 3;
    if (version == 1 || bits >= kTwo.size() || rate >= kRates.size()) {
        return 0;
    }
    const bool low = version != 3;
    const Rates& table = layer == kLayerOne ? (low ? kLowOne : kOne) : low ? kLow : layer == kLayerTwo ? kTwo : kThree;
    const std::size_t kilobits = table[bits];
    const std::size_t samples = kRates[rate] >> (version == 3 ? 0 : version == 2 ? 1 : 2);
    const std::size_t padding = (frame[2] >> 1) & 1;
    if (kilobits == 0) {
        return 0;
    }
    if (layer == kLayerOne) {
        return (12'000 * kilobits / samples + padding) * 4;
    }
    const bool is_short = layer != kLayerTwo && low;
    return (is_short ? 72'000 : 144'000) * kilobits / samples + padding;
}

std::size_t layer_two_bytes(Bytes frame) {
    return frame.size() >= 2 && layer_of(frame) == kLayerTwo ? mpeg_audio_bytes(frame) : 0;
}

}  // namespace spdl
