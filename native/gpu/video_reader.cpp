#include "gpu/video_reader.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/bytes.h"
#include "core/interrupt.h"
#include "core/media_error.h"
#include "gpu/workspace.h"

namespace spdl {
namespace {

std::optional<cuda::VideoCodec> codec_of(AVCodecID codec) {
    switch (codec) {
        case AV_CODEC_ID_MPEG1VIDEO:
            return cuda::VideoCodec::kMpeg1;
        case AV_CODEC_ID_MPEG2VIDEO:
            return cuda::VideoCodec::kMpeg2;
        case AV_CODEC_ID_MPEG4:
            return cuda::VideoCodec::kMpeg4;
        case AV_CODEC_ID_H264:
            return cuda::VideoCodec::kH264;
        case AV_CODEC_ID_HEVC:
            return cuda::VideoCodec::kHevc;
        case AV_CODEC_ID_VP8:
            return cuda::VideoCodec::kVp8;
        case AV_CODEC_ID_VP9:
            return cuda::VideoCodec::kVp9;
        case AV_CODEC_ID_AV1:
            return cuda::VideoCodec::kAv1;
        default:
            return std::nullopt;
    }
}

// Returns the filter that brings packets into the form of a stream without a container, which NVDEC reads; nothing if
// they have it.
const char* filter_for(const AVCodecParameters& parameters) {
    const bool boxed = parameters.extradata_size > 0 && parameters.extradata[0] == 1;
    if (boxed && parameters.codec_id == AV_CODEC_ID_H264) {
        return "h264_mp4toannexb";
    }
    return boxed && parameters.codec_id == AV_CODEC_ID_HEVC ? "hevc_mp4toannexb" : nullptr;
}

// Returns what the container says in place of the stream, and the decoder needs first.
std::vector<std::uint8_t> header_of(const AVCodecParameters& parameters) {
    const Bytes extra(parameters.extradata, static_cast<std::size_t>(std::max(parameters.extradata_size, 0)));
    switch (parameters.codec_id) {
        case AV_CODEC_ID_AV1: {
            // Behind four bytes of a box lies the sequence header.
            constexpr std::size_t kBox = 4;
            const bool boxed = extra.size() > kBox && extra[0] == 0x81;
            const Bytes header = boxed ? extra.subspan(kBox) : Bytes();
            return {header.begin(), header.end()};
        }
        case AV_CODEC_ID_VP8:
        case AV_CODEC_ID_VP9:
            return {};
        default:
            return {extra.begin(), extra.end()};
    }
}

// FFmpeg's, and everybody's, choice for videos that do not say.
constexpr int kUsualMatrix = 6;

}  // namespace

GpuVideoReader::GpuVideoReader(std::shared_ptr<const Stream> stream, const VideoGeometry& geometry, Target target)
    : stream_(std::move(stream)), geometry_(geometry), target_(std::move(target)) {
    const AVCodecParameters& parameters = *stream_->parameters;
    const std::optional<cuda::VideoCodec> codec = codec_of(parameters.codec_id);
    if (!codec) {
        throw MediaError(stream_->describe() + ": NVDEC decodes no " + avcodec_get_name(parameters.codec_id) +
                         "; decode it on the CPU, with decode_packets or load_video");
    }
    codec_ = *codec;
    if (const char* const filter = filter_for(parameters)) {
        filter_ = std::make_unique<BitStreamFilter>(stream_, filter);
    } else {
        header_ = header_of(parameters);
    }
    cuda::nvcuvid();
    const cuda::ContextScope scope(target_.device);
    cuda::check(cuda::driver().create_event(&copied_, cuda::kQuietEvent), "cuEventCreate", "preparing a video decoder");
}

GpuVideoReader::~GpuVideoReader() {
    if (!cuda::is_usable()) {
        return;
    }
    try {
        const cuda::ContextScope scope(target_.device);
        drop_parser();
        cuda::driver().destroy_event(copied_);
        if (mapped_) {
            // The memory that the frame is copied to must not go before the copy is done.
            cuda::driver().wait_for_stream(target_.stream);
            decoder_->unmap(*mapped_);
        }
        if (decoder_ && !error_ && target_.reuse) {
            keep_decoder(std::move(decoder_));
        }
        decoder_.reset();
    } catch (const cuda::CudaError&) {
        // The process is ending, or a failure has ended everything on the device.
    }
}

void GpuVideoReader::drop_parser() noexcept {
    if (parser_ != nullptr) {
        cuda::nvcuvid().destroy_parser(parser_);
        parser_ = nullptr;
    }
}

void GpuVideoReader::begin() {
    cuda::VideoParserOptions options;
    options.codec = codec_;
    // The sequence callback says how many there are.
    options.max_decode_surfaces = 1;
    const AVRational base = stream_->time_base;
    options.clock_rate = base.num == 1 && base.den > 0 ? static_cast<unsigned>(base.den) : 0;
    // A few pictures are decoded before the first is read.
    options.max_display_delay = 2;
    options.user = this;
    options.on_sequence = &on_sequence;
    options.on_decode = &on_decode;
    options.on_show = &on_show;
    cuda::check(cuda::nvcuvid().create_parser(&parser_, &options), "cuvidCreateVideoParser", "reading video packets");
    first_ = true;
}

void GpuVideoReader::decode(const PacketList& packets) {
    const cuda::ContextScope scope(target_.device);
    if (error_) {
        std::rethrow_exception(error_);
    }
    window_ = packets.window;
    if (parser_ == nullptr) {
        begin();
    }
    std::vector<PacketPtr> filtered;
    for (const PacketPtr& packet : packets.packets) {
        check_interrupt();
        if (!filter_) {
            send(*packet);
            continue;
        }
        filtered.clear();
        filter_->add(reference(*packet), filtered);
        for (const PacketPtr& each : filtered) {
            send(*each);
        }
    }
}

void GpuVideoReader::end() {
    const cuda::ContextScope scope(target_.device);
    if (parser_ == nullptr) {
        return;
    }
    if (filter_) {
        std::vector<PacketPtr> rest;
        filter_->flush(rest);
        for (const PacketPtr& each : rest) {
            send(*each);
        }
    }
    parse({cuda::kEndOfStream, 0, nullptr, 0});
    return_frame();
    drop_parser();
}

void GpuVideoReader::send(const AVPacket& packet) {
    if (is_empty(packet)) {
        return;
    }
    cuda::VideoPacket sent;
    sent.data = packet.data;
    sent.size = static_cast<unsigned long>(packet.size);
    sent.timestamp = time_of(packet);
    sent.flags = sent.timestamp == AV_NOPTS_VALUE ? 0 : cuda::kHasTimestamp;
    std::vector<std::uint8_t> joined;
    if (first_ && !header_.empty()) {
        joined = header_;
        joined.insert(joined.end(), packet.data, packet.data + packet.size);
        sent.data = joined.data();
        sent.size = joined.size();
    }
    first_ = false;
    parse(sent);
}

void GpuVideoReader::parse(cuda::VideoPacket packet) {
    const cuda::Status status = cuda::nvcuvid().parse(parser_, &packet);
    if (error_) {
        std::rethrow_exception(error_);
    }
    cuda::check(status, "cuvidParseVideoData", "reading video packets");
}

template <typename Work>
int GpuVideoReader::guarded(const Work& work) noexcept {
    if (error_) {
        return 0;
    }
    try {
        return work();
    } catch (...) {
        error_ = std::current_exception();
        return 0;
    }
}

int GpuVideoReader::on_sequence(void* self, cuda::VideoFormat* format) noexcept {
    auto* const reader = static_cast<GpuVideoReader*>(self);
    return reader->guarded([&] { return reader->take_format(*format); });
}

int GpuVideoReader::on_decode(void* self, cuda::VideoPicture* picture) noexcept {
    auto* const reader = static_cast<GpuVideoReader*>(self);
    return reader->guarded([&] {
        if (!reader->decoder_) {
            throw MediaError("the video does not begin with the header of a sequence");
        }
        reader->decoder_->decode(picture);
        return 1;
    });
}

int GpuVideoReader::on_show(void* self, cuda::ShownPicture* picture) noexcept {
    auto* const reader = static_cast<GpuVideoReader*>(self);
    return reader->guarded([&] {
        if (picture != nullptr) {
            reader->show(*picture);
        }
        return 1;
    });
}

int GpuVideoReader::take_format(const cuda::VideoFormat& format) {
    const cuda::VideoDecoderOptions options = options_for(format, geometry_);
    colors_ = {is_known_matrix(format.matrix) ? format.matrix : kUsualMatrix, (format.signal & 8U) != 0};
    // The frames of the decoder go before it changes.
    return_frame();
    if (decoder_ && decoder_->serves(target_.device, options)) {
        decoder_->reconfigure(options);
    } else {
        decoder_.reset();
        decoder_ = take_decoder(target_.device, options, target_.reuse);
    }
    return static_cast<int>(decoder_->options().decode_surfaces);
}

void GpuVideoReader::show(const cuda::ShownPicture& picture) {
    const AVRational base = stream_->time_base;
    if (is_before(picture.timestamp, base, window_) || is_after(picture.timestamp, base, window_)) {
        return;
    }
    const Size size{static_cast<int>(decoder_->options().target_width),
                    static_cast<int>(decoder_->options().target_height)};
    const cuda::DevicePointer place = next_place(size);
    const MappedFrame frame = decoder_->map(picture, target_.stream);
    const auto release = [&] {
        cuda::driver().wait_for_stream(target_.stream);
        decoder_->unmap(frame);
    };
    try {
        cuda::Copy2d copy;
        copy.from = frame.address;
        copy.from_pitch = frame.pitch;
        copy.to = place;
        copy.to_pitch = static_cast<std::size_t>(size.width);
        copy.width_bytes = static_cast<std::size_t>(size.width);
        copy.height = static_cast<std::size_t>(size.height);
        const char* const what = "copying a decoded frame";
        cuda::check(cuda::driver().copy_2d(&copy, target_.stream), "cuMemcpy2DAsync", what);
        // The plane of chroma lies behind that of luma in both.
        copy.from += std::size_t{frame.pitch} * copy.height;
        copy.to += copy.to_pitch * copy.height;
        copy.height /= 2;
        cuda::check(cuda::driver().copy_2d(&copy, target_.stream), "cuMemcpy2DAsync", what);
        return_frame();
        cuda::check(cuda::driver().record_event(copied_, target_.stream), "cuEventRecord", what);
    } catch (...) {
        release();
        throw;
    }
    mapped_ = frame;
    ++chunks_.back().frames;
}

cuda::DevicePointer GpuVideoReader::next_place(Size size) {
    if (!chunks_.empty() && chunks_.back().size != size) {
        throw MediaError("the size of the frames changes from " + std::to_string(chunks_.back().size.width) + "x" +
                         std::to_string(chunks_.back().size.height) + " to " + std::to_string(size.width) + "x" +
                         std::to_string(size.height) + ": give both scale_width and scale_height");
    }
    const std::size_t bytes = rgb_bytes(size) / 2;
    if (chunks_.empty() || chunks_.back().frames == chunk_frames_) {
        chunks_.push_back({target_.allocate(bytes * chunk_frames_), 0, size});
    }
    return chunks_.back().memory.pointer + bytes * chunks_.back().frames;
}

void GpuVideoReader::return_frame() {
    if (mapped_) {
        cuda::check(cuda::driver().wait_for_event(copied_), "cuEventSynchronize", "copying a decoded frame");
        const MappedFrame frame = *std::exchange(mapped_, std::nullopt);
        decoder_->unmap(frame);
    }
}

std::vector<FrameChunk> GpuVideoReader::take(bool all) {
    const cuda::ContextScope scope(target_.device);
    return_frame();
    std::vector<FrameChunk> taken = std::move(chunks_);
    chunks_.clear();
    if (!all && !taken.empty() && taken.back().frames < chunk_frames_) {
        chunks_.push_back(std::move(taken.back()));
        taken.pop_back();
    }
    return taken;
}

FrameChunk join(std::vector<FrameChunk> chunks, const GpuVideoReader::Target& target) {
    if (chunks.size() == 1) {
        return std::move(chunks.front());
    }
    FrameChunk joined;
    joined.size = chunks.front().size;
    for (const FrameChunk& chunk : chunks) {
        joined.frames += chunk.frames;
    }
    const std::size_t bytes = rgb_bytes(joined.size) / 2;
    joined.memory = target.allocate(bytes * joined.frames);
    const cuda::ContextScope scope(target.device);
    Workspace workspace(target.device, target.stream);
    workspace.begin();
    cuda::Copy2d copy;
    copy.to = joined.memory.pointer;
    copy.width_bytes = static_cast<std::size_t>(joined.size.width);
    copy.from_pitch = copy.width_bytes;
    copy.to_pitch = copy.width_bytes;
    for (const FrameChunk& chunk : chunks) {
        copy.from = chunk.memory.pointer;
        copy.height = bytes * chunk.frames / copy.width_bytes;
        cuda::check(cuda::driver().copy_2d(&copy, target.stream), "cuMemcpy2DAsync", "joining frames");
        copy.to += bytes * chunk.frames;
    }
    workspace.finish();
    return joined;
}

}  // namespace spdl
