#include "av/nal_units.h"

#include <cstddef>

namespace spdl {
namespace {

// Returns how many bytes the length of a unit takes; 0 for start codes.
std::size_t bytes_of_lengths(const AVCodecParameters& video) {
    const std::uint8_t* const extra = video.extradata;
    const int size = extra != nullptr && extra[0] == 1 ? video.extradata_size : 0;
    constexpr int kInH264 = 4;
    constexpr int kInHevc = 21;
    const int place = video.codec_id == AV_CODEC_ID_HEVC ? kInHevc : kInH264;
    return size > place ? (extra[place] & 3U) + 1U : 0;
}

}  // namespace

void visit_units(Bytes packet, const AVCodecParameters& video, const std::function<bool(Bytes)>& look) {
    const std::size_t size_bytes = bytes_of_lengths(video);
    for (std::size_t at = 0; at < packet.size();) {
        std::size_t begin = at;
        std::size_t next = packet.size();
        if (size_bytes > 0) {
            if (packet.size() - at < size_bytes) {
                return;
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
                return;
            }
            next = begin;
        }
        if (look(packet.subspan(begin))) {
            return;
        }
        at = next;
    }
}

bool has_picture(const AVPacket& packet, const AVCodecParameters& video) {
    // ITU-T H.265, table 7-1.
    constexpr int kFirstOfOthers = 32;
    bool found = false;
    const Bytes bytes(packet.data, packet.data == nullptr ? 0 : static_cast<std::size_t>(packet.size));
    visit_units(bytes, video, [&](Bytes unit) {
        found = !unit.empty() && (unit[0] >> 1 & 0x3F) < kFirstOfOthers;
        return found;
    });
    return found;
}

}  // namespace spdl
