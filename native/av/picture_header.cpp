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

// Returns what follows the first of such start codes in a packet; nothing if there is none.
Bytes behind_code(Bytes packet, std::uint8_t code) {
    const std::array<std::uint8_t, 4> wanted{0, 0, 1, code};
    return {std::ranges::search(packet, wanted).end(), packet.end()};
}

// ISO/IEC 14496-2, 6.2.5: two bits behind the start code say which kind a picture is.
constexpr std::uint8_t kMpeg4Picture = 0xb6;

std::optional<bool> is_intra_mpeg4(Bytes packet) {
    const Bytes picture = behind_code(packet, kMpeg4Picture);
    return picture.empty() ? std::nullopt : std::optional(picture[0] >> 6 == kIntra);
}

// ISO/IEC 13818-2, 6.2.3.
std::optional<bool> is_intra_mpeg2(Bytes packet) {
    constexpr std::uint8_t kPicture = 0;
    constexpr unsigned kIntraPicture = 1;
    const Bytes picture = behind_code(packet, kPicture);
    if (picture.empty()) {
        return std::nullopt;
    }
    BitReader bits(picture);
    bits.skip(10);  // The picture's number.
    return bits.take(3) == kIntraPicture;
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
        case AV_CODEC_ID_MPEG1VIDEO:
        case AV_CODEC_ID_MPEG2VIDEO:
            return is_intra_mpeg2(packet);
        case AV_CODEC_ID_MPEG4:
            return is_intra_mpeg4(packet);
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
    constexpr int kBidirectional = 2;
    for (;;) {
        packet = behind_code(packet, kMpeg4Picture);
        if (packet.empty()) {
            return false;
        }
        if (packet[0] >> 6 == kBidirectional) {
            return true;
        }
    }
}

}  // namespace spdl
