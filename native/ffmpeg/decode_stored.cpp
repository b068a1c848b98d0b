#include "ffmpeg/decode_stored.h"

#include <string>

#include "core/media_error.h"
#include "ffmpeg/decode.h"
#include "ffmpeg/demux.h"
#include "ffmpeg/ffmpeg_packet.h"

namespace spdl {
namespace {

const ImagePacket& packet_of(const EncodedImage& image) {
    return dynamic_cast<const FfmpegPacket&>(*image.packet).get();
}

AVCodecID find_codec(const EncodedImage& image) {
    const std::string name(image.codec);
    const AVCodecDescriptor* const codec = avcodec_descriptor_get_by_name(name.c_str());
    if (codec == nullptr) {
        throw MediaError("FFmpeg has no codec \"" + name + "\"");
    }
    return codec->id;
}

}  // namespace

FramePtr decode_stored(const EncodedImage& image, const DemuxOptions& demux, const DecodeOptions& decode) {
    if (image.packet != nullptr) {
        return decode_picture(packet_of(image), decode);
    }
    if (!image.codec.empty()) {
        // The pictures of AVIF and HEIC are inside of containers.
        if (const AVCodecID codec = find_codec(image); codec != AV_CODEC_ID_AV1 && codec != AV_CODEC_ID_HEVC) {
            return decode_picture(whole_packet(image.bytes, codec), decode);
        }
    }
    return decode_picture(demux_picture(image.bytes, demux), decode);
}

AVRational time_base(const EncodedImage& image) {
    constexpr AVRational kImageTimeBase{1, 25};  // The unit of FFmpeg's image demuxers.
    return image.packet == nullptr ? kImageTimeBase : packet_of(image).time_base;
}

}  // namespace spdl
