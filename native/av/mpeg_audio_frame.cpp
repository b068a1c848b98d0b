#include "av/mpeg_audio_frame.h"

#include <array>

namespace spdl {

// ISO/IEC 11172-3, section 2.4.2.3, and for lower rates ISO/IEC 13818-3.
std::size_t layer_two_bytes(Bytes frame) {
    constexpr std::array<std::size_t, 15> kKilobits{0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384};
    constexpr std::array<std::size_t, 15> kLowKilobits{0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160};
    constexpr std::array<std::size_t, 3> kRates{44100, 48000, 32000};
    constexpr std::size_t kSync = 0xFFE;
    constexpr std::size_t kLayerTwo = 2;
    if (frame.size() < 4 || ((frame[0] << 4) | ((frame[1] >> 4) & 0xE)) != kSync ||
        ((frame[1] >> 1) & 3) != kLayerTwo) {
        return 0;
    }
    const std::size_t version = (frame[1] >> 3) & 3;  // 3 is MPEG-1, 2 is MPEG-2, 0 is MPEG-2.5.
    const std::size_t bits = frame[2] >> 4;
    const std::size_t rate = (frame[2] >> 2) & 3;
    if (version == 1 || bits >= kKilobits.size() || rate >= kRates.size()) {
        return 0;
    }
    const std::size_t kilobits = version == 3 ? kKilobits[bits] : kLowKilobits[bits];
    const std::size_t samples = kRates[rate] >> (version == 3 ? 0 : version == 2 ? 1 : 2);
    const std::size_t padding = (frame[2] >> 1) & 1;
    return kilobits == 0 ? 0 : 144'000 * kilobits / samples + padding;
}

}  // namespace spdl
