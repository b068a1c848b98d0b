#include "ffmpeg/ffmpeg_packet.h"

#include <utility>

#include "ffmpeg/decode.h"
#include "ffmpeg/ffmpeg_frame.h"

namespace spdl {
namespace {

Rational rational(AVRational value) {
    return {value.num, value.den};
}

}  // namespace

FfmpegPacket::FfmpegPacket(ImagePacket packet) : packet_(std::move(packet)) {}

const CodecInfo& FfmpegPacket::info() const {
    std::call_once(examined_, [this] {
        const FramePtr frame = decode_picture(packet_, {});
        info_ = {avcodec_get_name(packet_.parameters->codec_id),
                 {frame->width, frame->height},
                 ffmpeg_format_name(frame->format),
                 rational(packet_.time_base),
                 rational(frame->sample_aspect_ratio)};
    });
    return info_;
}

}  // namespace spdl
