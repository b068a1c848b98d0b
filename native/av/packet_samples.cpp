#include "av/packet_samples.h"

#include <string_view>

#include "core/file_boxes.h"

namespace spdl {
namespace {

// RFC 6716, section 3.1: the first byte of a packet says how long its frames are, and the second how many there are if
// that is not one or two.
int opus_samples(const AVPacket& packet) {
    if (packet.size < 1) {
        return 0;
    }
    constexpr int kSilk[] = {480, 960, 1920, 2880};  // 10, 20, 40 and 60 ms at 48 kHz.
    constexpr int kHybrid[] = {480, 960};
    constexpr int kCelt[] = {120, 240, 480, 960};
    constexpr int kFirstHybrid = 12;
    constexpr int kFirstCelt = 16;
    const int configuration = packet.data[0] >> 3;
    const int frame = configuration < kFirstHybrid ? kSilk[configuration & 3]
                      : configuration < kFirstCelt ? kHybrid[configuration & 1]
                                                   : kCelt[configuration & 3];
    switch (packet.data[0] & 3) {
        case 0:
            return frame;
        case 3:
            return packet.size < 2 ? 0 : frame * (packet.data[1] & 0x3F);
        default:
            return 2 * frame;
    }
}

// The header of a FLAC stream begins with the sizes of the smallest and the largest block.
int flac_samples(const AVCodecParameters& sound) {
    if (sound.extradata == nullptr || sound.extradata_size < 4) {
        return 0;
    }
    const std::uint8_t* const sizes = sound.extradata;
    const int least = sizes[0] << 8 | sizes[1];
    const int most = sizes[2] << 8 | sizes[3];
    return least == most ? least : 0;
}

// PCM has one name for each format.
bool is_pcm(AVCodecID codec) {
    return std::string_view(avcodec_get_name(codec)).starts_with("pcm_");
}

}  // namespace

int samples_of_each_packet(const AVCodecParameters& sound, const AVPacket& packet) {
    switch (sound.codec_id) {
        case AV_CODEC_ID_AAC:
        case AV_CODEC_ID_AC3:
        case AV_CODEC_ID_ALAC:
        case AV_CODEC_ID_MP2:
        case AV_CODEC_ID_MP3:
            return sound.frame_size;
        case AV_CODEC_ID_FLAC:
            return flac_samples(sound);
        case AV_CODEC_ID_OPUS:
            return opus_samples(packet);
        default:
            return 0;
    }
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

int bytes_of_sample(const AVCodecParameters& sound) {
    constexpr int kBitsOfByte = 8;
    return is_pcm(sound.codec_id) ? av_get_bits_per_sample(sound.codec_id) * sound.ch_layout.nb_channels / kBitsOfByte
                                  : 0;
}

bool is_counted(const Stream& stream) {
    if (stream.medium == Medium::kVideo) {
        return false;
    }
    const AVCodecID codec = stream.parameters->codec_id;
    switch (codec) {
        case AV_CODEC_ID_AAC:
        case AV_CODEC_ID_AC3:
        case AV_CODEC_ID_ALAC:
        case AV_CODEC_ID_FLAC:
        case AV_CODEC_ID_MP2:
        case AV_CODEC_ID_MP3:
        case AV_CODEC_ID_OPUS:
        case AV_CODEC_ID_TTA:
        case AV_CODEC_ID_VORBIS:
        case AV_CODEC_ID_WAVPACK:
            return false;
        default:
            // PCM of DVDs has times of its own.
            return codec == AV_CODEC_ID_PCM_DVD || !is_pcm(codec);
    }
}

bool times_are_exact(const Stream& stream) {
    const std::int64_t rate = stream.parameters->sample_rate;
    const AVRational unit = stream.time_base;
    // FFmpeg derives the times of Vorbis from the sizes of blocks, and gets some wrong where these change.
    return stream.parameters->codec_id != AV_CODEC_ID_VORBIS && rate > 0 && unit.num > 0 &&
           unit.den % (rate * unit.num) == 0;
}

}  // namespace spdl
