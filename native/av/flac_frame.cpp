#include "av/flac_frame.h"

#include <algorithm>
#include <cstddef>

#include "av/bit_reader.h"
#include "core/file_boxes.h"

namespace spdl {
namespace {

// What the header of a frame says (RFC 9639, section 9.1).
struct FlacFrame {
    std::uint64_t number = 0;  // Of the frame, or of its first sample.
    bool counts_samples = false;
    int samples = 0;
};

// The number is coded as that of a letter in UTF-8, with one more byte at most. The third byte says how long a frame
// is, or that this follows the number.
FlacFrame read_frame(Bytes frame) {
    constexpr std::size_t kLeast = 6;
    FlacFrame read;
    if (frame.size() < kLeast || frame[0] != 0xFF || (frame[1] & 0xFC) != 0xF8) {
        return read;
    }
    read.counts_samples = (frame[1] & 1) != 0;
    std::size_t at = 5;
    read.number = frame[4];
    if ((frame[4] & 0x80) != 0) {
        unsigned bit = 0x40;
        for (; (frame[4] & bit) != 0; bit >>= 1) {
            ++at;
        }
        read.number = frame[4] & (bit - 1);
        for (std::size_t i = 5; i < std::min(at, frame.size()); ++i) {
            read.number = read.number << 6 | (frame[i] & 0x3FU);
        }
    }
    const int code = frame[2] >> 4;
    BitReader rest(frame.subspan(std::min(at, frame.size())));
    if (code == 1) {
        read.samples = 192;
    } else if (code >= 2 && code <= 5) {
        read.samples = 576 << (code - 2);
    } else if (code == 6) {
        read.samples = static_cast<int>(rest.take(8)) + 1;
    } else if (code == 7) {
        read.samples = static_cast<int>(rest.take(16)) + 1;
    } else if (code >= 8) {
        read.samples = 256 << (code - 8);
    }
    return read;
}

}  // namespace

int flac_samples(Bytes frame) {
    return read_frame(frame).samples;
}

std::int64_t total_samples(const AVCodecParameters& sound) {
    constexpr int kHeader = 34;
    constexpr std::size_t kTotal = 13;
    if (sound.codec_id != AV_CODEC_ID_FLAC || sound.extradata == nullptr || sound.extradata_size < kHeader) {
        return 0;
    }
    constexpr std::uint64_t k36Bits = 0xFFFFFFFFF;
    return static_cast<std::int64_t>(BoxReader(Bytes(sound.extradata + kTotal, 5)).take(5) & k36Bits);
}

bool has_last_frame(Bytes bytes, const AVCodecParameters& sound) {
    const auto total = static_cast<std::uint64_t>(total_samples(sound));
    if (total == 0) {
        return false;
    }
    // The header begins with how long frames are, but for the last one.
    const std::uint64_t usual = BoxReader(Bytes(sound.extradata, 2)).take(2);
    for (std::size_t at = 0; at < bytes.size(); ++at) {
        const FlacFrame frame = read_frame(bytes.subspan(at));
        const std::uint64_t first = frame.counts_samples ? frame.number : frame.number * usual;
        if (frame.samples > 0 && first + static_cast<std::uint64_t>(frame.samples) == total) {
            return true;
        }
    }
    return false;
}

}  // namespace spdl
