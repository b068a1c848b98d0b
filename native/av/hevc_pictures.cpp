#include "av/hevc_pictures.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <string>

#include "core/limits.h"
#include "core/media_error.h"
#include "ffmpeg/build_info.h"
#include "ffmpeg/ffmpeg_log.h"
#include "ffmpeg/known_colors.h"
#include "image/heic/heif_decoder.h"
#include "media/backend.h"

namespace spdl {
namespace {

constexpr const char* kTried = "cannot decode the HEIF";

PacketPtr joined(std::span<const Bytes> pieces) {
    std::size_t size = 0;
    for (const Bytes piece : pieces) {
        size += piece.size();
    }
    if (size == 0 || size > kMaxEncodedBytes) {
        throw MediaError(std::string(kTried) + ": an item has " + std::to_string(size) + " bytes");
    }
    PacketPtr packet = make_packet();
    if (av_new_packet(packet.get(), static_cast<int>(size)) < 0) {
        throw std::bad_alloc();
    }
    std::uint8_t* to = packet->data;
    for (const Bytes piece : pieces) {
        to = std::ranges::copy(piece, to).out;
    }
    return packet;
}

// Where slices are missing, memory would show an earlier picture.
int take_clean_buffer(AVCodecContext* context, AVFrame* frame, int flags) {
    const int code = avcodec_default_get_buffer2(context, frame, flags);
    for (std::size_t i = 0; code >= 0 && i < AV_NUM_DATA_POINTERS && frame->buf[i] != nullptr; ++i) {
        std::memset(frame->buf[i]->data, 0, static_cast<std::size_t>(frame->buf[i]->size));
    }
    return code;
}

// The samples of a decoded picture, whose format is one of planes.
CodedPicture picture_of(const AVFrame& frame) {
    const AVPixFmtDescriptor* const format = av_pix_fmt_desc_get(static_cast<AVPixelFormat>(frame.format));
    if (format == nullptr || (format->flags & AV_PIX_FMT_FLAG_HWACCEL) != 0) {
        throw MediaError(std::string(kTried) + ": its samples are of an unknown format");
    }
    const int planes = av_pix_fmt_count_planes(static_cast<AVPixelFormat>(frame.format));
    CodedPicture picture;
    picture.layout = {format->comp[0].depth, planes == 1, {format->log2_chroma_w, format->log2_chroma_h}};
    picture.colors = {frame.colorspace, frame.color_primaries, frame.color_range == AVCOL_RANGE_JPEG};
    for (std::size_t plane = 0; plane < static_cast<std::size_t>(std::min(planes, 3)); ++plane) {
        picture.planes[plane] = frame.data[plane];
        picture.row_distances[plane] = frame.linesize[plane];
    }
    return picture;
}

}  // namespace

CodedPicture HevcPictures::decode(Bytes config, std::span<const Bytes> pieces, Size size) {
    const FfmpegLog log;
    if (!context_ || size != size_ || !std::ranges::equal(config, config_)) {
        forget();
        open(config, size);
    }
    const PacketPtr packet = joined(pieces);
    frame_ = make_frame();
    log.check(avcodec_send_packet(context_.get(), packet.get()), kTried);
    int code = avcodec_receive_frame(context_.get(), frame_.get());
    if (code == AVERROR(EAGAIN)) {
        log.check(avcodec_send_packet(context_.get(), nullptr), kTried);
        code = avcodec_receive_frame(context_.get(), frame_.get());
    }
    log.check(code, kTried);
    // What follows has nothing to do with this picture.
    avcodec_flush_buffers(context_.get());
    if (frame_->width != size.width || frame_->height != size.height) {
        throw MediaError(std::string(kTried) + ": an item is said to have " + std::to_string(size.width) + "x" +
                         std::to_string(size.height) + " pixels, and its picture has " + std::to_string(frame_->width) +
                         "x" + std::to_string(frame_->height));
    }
    forget_unknown_colors(*frame_);
    return picture_of(*frame_);
}

void HevcPictures::open(Bytes config, Size size) {
    const FfmpegLog log;
    const AVCodec* const decoder = avcodec_find_decoder(AV_CODEC_ID_HEVC);
    if (decoder == nullptr) {
        throw MediaError("FFmpeg has no decoder for \"hevc\". " + remedy_for_missing_part());
    }
    CodecContextPtr context(avcodec_alloc_context3(decoder));
    if (!context) {
        throw std::bad_alloc();
    }
    context->extradata = static_cast<std::uint8_t*>(av_mallocz(config.size() + AV_INPUT_BUFFER_PADDING_SIZE));
    if (context->extradata == nullptr) {
        throw std::bad_alloc();
    }
    std::ranges::copy(config, context->extradata);
    context->extradata_size = static_cast<int>(config.size());
    // Images are decoded in parallel by the caller, one thread each.
    context->thread_count = 1;
    // FFmpeg counts the pixels of padded rows.
    constexpr std::int64_t kPadding = 64 * kMaxSide;
    context->max_pixels = std::int64_t{size.width} * size.height + kPadding;
    context->get_buffer2 = take_clean_buffer;
    context->err_recognition |= AV_EF_EXPLODE | AV_EF_CRCCHECK;
    log.check(avcodec_open2(context.get(), decoder, nullptr), kTried);
    context_ = std::move(context);
    config_.assign(config.begin(), config.end());
    size_ = size;
}

void HevcPictures::forget() noexcept {
    frame_.reset();
    context_.reset();
    config_.clear();
}

extern const Backend heif_backend;
const Backend heif_backend{
    "heif", "decodes HEIF (HEIC) only, without FFmpeg's options",
    []() -> std::unique_ptr<Decoder> { return std::make_unique<HeifDecoder>(std::make_unique<HevcPictures>()); }};

}  // namespace spdl
