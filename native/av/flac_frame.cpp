#include "av/flac_frame.h"

#include <algorithm>
#include <cstddef>

#include "av/bit_reader.h"
#include "core/file_boxes.h"
#include "ffmpeg/times.h"

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

void tell_times(AVPacket& frame, const AVStream& stream) {
    const AVCodecParameters& sound = *stream.codecpar;
    const FlacFrame found = read_frame({frame.data, static_cast<std::size_t>(frame.size)});
    if (found.samples == 0 || sound.extradata_size < 4 || sound.sample_rate <= 0) {
        return;
    }
    // The header begins with how long frames are, at least and at most, but for the last one.
    BoxReader header(Bytes(sound.extradata, 4));
    const std::uint64_t least = header.take(2);
    if (!found.counts_samples && least != header.take(2)) {
        return;
    }
    const AVRational sample{1, sound.sample_rate};
    const auto first = static_cast<std::int64_t>(found.counts_samples ? found.number : found.number * least);
    frame.pts = frame.dts = rescale_time(first, sample, stream.time_base);
    frame.duration = rescale_time(found.samples, sample, stream.time_base);
}

}  // namespace spdl
