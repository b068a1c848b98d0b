#include "av/muxer.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <numeric>
#include <utility>

#include "av/container.h"
#include "av/frame_arrays.h"
#include "core/errors.h"
#include "ffmpeg/ffmpeg_log.h"

namespace spdl {
namespace {

const AVOutputFormat& find_format(const std::string& format, const std::string& file_name) {
    const AVOutputFormat* const found = av_guess_format(format.empty() ? nullptr : format.c_str(),
                                                        format.empty() ? file_name.c_str() : nullptr, nullptr);
    if (found == nullptr && format.empty()) {
        throw MediaError(
            "the name does not tell the file format: give it a suffix that FFmpeg knows, such as \".mp4\", "
            "or pass format=\"mp4\"");
    }
    if (found == nullptr) {
        throw MediaError("FFmpeg has no muxer \"" + format + "\". " + remedy_for_missing_part());
    }
    if ((found->flags & AVFMT_NOFILE) != 0) {
        throw MediaError(std::string("the file format \"") + found->name +
                         "\" is not one file, which is what a Muxer writes; save_image writes single images");
    }
    return *found;
}

// Returns a number of units per second that divides the streams' numbers.
int common_rate(const AVFormatContext& context) {
    // Ten million are a ten thousandth of a sample off at most. A finer unit makes numbers of 64 bits necessary soon.
    constexpr std::int64_t kMost = 10'000'000;
    std::int64_t common = 1;
    for (unsigned i = 0; i < context.nb_streams; ++i) {
        const std::int64_t rate = std::max(context.streams[i]->time_base.den, 1);
        const std::int64_t both = std::lcm(common, rate);
        if (both > kMost) {
            return static_cast<int>(kMost);
        }
        common = both;
    }
    constexpr std::int64_t kFine = 1000;
    return static_cast<int>(common < kFine ? common * (kFine / common) : common);
}

// Some muxers read back what they wrote, to move it. Nothing else is ever opened.
int open_again(AVFormatContext* context, AVIOContext** io, const char* url, int flags, AVDictionary** /*options*/) {
    if (context->url == nullptr || std::strcmp(url, context->url) != 0 || (flags & AVIO_FLAG_WRITE) != 0) {
        av_log(context, AV_LOG_ERROR, "the muxer wants to write another file, which is never opened");
        return AVERROR(EACCES);
    }
    try {
        *io = static_cast<Output*>(context->opaque)->open_reader();
    } catch (const std::bad_alloc&) {
        return AVERROR(ENOMEM);
    }
    return 0;
}

int close_again(AVFormatContext* /*context*/, AVIOContext* io) {
    Output::close_reader(io);
    return 0;
}

}  // namespace

Muxer::Muxer(const std::string& format, const std::string& file_name) {
    const FfmpegLog log;
    AVFormatContext* made = nullptr;
    log.check(avformat_alloc_output_context2(&made, &find_format(format, file_name), nullptr, file_name.c_str()),
              "cannot make the muxer");
    context_.reset(made);
    context_->flags |= AVFMT_FLAG_CUSTOM_IO;
    context_->io_open = open_again;
    context_->io_close2 = close_again;
}

std::string Muxer::what() const {
    return std::string("cannot write the file as ") + context_->oformat->name;
}

int Muxer::add_stream(const Stream& stream) {
    if (state_ != State::kNew) {
        throw MediaError("streams can only be added before the Muxer is opened");
    }
    const AVCodecID codec = stream.parameters->codec_id;
    if (avformat_query_codec(context_->oformat, codec, FF_COMPLIANCE_NORMAL) == 0) {
        throw MediaError(std::string("a file in the format \"") + context_->oformat->name +
                         "\" cannot hold the codec \"" + avcodec_get_name(codec) +
                         "\": choose another format, such as \"matroska\", or another encoder");
    }
    AVStream* const added = avformat_new_stream(context_.get(), nullptr);
    require_memory(added != nullptr && avcodec_parameters_copy(added->codecpar, stream.parameters.get()) >= 0);
    // Tags are the names of codecs in one file format; another may have none, or others.
    const AVCodecTag* const* const tags = context_->oformat->codec_tag;
    if (tags != nullptr && av_codec_get_id(tags, added->codecpar->codec_tag) != codec) {
        added->codecpar->codec_tag = 0;
    }
    check_raw_pictures(*context_->oformat, *added);
    added->time_base = stream.time_base;
    if (stream.frame_rate.num > 0) {
        added->avg_frame_rate = stream.frame_rate;
        added->r_frame_rate = stream.frame_rate;
    }
    added->sample_aspect_ratio = added->codecpar->sample_aspect_ratio;
    return added->index;
}

void Muxer::check_new() const {
    if (state_ != State::kNew) {
        throw MediaError("the Muxer was opened before: each Muxer writes one file");
    }
    if (context_->nb_streams == 0) {
        throw MediaError("the Muxer has no streams: call add_encode_stream or add_remux_stream first");
    }
}

void Muxer::open(std::unique_ptr<ByteSink> sink, const OptionList& options) {
    check_new();
    sink_ = std::move(sink);
    output_ = std::make_unique<Output>(*sink_);
    context_->pb = output_->context();
    context_->opaque = output_.get();
    const FfmpegLog log;
    LibavOptions given;
    // MP4 gives the start of a stream in a separate unit, which is a millisecond by default.
    const AVClass* known = context_->oformat->priv_class;
    if (av_opt_find(&known, "movie_timescale", nullptr, 0, AV_OPT_SEARCH_FAKE_OBJ) != nullptr) {
        given.set("movie_timescale", std::to_string(common_rate(*context_)).c_str());
    }
    for (const auto& [key, value] : options) {
        given.set(key.c_str(), value.c_str());
    }
    // Before the file begins, so that wrong options leave nothing behind.
    const int code = avformat_init_output(context_.get(), given.get());
    state_ = State::kClosed;
    log.check(code, what().c_str());
    given.check_all_used("muxer", context_->oformat->name);
    const int written = avformat_write_header(context_.get(), nullptr);
    output_->rethrow();
    log.check(written, what().c_str());
    state_ = State::kOpen;
}

void Muxer::check_open() const {
    if (state_ != State::kOpen) {
        throw MediaError(state_ == State::kNew ? "the Muxer is not open: call open() after all streams were added"
                                               : "the Muxer was closed");
    }
}

void Muxer::write(int stream, const PacketList& packets) {
    check_open();
    if (stream < 0 || stream >= static_cast<int>(context_->nb_streams)) {
        throw MediaError("there is no stream " + std::to_string(stream) + ": the Muxer has " +
                         std::to_string(context_->nb_streams));
    }
    const AVStream& to = *context_->streams[stream];
    const AVCodecID codec = packets.stream->parameters->codec_id;
    if (codec != to.codecpar->codec_id) {
        throw MediaError("stream " + std::to_string(stream) + " of the Muxer takes packets of the codec \"" +
                         avcodec_get_name(to.codecpar->codec_id) + "\", but these are of \"" + avcodec_get_name(codec) +
                         "\"");
    }
    const FfmpegLog log;
    for (const PacketPtr& packet : packets.packets) {
        PacketPtr shared = reference(*packet);
        shared->stream_index = stream;
        for (const std::int64_t time : {shared->pts, shared->dts}) {
            if (time != AV_NOPTS_VALUE) {
                static_cast<void>(rescale_time(time, packets.stream->time_base, to.time_base));
            }
        }
        av_packet_rescale_ts(shared.get(), packets.stream->time_base, to.time_base);
        const int code = av_interleaved_write_frame(context_.get(), shared.get());
        output_->rethrow();
        log.check(code, what().c_str());
    }
}

void Muxer::flush() {
    check_open();
    const FfmpegLog log;
    const int code = av_interleaved_write_frame(context_.get(), nullptr);
    avio_flush(context_->pb);
    output_->rethrow();
    log.check(code, what().c_str());
}

void Muxer::close() {
    check_open();
    state_ = State::kClosed;
    const FfmpegLog log;
    const int code = av_write_trailer(context_.get());
    avio_flush(context_->pb);
    output_->rethrow();
    log.check(code, what().c_str());
    log.check(context_->pb->error, what().c_str());
    output_->go_to_end();
}

PictureWriter::PictureWriter(const LoadOptions& options, int rotation)
    : options_(options), rotation_(options.upright ? rotation : 0), scratch_(thread_scratch()) {}

// Returns the picture as it lies on the canvas, but not turned yet; null if most of it would be cut off.
FramePtr PictureWriter::scaled(const AVFrame& frame, const Orientation& orientation) {
    const Size stored{frame.width, frame.height};
    const Placement placement = place(orientation.upright_size(stored), options_.target, options_.fit);
    const auto pixels = [](Size size) { return static_cast<std::int64_t>(size.width) * size.height; };
    constexpr std::int64_t kMost = 4;
    if (pixels(placement.image) > kMost * pixels(placement.canvas)) {
        return nullptr;
    }
    const Size size = orientation.upright_size(placement.image);
    return reference(scaler_.scale(frame, size, options_.format.channels(), options_.interpolation));
}

bool PictureWriter::open_planes(const AVFrame& frame, const Orientation& orientation) {
    planes_ = options_.exact ? std::nullopt : yuv_planes(frame);
    if (!planes_) {
        return false;
    }
    const ImageShape shape{{frame.width, frame.height}, orientation};
    plan_ = plan_image(shape, options_, {whole(shape.upright()), false});
    if (plan_.black || !YuvResizer::takes(plan_.resampling)) {
        planes_.reset();
    }
    return planes_.has_value();
}

Size PictureWriter::open(const AVFrame& frame) {
    const Orientation orientation = turned_by(rotation_);
    if (open_planes(frame, orientation)) {
        return plan_.canvas;
    }
    FramePtr picture = options_.exact ? nullptr : scaled(frame, orientation);
    ImageShape shape = decoder_.open(picture ? std::move(picture) : reference(frame));
    shape.orientation = orientation;
    plan_ = plan_image(shape, options_, {whole(shape.upright()), false});
    return plan_.canvas;
}

void PictureWriter::write(std::uint8_t* to) {
    if (planes_) {
        scratch_.yuv_resizer.write(*planes_, plan_.resampling, {to, plan_.canvas, &options_.format}, plan_.target);
        planes_.reset();
        return;
    }
    write_image(decoder_, plan_, options_.format, to, scratch_);
    decoder_.close();
}

}  // namespace spdl
