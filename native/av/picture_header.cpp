#include "av/picture_header.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "av/bit_reader.h"

namespace spdl {
namespace {

constexpr unsigned kIntra = 0;

// ITU-T H.263, 5.1.
bool is_intra_h263(BitReader bits) {
    constexpr std::size_t kBeforeFormat = 22 + 8 + 5;  // The start code, the time, and flags.
    constexpr unsigned kExtended = 7;
    bits.skip(kBeforeFormat);
    if (bits.take(3) != kExtended) {
        return bits.take(1) == kIntra;
    }
    constexpr unsigned kFullUpdate = 1;
    constexpr std::size_t kFullSize = 18;
    if (bits.take(3) == kFullUpdate) {
        bits.skip(kFullSize);
    }
    return bits.take(3) == kIntra;
}

// Sorenson's variant, which Flash video has: the specification of FLV, annex E.
bool is_intra_sorenson(BitReader bits) {
    bits.skip(17 + 5 + 8);  // The start code, the version and the time.
    const unsigned format = bits.take(3);
    bits.skip(format == 0 ? 16 : format == 1 ? 32 : 0);
    return bits.take(2) == kIntra;
}

}  // namespace

std::optional<bool> needs_no_others(AVCodecID codec, Bytes packet) {
    BitReader bits(packet);
    switch (codec) {
        case AV_CODEC_ID_H261:
            // It has no such pictures: each block says for itself whether it builds on others.
            return false;
        case AV_CODEC_ID_H263:
        case AV_CODEC_ID_H263P:
            return is_intra_h263(bits);
        case AV_CODEC_ID_FLV1:
            return is_intra_sorenson(bits);
        case AV_CODEC_ID_MSMPEG4V1:
            bits.skip(32 + 5);  // The start code and the time.
            return bits.take(2) == kIntra;
        case AV_CODEC_ID_MSMPEG4V2:
        case AV_CODEC_ID_MSMPEG4V3:
        case AV_CODEC_ID_WMV1:
            return bits.take(2) == kIntra;
        case AV_CODEC_ID_WMV2:
            return bits.take(1) == kIntra;
        default:
            return std::nullopt;
    }
}

bool holds_reordered_picture(AVCodecID codec, Bytes packet) {
    if (codec != AV_CODEC_ID_MPEG4) {
        return false;
    }
    // ISO/IEC 14496-2, 6.2.5: the start code of a picture, and two bits that say which kind it is.
    constexpr std::array<std::uint8_t, 4> kPicture{0, 0, 1, 0xb6};
    constexpr int kBidirectional = 2;
    for (auto at = packet.begin();;) {
        at = std::ranges::search(at, packet.end(), kPicture.begin(), kPicture.end()).end();
        if (at == packet.end()) {
            return false;
        }
        if (*at >> 6 == kBidirectional) {
            return true;
        }
    }
}

}  // namespace spdl
