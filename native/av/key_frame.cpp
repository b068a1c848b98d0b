#include "av/key_frame.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>

#include "av/bit_reader.h"
#include "av/nal_units.h"
#include "av/picture_header.h"
#include "core/bytes.h"

namespace spdl {
namespace {

// ITU-T H.264, table 7-1.
constexpr int kSlice = 1;
constexpr int kInstantRefresh = 5;

// Returns whether a unit is a slice of a picture that others are needed for; nothing if it is no slice.
std::optional<bool> needs_others(Bytes unit) {
    if (unit.size() < 2) {
        return std::nullopt;
    }
    const int type = unit[0] & 0x1f;
    if (type == kInstantRefresh) {
        return false;
    }
    if (type != kSlice) {
        return std::nullopt;
    }
    BitReader bits(unit.subspan(1));
    bits.exp_golomb();  // The first macroblock.
    const std::optional<unsigned> kind = bits.exp_golomb();
    // Table 7-6: I and SI, of this slice or of all in the picture.
    constexpr unsigned kKinds = 5;
    return kind && *kind % kKinds != 2 && *kind % kKinds != 4;
}

bool is_refreshed_later(Bytes packet, const AVCodecParameters& video) {
    bool refreshed = false;
    visit_units(packet, video, [&](Bytes unit) {
        const std::optional<bool> found = needs_others(unit);
        refreshed = found.value_or(false);
        return found.has_value();
    });
    return refreshed;
}

// Returns whether a packet of HEVC holds no picture that others are needed for: ITU-T H.265, table 7-1.
bool holds_random_access(Bytes packet, const AVCodecParameters& video) {
    constexpr int kFirst = 16;
    constexpr int kOthers = 32;
    bool found = true;
    visit_units(packet, video, [&](Bytes unit) {
        const int type = unit.empty() ? kOthers : unit[0] >> 1 & 0x3F;
        found = type >= kFirst;
        return type < kOthers;
    });
    return found;
}

}  // namespace

bool containers_need_not_tell_keys(AVCodecID codec) {
    const AVCodecDescriptor* const described = avcodec_descriptor_get(codec);
    if (described != nullptr && (described->props & AV_CODEC_PROP_INTRA_ONLY) != 0) {
        return true;
    }
    if (needs_no_others(codec, {})) {
        return true;
    }
    void* at = nullptr;
    while (const AVCodecParser* const parser = av_parser_iterate(&at)) {
        if (std::ranges::find(parser->codec_ids, static_cast<int>(codec)) != std::end(parser->codec_ids)) {
            return true;
        }
    }
    return false;
}

bool tells_itself(const AVPacket& packet, const Stream& stream) {
    return packet.data != nullptr && stream.parameters->codec_id != AV_CODEC_ID_H261 &&
           needs_no_others(stream.parameters->codec_id, {packet.data, static_cast<std::size_t>(packet.size)});
}

bool is_key(const AVPacket& packet, const Stream& stream) {
    const AVCodecParameters& video = *stream.parameters;
    if (packet.data == nullptr) {
        return (packet.flags & AV_PKT_FLAG_KEY) != 0;
    }
    const Bytes bytes(packet.data, static_cast<std::size_t>(packet.size));
    if (const std::optional<bool> told = needs_no_others(video.codec_id, bytes)) {
        return *told;
    }
    if ((packet.flags & AV_PKT_FLAG_KEY) == 0 || !stream.tells_keys) {
        return false;
    }
    if (video.codec_id == AV_CODEC_ID_HEVC) {
        return holds_random_access(bytes, video);
    }
    return video.codec_id != AV_CODEC_ID_H264 || !is_refreshed_later(bytes, video);
}

}  // namespace spdl
