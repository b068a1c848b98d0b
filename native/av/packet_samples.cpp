#include "av/packet_samples.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "av/bit_reader.h"
#include "av/flac_frame.h"
#include "core/bytes.h"
#include "ffmpeg/libav.h"

namespace spdl {
namespace {

bool is_pcm(AVCodecID codec) {
    // PCM has one name for each format. That of discs has headers in its packets.
    return codec != AV_CODEC_ID_PCM_DVD && codec != AV_CODEC_ID_PCM_BLURAY &&
           std::string_view(avcodec_get_name(codec)).substr(0, 4) == "pcm_";
}

// RFC 6716, section 3.1: the first byte of a packet says how long its frames are, and the second how many there are if
// that is not one or two.
int opus_samples(Bytes packet) {
    if (packet.empty()) {
        return 0;
    }
    constexpr int kSilk[] = {480, 960, 1920, 2880};  // 10, 20, 40 and 60 ms at 48 kHz.
    constexpr int kHybrid[] = {480, 960};
    constexpr int kCelt[] = {120, 240, 480, 960};
    constexpr int kFirstHybrid = 12;
    constexpr int kFirstCelt = 16;
    const int configuration = packet[0] >> 3;
    const int frame = configuration < kFirstHybrid ? kSilk[configuration & 3]
                      : configuration < kFirstCelt ? kHybrid[configuration & 1]
                                                   : kCelt[configuration & 3];
    switch (packet[0] & 3) {
        case 0:
            return frame;
        case 3:
            return packet.size() < 2 ? 0 : frame * (packet[1] & 0x3F);
        default:
            return 2 * frame;
    }
}

// The header of ALAC says how long packets are,
int alac_usual(const AVCodecParameters& sound) {
    constexpr int kPlace = 12;
    if (sound.extradata_size < kPlace + 4) {
        return 0;
    }
    BitReader bits(Bytes(sound.extradata, static_cast<std::size_t>(sound.extradata_size)).subspan(kPlace));
    return static_cast<int>(bits.take(32) & 0x7FFFFFFF);
}

// and the elements of a packet whether it has another length.
int alac_samples(Bytes packet, int usual) {
    constexpr std::size_t kBefore = 3 + 4 + 12;
    BitReader bits(packet);
    bits.skip(kBefore);
    const bool told = bits.take(1) != 0;
    bits.skip(3);
    return told ? static_cast<int>(bits.take(32) & 0x7FFFFFFF) : usual;
}

// ISO/IEC 11172-3 and 13818-3, section 2.4.2.3: the version and the layer.
int mpeg_samples(Bytes frame) {
    constexpr unsigned kLayerThree = 1;
    constexpr unsigned kFirstVersion = 3;
    if (frame.size() < 4 || frame[0] != 0xFF || (frame[1] & 0xE0) != 0xE0) {
        return 0;
    }
    const bool short_frame = ((frame[1] >> 1) & 3U) == kLayerThree && ((frame[1] >> 3) & 3U) != kFirstVersion;
    return short_frame ? 576 : 1152;
}

}  // namespace

void PacketSamples::Free::operator()(AVVorbisParseContext* context) const noexcept {
    av_vorbis_parse_free(&context);
}

PacketSamples::PacketSamples(const AVCodecParameters& sound) : sound_(sound) {
    if (sound.codec_id == AV_CODEC_ID_VORBIS) {
        vorbis_.reset(av_vorbis_parse_init(sound.extradata, sound.extradata_size));
    }
}

bool PacketSamples::known() const {
    switch (sound_.codec_id) {
        case AV_CODEC_ID_AAC:
            return sound_.frame_size > 0;
        case AV_CODEC_ID_ALAC:
            return alac_usual(sound_) > 0;
        case AV_CODEC_ID_AC3:
        case AV_CODEC_ID_FLAC:
        case AV_CODEC_ID_MP2:
        case AV_CODEC_ID_MP3:
        case AV_CODEC_ID_OPUS:
            return true;
        case AV_CODEC_ID_VORBIS:
            return vorbis_ != nullptr;
        default:
            return is_pcm(sound_.codec_id) && sound_.ch_layout.nb_channels > 0 &&
                   av_get_exact_bits_per_sample(sound_.codec_id) >= 8;
    }
}

int PacketSamples::of(const AVPacket& packet) {
    const Bytes bytes(packet.data, static_cast<std::size_t>(packet.size));
    switch (sound_.codec_id) {
        case AV_CODEC_ID_AAC:
            return sound_.frame_size;
        case AV_CODEC_ID_ALAC:
            return alac_samples(bytes, alac_usual(sound_));
        case AV_CODEC_ID_AC3:
            return 1536;
        case AV_CODEC_ID_FLAC:
            return flac_samples(bytes);
        case AV_CODEC_ID_MP2:
        case AV_CODEC_ID_MP3:
            return mpeg_samples(bytes);
        case AV_CODEC_ID_OPUS:
            return opus_samples(bytes);
        case AV_CODEC_ID_VORBIS:
            return vorbis_samples(packet);
        default:
            return packet.size / (av_get_exact_bits_per_sample(sound_.codec_id) / 8) / sound_.ch_layout.nb_channels;
    }
}

int PacketSamples::vorbis_samples(const AVPacket& packet) {
    std::size_t size = 0;
    if (const std::uint8_t* const header = av_packet_get_side_data(&packet, AV_PKT_DATA_NEW_EXTRADATA, &size)) {
        if (AVVorbisParseContext* const next = av_vorbis_parse_init(header, static_cast<int>(size))) {
            vorbis_.reset(next);
        }
    }
    int flags = 0;
    const int samples = av_vorbis_parse_frame_flags(vorbis_.get(), packet.data, packet.size, &flags);
    if (flags != 0) {
        // A header: the decoder begins anew.
        av_vorbis_parse_reset(vorbis_.get());
        return 0;
    }
    return std::max(samples, 0);
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
    switch (stream.parameters->codec_id) {
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
            break;
        default:
            if (!is_pcm(stream.parameters->codec_id)) {
                return true;
            }
    }
    return !times_are_exact(stream);
}

bool times_are_exact(const Stream& stream) {
    const std::int64_t rate = stream.parameters->sample_rate;
    const AVRational unit = stream.time_base;
    return rate > 0 && unit.num > 0 && unit.den % (rate * unit.num) == 0;
}

}  // namespace spdl
