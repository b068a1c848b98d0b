#include "ffmpeg/ffmpeg_decoder.h"

#include <utility>

#include "ffmpeg/decode_stored.h"
#include "ffmpeg/demux.h"
#include "ffmpeg/ffmpeg_backend.h"
#include "ffmpeg/ffmpeg_frame.h"
#include "ffmpeg/ffmpeg_packet.h"
#include "ffmpeg/filter_chain.h"
#include "ffmpeg/filter_description.h"

namespace spdl {

bool FfmpegDecoder::accepts(const EncodedImage& image, const DemuxOptions& demux,
                            const DecodeOptions& decode) const noexcept {
    if (image.packet != nullptr) {
        return dynamic_cast<const FfmpegPacket*>(image.packet) != nullptr;
    }
    if (image.page) {
        return false;
    }
    return decode.backend == &ffmpeg_backend || demux.need_ffmpeg() || decode.need_ffmpeg();
}

ImageShape FfmpegDecoder::open(const EncodedImage& image, const DemuxOptions& demux, const DecodeOptions& decode) {
    filters_ = decode.backend == &ffmpeg_backend;
    time_base_ = time_base(image);
    return open(decode_stored(image, demux, decode));
}

ImageShape FfmpegDecoder::open(FramePtr frame) {
    frame_ = std::move(frame);
    ImageShape shape{{frame_->width, frame_->height}, {}, {1, 1}, false};
    if (const AVPixFmtDescriptor* const format = av_pix_fmt_desc_get(static_cast<AVPixelFormat>(frame_->format))) {
        shape.chroma_grid = {1 << format->log2_chroma_w, 1 << format->log2_chroma_h};
    }
    return shape;
}

std::optional<ImageShape> FfmpegDecoder::transform(const ImageShape& shape, const LoadOptions& options,
                                                   const CropAndFlip& crop) {
    if (!filters_) {
        return std::nullopt;
    }
    return open(filter_frame(*frame_, {0, 1}, filter_description(shape, options, crop)));
}

void FfmpegDecoder::decode(const Region& region, Place& place) {
    converter_.convert(*frame_, region.box, region.channels, place.begin({region.box.size().width, 0}));
}

FrameProperties FfmpegDecoder::properties() const {
    return FfmpegFrame(reference(*frame_), time_base_).properties();
}

std::shared_ptr<const Packet> FfmpegDecoder::demux(std::shared_ptr<const void> /*owner*/, const EncodedImage& image,
                                                   const DemuxOptions& options) {
    return std::make_shared<const FfmpegPacket>(demux_picture(image.bytes, options));
}

}  // namespace spdl
