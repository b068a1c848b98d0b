#include "av/stream_begin.h"

#include <algorithm>
#include <cstddef>

#include "av/nal_units.h"
#include "core/bytes.h"

namespace spdl {
namespace {

Bytes bytes_of(const AVPacket& packet) {
    return {packet.data, packet.data == nullptr ? 0 : static_cast<std::size_t>(packet.size)};
}

// Returns whether a group of pictures of MPEG-1 or MPEG-2 says that it is closed: ISO/IEC 13818-2, 6.2.2.6.
bool is_closed(Bytes packet) {
    constexpr std::uint8_t kStart[] = {0, 0, 1, 0xB8};
    const auto found = std::ranges::search(packet, kStart);
    constexpr std::ptrdiff_t kFlags = 7;  // After the start code and 25 bits of time.
    constexpr unsigned kClosed = 0x40;
    return packet.end() - found.begin() > kFlags && (found.begin()[kFlags] & kClosed) != 0;
}

// Returns whether a picture of HEVC is one that is skipped where decoding begins: ITU-T H.265, table 7-1.
bool is_skipped_leading(Bytes packet, const AVCodecParameters& video) {
    constexpr int kFirst = 8;
    constexpr int kLast = 9;
    constexpr int kFirstOfOthers = 32;
    bool skipped = false;
    visit_units(packet, video, [&](Bytes unit) {
        const int type = unit.empty() ? kFirstOfOthers : unit[0] >> 1 & 0x3F;
        skipped = type == kFirst || type == kLast;
        return type < kFirstOfOthers;
    });
    return skipped;
}

}  // namespace

bool StreamBegin::applies_to(AVCodecID codec) {
    return codec == AV_CODEC_ID_H264 || codec == AV_CODEC_ID_HEVC || codec == AV_CODEC_ID_MPEG1VIDEO ||
           codec == AV_CODEC_ID_MPEG2VIDEO;
}

bool StreamBegin::lacks_others(const AVPacket& packet) {
    if (!applies_to(stream_.parameters->codec_id)) {
        return false;
    }
    if ((packet.flags & AV_PKT_FLAG_KEY) != 0) {
        if (keys_++ == 0) {
            key_time_ = packet.pts;
            closed_ = is_closed(bytes_of(packet));
        }
        return false;
    }
    if (keys_ == 0) {
        return true;
    }
    const bool leading =
        keys_ == 1 && packet.pts != AV_NOPTS_VALUE && key_time_ != AV_NOPTS_VALUE && packet.pts < key_time_;
    return leading && builds_on_lost(packet);
}

bool StreamBegin::builds_on_lost(const AVPacket& packet) const {
    switch (stream_.parameters->codec_id) {
        case AV_CODEC_ID_HEVC:
            return is_skipped_leading(bytes_of(packet), *stream_.parameters);
        case AV_CODEC_ID_MPEG1VIDEO:
        case AV_CODEC_ID_MPEG2VIDEO:
            return !closed_;
        default:
            return true;
    }
}

std::vector<std::uint8_t> hidden_packets(const PacketList& packets) {
    const Stream& stream = *packets.stream;
    StreamBegin begin(stream);
    std::vector<std::uint8_t> hidden;
    std::vector<std::uint8_t> lacking;
    for (const PacketPtr& packet : packets.packets) {
        hidden.push_back(is_hidden(*packet, stream.parameters->codec_id) ? 1 : 0);
        lacking.push_back(begin.lacks_others(*packet) ? 1 : 0);
    }
    if (begin.found()) {
        std::ranges::transform(hidden, lacking, hidden.begin(), [](auto a, auto b) { return a | b; });
    }
    return hidden;
}

}  // namespace spdl
