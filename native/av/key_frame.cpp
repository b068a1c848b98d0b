#include "av/key_frame.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>

#include "av/bit_reader.h"
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

// The units of a packet have their lengths in front, as MP4 and Matroska store them, or a start code.
bool is_refreshed_later(Bytes packet, Bytes extra) {
    const bool lengths = extra.size() > 4 && extra[0] == 1;
    const std::size_t size_bytes = lengths ? (extra[4] & 3U) + 1U : 0;
    for (std::size_t at = 0; at < packet.size();) {
        std::size_t begin = at;
        std::size_t next = packet.size();
        if (lengths) {
            if (packet.size() - at < size_bytes) {
                return false;
            }
            std::size_t length = 0;
            for (std::size_t i = 0; i < size_bytes; ++i) {
                length = length << 8U | packet[at + i];
            }
            begin = at + size_bytes;
            next = length < packet.size() - begin ? begin + length : packet.size();
        } else {
            while (begin + 3 <= packet.size() &&
                   !(packet[begin] == 0 && packet[begin + 1] == 0 && packet[begin + 2] == 1)) {
                ++begin;
            }
            begin += 3;
            if (begin >= packet.size()) {
                return false;
            }
            next = begin;
        }
        if (const std::optional<bool> found = needs_others(packet.subspan(begin))) {
            return *found;
        }
        at = next;
    }
    return false;
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
    const Bytes extra(video.extradata, static_cast<std::size_t>(video.extradata_size));
    return video.codec_id != AV_CODEC_ID_H264 || !is_refreshed_later(bytes, extra);
}

}  // namespace spdl
