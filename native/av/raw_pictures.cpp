#include "av/raw_pictures.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "av/container.h"
#include "av/stream_decoder.h"
#include "core/byte_sink.h"
#include "core/media_error.h"
#include "core/memory_source.h"
#include "ffmpeg/ffmpeg_log.h"
#include "ffmpeg/output.h"

namespace spdl {
namespace {

struct FreeOutput {
    void operator()(AVFormatContext* context) const noexcept { avformat_free_context(context); }
};

using Contents = std::vector<std::uint8_t>;

class MemorySink final : public ByteSink {
  public:
    [[nodiscard]] bool can_seek() const override { return true; }

    void write(Bytes bytes) override {
        contents_.resize(std::max(contents_.size(), position_ + bytes.size()));
        std::ranges::copy(bytes, contents_.begin() + static_cast<std::ptrdiff_t>(position_));
        position_ += bytes.size();
    }

    void seek(std::int64_t position) override { position_ = static_cast<std::size_t>(position); }

    std::size_t read_back(std::int64_t position, std::uint8_t* into, std::size_t size) override {
        const Bytes rest = Bytes(contents_).subspan(std::min(static_cast<std::size_t>(position), contents_.size()));
        const Bytes part = rest.first(std::min(size, rest.size()));
        std::ranges::copy(part, into);
        return part.size();
    }

    [[nodiscard]] Contents take() { return std::move(contents_); }

  private:
    Contents contents_;
    std::size_t position_ = 0;
};

// Returns a size at which rows end as those of the given size do: they may be filled up to a multiple of some bytes.
int small_side(int side) {
    constexpr int kRows = 16;
    return kRows + side % kRows;
}

// Returns the bytes of a small picture, no two parts of which are alike.
Contents make_picture(const AVCodecParameters& stream) {
    const int size = av_image_get_buffer_size(static_cast<AVPixelFormat>(stream.format), small_side(stream.width),
                                              small_side(stream.height), 1);
    Contents picture(static_cast<std::size_t>(std::max(size, 0)));
    std::uint32_t state = 1;
    for (std::uint8_t& byte : picture) {
        state = state * 1664525U + 1013904223U;
        byte = static_cast<std::uint8_t>(state >> 24U);
    }
    if (stream.format == AV_PIX_FMT_PAL8) {
        // Colours of a palette, behind the pixels, are written without their alpha.
        constexpr std::size_t kColor = 4;
        constexpr std::size_t kPalette = 256 * kColor;
        for (std::size_t end = picture.size() - kPalette + kColor; end <= picture.size(); end += kColor) {
            picture[end - 1] = 0xFF;
        }
    }
    return picture;
}

// Returns a file of one picture, with the zeros behind it that libavformat's probes read; nothing if there is
// none, which is for Muxer::open to say.
Contents write_picture(const AVOutputFormat& format, const AVStream& like, const Contents& picture) {
    AVFormatContext* made = nullptr;
    if (avformat_alloc_output_context2(&made, &format, nullptr, nullptr) < 0) {
        throw std::bad_alloc();
    }
    const std::unique_ptr<AVFormatContext, FreeOutput> context(made);
    AVStream* const stream = avformat_new_stream(made, nullptr);
    if (stream == nullptr || avcodec_parameters_copy(stream->codecpar, like.codecpar) < 0) {
        throw std::bad_alloc();
    }
    MemorySink sink;
    Output output(sink);
    made->pb = output.context();
    stream->codecpar->width = small_side(like.codecpar->width);
    stream->codecpar->height = small_side(like.codecpar->height);
    stream->time_base = {1, 25};
    stream->avg_frame_rate = {25, 1};
    const PacketPtr packet = make_packet();
    if (av_new_packet(packet.get(), static_cast<int>(picture.size())) < 0) {
        throw std::bad_alloc();
    }
    std::ranges::copy(picture, packet->data);
    packet->pts = packet->dts = 0;
    packet->duration = 1;
    packet->flags = AV_PKT_FLAG_KEY;
    const FfmpegLog log;
    if (avformat_write_header(made, nullptr) < 0) {
        return {};
    }
    av_packet_rescale_ts(packet.get(), {1, 25}, stream->time_base);
    if (av_write_frame(made, packet.get()) < 0 || av_write_trailer(made) < 0) {
        return {};
    }
    avio_flush(made->pb);
    Contents file = sink.take();
    file.resize(file.size() + AVPROBE_PADDING_SIZE);
    return file;
}

// Returns whether the contents of a file tell that it is one of that format. Pictures without a header do not.
bool is_told(const AVOutputFormat& format, Contents& file) {
    const AVProbeData probe{"", file.data(), static_cast<int>(file.size()) - AVPROBE_PADDING_SIZE, nullptr};
    const AVInputFormat* const found = av_probe_input_format(&probe, 1);
    return found != nullptr && av_match_name(format.name, found->name) != 0;
}

std::string_view name_of(int format) {
    const char* const name = av_get_pix_fmt_name(static_cast<AVPixelFormat>(format));
    return name == nullptr ? "nothing that is known" : name;
}

// Returns whether pictures have the same bytes; there are names for each range of colours.
bool alike(std::string_view a, std::string_view b) {
    constexpr std::string_view kFullRange = "yuvj";
    const auto plain = [&](std::string_view name) {
        return name.substr(0, kFullRange.size()) == kFullRange ? "yuv" + std::string(name.substr(kFullRange.size()))
                                                               : std::string(name);
    };
    return plain(a) == plain(b);
}

// Returns the bytes of the first picture, and the name of its pixel format.
std::pair<Contents, std::string_view> read_picture(Bytes file) {
    Container container(std::make_unique<MemorySource>(file), {});
    const std::shared_ptr<const Stream> stream = container.begin(0, {});
    StreamDecoder decoder(stream, {});
    while (const PacketPtr packet = container.read()) {
        decoder.add(packet.get());
        if (const FramePtr frame = decoder.get()) {
            const auto format = static_cast<AVPixelFormat>(frame->format);
            const int size = av_image_get_buffer_size(format, frame->width, frame->height, 1);
            Contents picture(static_cast<std::size_t>(std::max(size, 0)));
            av_image_copy_to_buffer(picture.data(), size, frame->data, frame->linesize, format, frame->width,
                                    frame->height, 1);
            return {std::move(picture), name_of(format)};
        }
    }
    throw MediaError("there is no picture in it");
}

// Returns what is wrong with what is read; "" if nothing is.
std::string compare(std::string_view format, const Contents& picture, Bytes file) {
    try {
        const auto [found, name] = read_picture(file);
        if (!alike(format, name)) {
            return "would be read as " + std::string(name);
        }
        return found == picture ? "" : "would be read with other pixels at this width";
    } catch (const MediaError& error) {
        return std::string("cannot be read again (") + error.what() + ")";
    }
}

}  // namespace

void check_raw_pictures(const AVOutputFormat& format, const AVStream& stream) {
    if (stream.codecpar->codec_id != AV_CODEC_ID_RAWVIDEO) {
        return;
    }
    const Contents picture = make_picture(*stream.codecpar);
    Contents file = picture.empty() ? Contents() : write_picture(format, stream, picture);
    if (file.empty() || !is_told(format, file)) {
        return;
    }
    const std::string_view given = name_of(stream.codecpar->format);
    const std::string wrong = compare(given, picture, Bytes(file).first(file.size() - AVPROBE_PADDING_SIZE));
    if (!wrong.empty()) {
        throw MediaError("a file in the format \"" + std::string(format.name) + "\" cannot hold raw pictures of " +
                         std::string(given) + ": what FFmpeg writes " + wrong +
                         ". Choose the format \"nut\", another pix_fmt, or an encoder that loses nothing, such as "
                         "\"ffv1\"");
    }
}

}  // namespace spdl
