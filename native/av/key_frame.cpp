#include "av/key_frame.h"

#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/bytes.h"

namespace spdl {
namespace {

// ITU-T H.264, table 7-1.
constexpr int kSlice = 1;
constexpr int kInstantRefresh = 5;

// Reads the numbers of a slice header: Exp-Golomb codes (ITU-T H.264, 9.1).
class Bits {
  public:
    explicit Bits(Bytes bytes) : bytes_(bytes) {}

    std::optional<unsigned> number() {
        int zeros = 0;
        while (zeros < 32 && bit() == 0) {
            ++zeros;
        }
        if (zeros >= 32) {
            return std::nullopt;
        }
        unsigned value = 1;
        for (int i = 0; i < zeros; ++i) {
            value = value << 1U | static_cast<unsigned>(bit());
        }
        return value - 1;
    }

  private:
    // Behind the end there are zeros.
    int bit() {
        const std::size_t byte = at_ / 8;
        const int value = byte < bytes_.size() ? bytes_[byte] >> (7 - at_ % 8) & 1 : 0;
        ++at_;
        return value;
    }

    Bytes bytes_;
    std::size_t at_ = 0;
};

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
    Bits bits(unit.subspan(1));
    bits.number();  // The first macroblock.
    const std::optional<unsigned> kind = bits.number();
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

bool is_key(const AVPacket& packet, const AVCodecParameters& video) {
    if ((packet.flags & AV_PKT_FLAG_KEY) == 0) {
        return false;
    }
    if (video.codec_id != AV_CODEC_ID_H264 || packet.data == nullptr) {
        return true;
    }
    const Bytes extra(video.extradata, static_cast<std::size_t>(video.extradata_size));
    return !is_refreshed_later({packet.data, static_cast<std::size_t>(packet.size)}, extra);
}

}  // namespace spdl
