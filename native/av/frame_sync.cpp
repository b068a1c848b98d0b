#include "av/frame_sync.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/file_boxes.h"
#include "core/media_error.h"

namespace spdl {
namespace {

// ISO/IEC 11172-3, section 2.4.2.3: the word, a version, a layer, a bit rate and a sample rate that are not reserved.
bool begins_mpeg_frame(std::uint64_t word) {
    constexpr std::uint64_t kSync = 0x7FF;
    return word >> 21 == kSync && (word >> 19 & 3) != 1 && (word >> 17 & 3) != 0 && (word >> 12 & 15) != 15 &&
           (word >> 10 & 3) != 3;
}

// ISO/IEC 13818-7, section 6.2.
bool begins_adts_frame(std::uint64_t word) {
    constexpr std::uint64_t kSync = 0xFFF;
    return word >> 20 == kSync && (word >> 17 & 3) == 0;
}

// ETSI TS 102 366, section 4.3.1, in both orders of bytes.
bool begins_ac3_frame(std::uint64_t word) {
    constexpr std::uint64_t kSync = 0x0B77;
    constexpr std::uint64_t kSwapped = 0x770B;
    return word >> 16 == kSync || word >> 16 == kSwapped;
}

}  // namespace

bool may_begin_sound(const AVPacket& packet, const AVFormatContext& container) {
    const AVCodecParameters& sound = *container.streams[packet.stream_index]->codecpar;
    if (sound.codec_type != AVMEDIA_TYPE_AUDIO || packet.size == 0) {
        return true;
    }
    const std::string_view format = container.iformat->name;
    const std::uint64_t word = BoxReader({packet.data, static_cast<std::size_t>(packet.size)}).take(4);
    if (format == "mp3") {
        return begins_mpeg_frame(word);
    }
    if (format == "aac") {
        return begins_adts_frame(word);
    }
    if (format == "ac3" || format == "eac3") {
        return begins_ac3_frame(word);
    }
    // SoX and others count the byte that makes a chunk even as one of the sound.
    const bool gsm = sound.codec_id == AV_CODEC_ID_GSM || sound.codec_id == AV_CODEC_ID_GSM_MS;
    return !gsm || packet.size >= sound.block_align;
}

bool is_inner_header(const AVPacket& packet, AVCodecID codec) {
    const std::string_view bytes(reinterpret_cast<const char*>(packet.data), static_cast<std::size_t>(packet.size));
    switch (codec) {
        case AV_CODEC_ID_OPUS:  // RFC 7845, section 5.
            return bytes.starts_with("OpusHead") || bytes.starts_with("OpusTags");
        case AV_CODEC_ID_VP8:
            return bytes.starts_with("OVP80");
        case AV_CODEC_ID_THEORA:  // Theora specification, section 6.1.
            if (bytes.size() > 1 && (packet.data[0] & 0x80) != 0 && bytes.substr(1).starts_with("theora")) {
                throw MediaError(
                    "another Ogg file with Theora begins in the middle of the file, and only its own headers tell how "
                    "it is decoded: split the file where \"OggS\" stands before \"theora\", and read the parts");
            }
            return false;
        default:
            return false;
    }
}

}  // namespace spdl
